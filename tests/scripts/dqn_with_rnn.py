"""TorchRL's tutorial "Recurrent DQN: training recurrent policies", on lite: CartPole without its pixels."""

import sys
import tempfile

import lite
from lite import nn
from lite.data import Collector, LazyMemmapStorage, SliceSampler, TensorDictReplayBuffer
from lite.envs import (
    Compose,
    GymEnv,
    InitTracker,
    ObservationNorm,
    RewardScaling,
    StepCounter,
    TransformedEnv,
)
from lite.nn import EGreedyModule, LSTMModule, QValueModule
from lite.nn import TensorDictModule as Mod
from lite.nn import TensorDictSequential as Seq
from lite.nn.losses import DQNLoss, SoftUpdate
from lite.optim import Adam


def main(total_frames=20_000, begin=1000, utd=16, seed=0):
    env = TransformedEnv(
        GymEnv("CartPole-v1"),
        Compose(
            StepCounter(),
            InitTracker(),
            RewardScaling(loc=0.0, scale=0.1),
            ObservationNorm(standard_normal=True, in_keys=["observation"]),
        ),
    )
    env.set_seed(seed)
    env.transform[-1].init_stats(1000, reduce_dim=[0], cat_dim=0)
    feature = Mod(nn.MLP(4, 32, num_cells=[]), in_keys=["observation"], out_keys=["embed"])
    n_cells = feature(env.reset())["embed"].shape[-1]
    lstm = LSTMModule(input_size=n_cells, hidden_size=64, in_key="embed", out_key="embed")
    env.append_transform(lstm.make_tensordict_primer())
    mlp = nn.MLP(out_features=2, num_cells=[64])
    mlp = Mod(mlp, in_keys=["embed"], out_keys=["action_value"])
    qval = QValueModule(action_space=None, spec=env.action_spec)
    policy = Seq(feature, lstm, mlp, qval)
    exploration_module = EGreedyModule(annealing_num_steps=total_frames, spec=env.action_spec, eps_init=0.2)
    stoch_policy = Seq(policy, exploration_module)
    policy(env.reset())
    loss_fn = DQNLoss(policy, action_space=env.action_spec, delay_value=True)
    updater = SoftUpdate(loss_fn, eps=0.95)
    optim = Adam(policy.parameters(), lr=3e-4)
    with tempfile.TemporaryDirectory() as buffer_scratch_dir:
        rb = TensorDictReplayBuffer(
            storage=LazyMemmapStorage(total_frames, scratch_dir=buffer_scratch_dir),
            sampler=SliceSampler(slice_len=50, end_key=("next", "done"), strict_length=False),
            batch_size=200,
        )
        collector = Collector(env, stoch_policy, frames_per_batch=50, total_frames=total_frames)
        longest, returns = 0, []
        for data in collector:
            rb.extend(data.reshape(-1))
            longest = max(longest, data["next", "step_count"].max().item())
            returns.extend(data["next", "step_count"][data["next", "done"]].tolist())
            if len(rb) < begin:
                continue
            with lite.enable_grad():
                for _ in range(utd):
                    loss_vals = loss_fn(rb.sample())
                    loss_vals["loss"].backward()
                    optim.step()
                    optim.zero_grad()
            exploration_module.step(collector.frames_per_batch)
            updater.step()
        collector.shutdown()
    return longest, returns


if __name__ == "__main__":
    print(main(*map(int, sys.argv[1:]))[0])
