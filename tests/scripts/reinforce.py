"""TorchRL's reinforce (sota-implementations/reinforce_trainer), as a loop on lite, for CartPole."""

import sys

import lite
from lite import nn
from lite.data import Collector
from lite.envs import ExplorationType, GymEnv, RewardSum, StepCounter, TransformedEnv, set_exploration_type
from lite.nn import ProbabilisticActor, TensorDictModule, ValueOperator
from lite.nn.distributions import OneHotCategorical
from lite.nn.losses import ReinforceLoss
from lite.optim import Adam


def make_env():
    env = TransformedEnv(GymEnv("CartPole-v1"))
    env.append_transform(RewardSum())
    env.append_transform(StepCounter())
    return env


def main(total_frames=100_000, frames_per_batch=1000, seed=0):
    env = make_env()
    inputs, actions = env.observation_spec["observation"].shape[-1], env.action_spec.space.n
    actor = ProbabilisticActor(
        TensorDictModule(nn.MLP(inputs, actions, num_cells=[64, 64]), ["observation"], ["logits"]),
        in_keys=["logits"],
        spec=env.action_spec,
        distribution_class=OneHotCategorical,
        return_log_prob=True,
    )
    critic = ValueOperator(nn.MLP(inputs, 1, num_cells=[64, 64]), in_keys=["observation"])
    loss_module = ReinforceLoss(actor_network=actor, critic_network=critic)
    loss_module.make_value_estimator(gamma=0.99)
    optimizer = Adam(loss_module.parameters(), lr=2e-3)
    collector = Collector(env, actor, frames_per_batch=frames_per_batch, total_frames=total_frames)
    collector.set_seed(seed)
    returns = []
    for data in collector:
        with lite.enable_grad():
            loss = loss_module(data)
            (loss["loss_actor"] + loss["loss_value"]).backward()
        optimizer.step()
        optimizer.zero_grad()
        collector.update_policy_weights_()
        returns.extend(data["next", "episode_reward"][data["next", "done"]].tolist())
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        rollout = env.rollout(500, actor)
    collector.shutdown()
    return rollout["next", "episode_reward"][-1].item(), returns


if __name__ == "__main__":
    print(main(*map(int, sys.argv[1:]))[0])
