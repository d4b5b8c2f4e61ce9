"""TorchRL's tutorial "Get started with your own first training loop", on lite."""

import time

import lite
from lite.data import Collector, LazyTensorStorage, ReplayBuffer
from lite.envs import GymEnv, StepCounter, TransformedEnv
from lite.nn import MLP, EGreedyModule, QValueModule
from lite.nn import TensorDictModule as Mod
from lite.nn import TensorDictSequential as Seq
from lite.nn.losses import DQNLoss, SoftUpdate
from lite.optim import Adam


def main(init_rand_steps=5000, long_enough=200, total_frames=-1, seed=0):
    env = TransformedEnv(GymEnv("CartPole-v1"), StepCounter())
    env.set_seed(seed)

    value_mlp = MLP(out_features=env.action_spec.shape[-1], num_cells=[64, 64])
    value_net = Mod(value_mlp, in_keys=["observation"], out_keys=["action_value"])
    policy = Seq(value_net, QValueModule(spec=env.action_spec))
    exploration_module = EGreedyModule(env.action_spec, annealing_num_steps=100_000, eps_init=0.5)
    policy_explore = Seq(policy, exploration_module)

    frames_per_batch, optim_steps = 100, 10
    collector = Collector(
        env,
        policy_explore,
        frames_per_batch=frames_per_batch,
        total_frames=total_frames,
        init_random_frames=init_rand_steps,
    )
    rb = ReplayBuffer(storage=LazyTensorStorage(100_000))
    loss = DQNLoss(value_network=policy, action_space=env.action_spec, delay_value=True)
    optim = Adam(loss.parameters(), lr=0.02)
    updater = SoftUpdate(loss, eps=0.99)

    total_count, returns, t0 = 0, [], time.time()
    for i, data in enumerate(collector):
        rb.extend(data)
        num_frames = data.numel()
        total_count += num_frames
        returns.extend(data["next", "step_count"][data["next", "done"]].tolist())
        exploration_module.step(num_frames)
        max_length = rb[:]["next", "step_count"].max()
        if len(rb) > init_rand_steps:
            with lite.enable_grad():
                for _ in range(optim_steps):
                    sample = rb.sample(128)
                    loss_vals = loss(sample)
                    loss_vals["loss"].backward()
                    optim.step()
                    optim.zero_grad()
                    updater.step()
            if i % 10 == 0:
                print(f"Max num steps: {max_length}, rb length {len(rb)}")
        if max_length > long_enough:
            break
    print(
        f"{max_length} steps after {total_count} steps, {len(returns)} episodes and in {time.time() - t0}s."
    )
    return max_length, returns


if __name__ == "__main__":
    main()
