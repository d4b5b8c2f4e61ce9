"""TorchRL's tutorial "Task-specific policy in multi-task environments", on lite: two pendulums."""

from lite import LazyStackedTensorDict, nn
from lite.envs import CatTensors, GymEnv, SerialEnv, TransformedEnv
from lite.nn import MLP, TensorDictModule, TensorDictSequential


def maker(planet, g):
    return lambda: TransformedEnv(
        GymEnv("Pendulum-v1", g=g), CatTensors(["observation"], f"observation_{planet}", del_keys=False)
    )


earth, moon = maker("earth", 9.8), maker("moon", 1.6)
tdreset = LazyStackedTensorDict.lazy_stack([earth().reset(), moon().reset()], 0)
print(tdreset[0])

policy_common = TensorDictModule(nn.Linear(3, 16), in_keys=["observation"], out_keys=["hidden"])
heads = [
    TensorDictModule(
        MLP(3 + 16, 1, depth=2), in_keys=[f"observation_{planet}", "hidden"], out_keys=["action"]
    )
    for planet in ("earth", "moon")
]
policy = TensorDictSequential(policy_common, *heads, partial_tolerant=True)
policy(tdreset)  # each row by the head of its planet

env = SerialEnv(2, [earth, moon])
env.set_seed(0)
start = policy(env.reset())
stepped = env.step(start.clone())
print(stepped[0])  # with "observation_earth", which the other row lacks
rollout = env.rollout(5, policy, return_contiguous=False)
print(rollout[1])
