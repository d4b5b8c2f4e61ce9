"""TorchRL's sota-implementations/dqn/dqn_cartpole.py, on lite."""

import sys

import numpy as np

import lite
from lite.data import Collector, LazyTensorStorage, TensorDictReplayBuffer
from lite.envs import ExplorationType, GymEnv, RewardSum, StepCounter, TransformedEnv, set_exploration_type
from lite.nn import MLP, EGreedyModule, QValueActor, ReLU, TensorDictSequential
from lite.nn.losses import DQNLoss, HardUpdate
from lite.optim import Adam


def make_env():
    env = TransformedEnv(GymEnv("CartPole-v1"))
    env.append_transform(RewardSum())
    env.append_transform(StepCounter())
    return env


def make_dqn_model():
    proof_env = make_env()
    input_shape = proof_env.observation_spec["observation"].shape
    action_spec = proof_env.action_spec
    mlp = MLP(
        in_features=input_shape[-1],
        out_features=action_spec.space.n,
        num_cells=[120, 84],
        activation_class=ReLU,
    )
    return QValueActor(module=mlp, spec=action_spec, in_keys=["observation"])


def eval_model(actor, test_env, num_episodes):
    rewards = []
    for _ in range(num_episodes):
        rollout = test_env.rollout(max_steps=10_000, policy=actor, auto_reset=True, break_when_any_done=True)
        rewards.append(rollout["next", "episode_reward"][rollout["next", "done"]].mean())
    return np.mean(rewards)


def main(
    total_frames=100_000,
    frames_per_batch=1000,
    init_random_frames=10_000,
    num_updates=100,
    seed=0,
    compile=False,
):
    model = make_dqn_model()
    greedy_module = EGreedyModule(
        annealing_num_steps=total_frames // 2, eps_init=1.0, eps_end=0.05, spec=model.spec
    )
    model_explore = TensorDictSequential(model, greedy_module)
    replay_buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(max_size=10_000), batch_size=128)
    loss_module = DQNLoss(value_network=model, loss_function="l2", delay_value=True)
    loss_module.make_value_estimator(gamma=0.99)
    target_net_updater = HardUpdate(loss_module, value_network_update_interval=50)
    optimizer = Adam(loss_module.parameters(), lr=2.5e-4)
    test_env = make_env()
    collector = Collector(
        create_env_fn=make_env(),
        policy=model_explore,
        frames_per_batch=frames_per_batch,
        total_frames=total_frames,
        max_frames_per_traj=-1,
        init_random_frames=init_random_frames,
    )
    collector.set_seed(seed)

    @lite.enable_grad()
    def update(sampled_tensordict):
        q_loss = loss_module(sampled_tensordict)["loss"]
        optimizer.zero_grad()
        q_loss.backward()
        optimizer.step()
        target_net_updater.step()
        return q_loss.detach()

    if compile:
        update = lite.jit(update)

    collected_frames, returns = 0, []
    for data in collector:
        data = data.reshape(-1)
        replay_buffer.extend(data)
        collected_frames += data.numel()
        greedy_module.step(data.numel())
        episode_rewards = data["next", "episode_reward"][data["next", "done"]]
        if len(episode_rewards) > 0:
            returns.append(episode_rewards.mean().item())
        if collected_frames < init_random_frames:
            continue
        for _ in range(num_updates):
            update(replay_buffer.sample())
        collector.update_policy_weights_()
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        test_reward = eval_model(model.eval(), test_env, 10)
    collector.shutdown()
    return test_reward, returns


if __name__ == "__main__":
    print(main(*map(int, sys.argv[1:]))[0])
