"""TorchRL's tutorial "Get started with TorchRL's modules", on lite."""

from lite import nn
from lite.envs import ExplorationType, GymEnv, set_exploration_type
from lite.nn import (
    Actor,
    EGreedyModule,
    NormalParamExtractor,
    ProbabilisticActor,
    QValueModule,
    TensorDictModule,
    TensorDictSequential,
)
from lite.nn.distributions import Normal

env = GymEnv("Pendulum-v1")
module = nn.LazyLinear(out_features=env.action_spec.shape[-1])
policy = TensorDictModule(module, in_keys=["observation"], out_keys=["action"])
print(env.rollout(max_steps=10, policy=policy))
policy = Actor(module)
print(env.rollout(max_steps=10, policy=policy))

module = nn.MLP(out_features=env.action_spec.shape[-1], num_cells=[32, 64], activation_class=nn.Tanh)
policy = Actor(module)
rollout = env.rollout(max_steps=10, policy=policy)

backbone = nn.MLP(in_features=3, out_features=2)
module = nn.Sequential(backbone, NormalParamExtractor())
td_module = TensorDictModule(module, in_keys=["observation"], out_keys=["loc", "scale"])
policy = ProbabilisticActor(
    td_module, in_keys=["loc", "scale"], out_keys=["action"], distribution_class=Normal, return_log_prob=True
)
print(env.rollout(max_steps=10, policy=policy))
with set_exploration_type(ExplorationType.DETERMINISTIC):  # takes the mean as action
    mean_rollout = env.rollout(max_steps=10, policy=policy)
with set_exploration_type(ExplorationType.RANDOM):  # draws actions
    drawn_rollout = env.rollout(max_steps=10, policy=policy)

policy = Actor(nn.MLP(3, 1, num_cells=[32, 64]))
exploration_module = EGreedyModule(spec=env.action_spec, annealing_num_steps=1000, eps_init=0.5)
exploration_policy = TensorDictSequential(policy, exploration_module)
with set_exploration_type(ExplorationType.DETERMINISTIC):
    greedy_rollout = env.rollout(max_steps=10, policy=exploration_policy)
with set_exploration_type(ExplorationType.RANDOM):
    exploring_rollout = env.rollout(max_steps=10, policy=exploration_policy)

env = GymEnv("CartPole-v1")
print(env.action_spec)
num_actions = 2
value_net = TensorDictModule(
    nn.MLP(out_features=num_actions, num_cells=[32, 32]), in_keys=["observation"], out_keys=["action_value"]
)
policy = TensorDictSequential(value_net, QValueModule(spec=env.action_spec))
q_rollout = env.rollout(max_steps=3, policy=policy)
print(q_rollout)
policy_explore = TensorDictSequential(policy, EGreedyModule(env.action_spec))
with set_exploration_type(ExplorationType.RANDOM):
    rollout_explore = env.rollout(max_steps=3, policy=policy_explore)
