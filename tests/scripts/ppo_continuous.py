"""TorchRL's sota-implementations/ppo/ppo_mujoco.py, on lite: Pendulum in place of HalfCheetah."""

import sys

from a2c import learn, make_env, make_models

from lite.data import Collector, LazyTensorStorage, SamplerWithoutReplacement, TensorDictReplayBuffer
from lite.nn.losses import ClipPPOLoss
from lite.optim import Adam


def main(total_frames=100_000, frames_per_batch=2048, epochs=10, seed=0, compile=False):
    train_env = make_env()
    actor, critic = make_models(train_env)
    collector = Collector(train_env, actor, frames_per_batch=frames_per_batch, total_frames=total_frames)
    collector.set_seed(seed)
    data_buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(frames_per_batch), sampler=SamplerWithoutReplacement(), batch_size=64
    )
    loss_module = ClipPPOLoss(
        actor_network=actor,
        critic_network=critic,
        clip_epsilon=0.2,
        loss_critic_type="l2",
        entropy_coeff=0.0,
        critic_coeff=0.25,
        normalize_advantage=True,
    )
    optimizers = Adam(actor.parameters(), lr=3e-4), Adam(critic.parameters(), lr=3e-4)
    how = {"epochs": epochs, "compile": compile}
    return learn(train_env, actor, critic, collector, data_buffer, loss_module, optimizers, **how)


if __name__ == "__main__":
    print(main(*map(int, sys.argv[1:]))[0])
