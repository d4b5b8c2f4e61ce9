"""TorchRL's sota-implementations/ppo/ppo_mujoco.py, on lite: Pendulum in place of HalfCheetah."""

import sys

from a2c import make_env, make_models

import lite
from lite import TensorDict
from lite.data import GAE, Collector, LazyTensorStorage, SamplerWithoutReplacement, TensorDictReplayBuffer
from lite.envs import ExplorationType, set_exploration_type
from lite.nn.losses import ClipPPOLoss
from lite.optim import Adam, clip_grad_norm_


def main(total_frames=100_000, frames_per_batch=2048, epochs=10, seed=0, compile=False):
    train_env = make_env()
    actor, critic = make_models(train_env)
    collector = Collector(train_env, actor, frames_per_batch=frames_per_batch, total_frames=total_frames)
    collector.set_seed(seed)
    data_buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(frames_per_batch), sampler=SamplerWithoutReplacement(), batch_size=64
    )
    adv_module = GAE(gamma=0.9, lmbda=0.95, value_network=critic, average_gae=False)
    loss_module = ClipPPOLoss(
        actor_network=actor,
        critic_network=critic,
        clip_epsilon=0.2,
        loss_critic_type="l2",
        entropy_coeff=0.0,
        critic_coeff=0.25,
        normalize_advantage=True,
    )
    actor_optim, critic_optim = Adam(actor.parameters(), lr=3e-4), Adam(critic.parameters(), lr=3e-4)

    @lite.enable_grad()
    def update(batch):
        loss = loss_module(batch)
        (loss["loss_objective"] + loss["loss_entropy"] + loss["loss_critic"]).backward()
        clip_grad_norm_(actor.parameters(), max_norm=0.5)
        actor_optim.step()
        critic_optim.step()
        actor_optim.zero_grad()
        critic_optim.zero_grad()
        return loss.detach()

    if compile:
        update = lite.jit(update)

    returns, losses = [], None
    for data in collector:
        returns.extend(data["next", "episode_reward"][data["next", "done"]].tolist())
        for _ in range(epochs):
            data = adv_module(data)
            data_buffer.extend(data.reshape(-1))
            losses = TensorDict.stack([update(batch) for batch in data_buffer], 0)
        collector.update_policy_weights_()
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        rollout = train_env.rollout(200, actor)
    collector.shutdown()
    return rollout["next", "episode_reward"][-1].item(), returns, losses


if __name__ == "__main__":
    print(main(*map(int, sys.argv[1:]))[0])
