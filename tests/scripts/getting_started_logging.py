"""TorchRL's tutorial "Get started with logging", on lite: scalars, as a device has no screen."""

from lite.data import CSVLogger
from lite.envs import GymEnv

logger = CSVLogger(exp_name="my_exp")
logger.log_scalar("my_scalar", 0.4)

env = GymEnv("CartPole-v1")
rollout = env.rollout(max_steps=3)
for step, reward in enumerate(rollout["next", "reward"]):
    logger.log_scalar("reward", reward.item(), step=step)
