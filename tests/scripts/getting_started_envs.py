"""TorchRL's tutorial "Get started with Environments, TED and transforms", on lite."""

from lite.envs import GymEnv, StepCounter, TransformedEnv, step_mdp

env = GymEnv("Pendulum-v1")
reset = env.reset()
print(reset)

reset_with_action = env.rand_action(reset)
print(reset_with_action["action"])
stepped_data = env.step(reset_with_action)
print(stepped_data)
data = step_mdp(stepped_data)
print(data)

rollout = env.rollout(max_steps=10)
print(rollout)
transition = rollout[3]
print(transition)

transformed_env = TransformedEnv(env, StepCounter(max_steps=10))
rollout = transformed_env.rollout(max_steps=100)
print(rollout)
print(rollout["next", "truncated"])
