"""TorchRL's sota-implementations/multiagent/mappo_ippo.py, on lite: agents on a plane, in place of VMAS.

Each has a goal of its own, and none may touch another. `mappo_ippo.py [mappo|ippo]`.
"""

import sys

import numpy as np

import lite
from lite import TensorDict, nn
from lite.data import (
    Bounded,
    Collector,
    Composite,
    LazyTensorStorage,
    SamplerWithoutReplacement,
    TensorDictReplayBuffer,
    Unbounded,
)
from lite.envs import EnvBase, ExplorationType, RewardSum, StepCounter, TransformedEnv, set_exploration_type
from lite.nn import MultiAgentMLP, NormalParamExtractor, ProbabilisticActor, TensorDictModule, ValueOperator
from lite.nn.distributions import TanhNormal
from lite.nn.losses import ClipPPOLoss, ValueEstimators
from lite.optim import Adam, clip_grad_norm_


class Navigation(EnvBase):
    """Many planes at once: an action moves an agent, its reward is how much nearer its goal is."""

    def __init__(self, num_envs, n_agents=3):
        super().__init__(batch_size=[num_envs])
        self.n_agents = n_agents
        agents = (num_envs, n_agents)

        def of_agents(**specs):
            return Composite(agents=Composite(specs, shape=agents), shape=(num_envs,))

        self.observation_spec = of_agents(observation=Unbounded(shape=(*agents, 4)))
        self.action_spec = of_agents(action=Bounded(low=-1.0, high=1.0, shape=(*agents, 2)))
        self.reward_spec = of_agents(reward=Unbounded(shape=(*agents, 1)))

    def _set_seed(self, seed):
        self.random = np.random.default_rng(seed)

    def _reset(self, tensordict):
        shape = (*self.batch_size, self.n_agents, 2)
        self.places, self.goals = (self.random.uniform(-1, 1, shape).astype(np.float32) for _ in range(2))
        return TensorDict({"agents": self._agents()}, self.batch_size)

    def _step(self, tensordict):
        before = np.linalg.norm(self.goals - self.places, axis=-1, keepdims=True)
        self.places = self.places + 0.1 * np.asarray(tensordict["agents", "action"])
        nearer = before - np.linalg.norm(self.goals - self.places, axis=-1, keepdims=True)
        apart = np.linalg.norm(self.places[:, :, None] - self.places[:, None], axis=-1)
        touching = (apart < 0.1).sum(-1, keepdims=True) - 1  # each is near itself
        agents = self._agents()
        agents["reward"] = (nearer - 0.1 * touching).astype(np.float32)
        done = np.zeros((*self.batch_size, 1), bool)
        return TensorDict({"agents": agents, "done": done, "terminated": done.copy()}, self.batch_size)

    def _agents(self):
        observation = np.concatenate([self.places, self.goals - self.places], -1)
        return TensorDict({"observation": observation}, observation.shape[:2])


def make_env(num_envs, max_steps, seed):
    env = TransformedEnv(Navigation(num_envs), StepCounter(max_steps))
    env.append_transform(RewardSum(in_keys=[env.reward_key], out_keys=[("agents", "episode_reward")]))
    env.set_seed(seed)
    return env


def make_models(env, centralised, cells=64):
    spec = env.full_action_spec_unbatched
    n_obs = env.observation_spec["agents", "observation"].shape[-1]
    n_actions = spec[env.action_key].shape[-1]

    def mlp(outputs, centralised):
        return MultiAgentMLP(
            n_agent_inputs=n_obs,
            n_agent_outputs=outputs,
            n_agents=env.n_agents,
            centralised=centralised,
            share_params=True,
            depth=2,
            num_cells=cells,
            activation_class=nn.Tanh,
        )

    policy = ProbabilisticActor(
        module=TensorDictModule(
            nn.Sequential(mlp(2 * n_actions, centralised=False), NormalParamExtractor()),
            in_keys=[("agents", "observation")],
            out_keys=[("agents", "loc"), ("agents", "scale")],
        ),
        spec=spec,
        in_keys=[("agents", "loc"), ("agents", "scale")],
        out_keys=[env.action_key],
        distribution_class=TanhNormal,
        distribution_kwargs={
            "low": spec["agents", "action"].space.low,
            "high": spec["agents", "action"].space.high,
        },
        return_log_prob=True,
    )
    return policy, ValueOperator(module=mlp(1, centralised), in_keys=[("agents", "observation")])


def main(
    name="mappo",
    total_frames=60_000,
    frames_per_batch=3000,
    max_steps=50,
    epochs=10,
    minibatch_size=300,
    seed=0,
    compile=False,
):
    env = make_env(frames_per_batch // max_steps, max_steps, seed)
    eval_env = make_env(20, max_steps, seed + 1)
    policy, critic = make_models(env, centralised=name == "mappo")
    collector = Collector(env, policy, frames_per_batch=frames_per_batch, total_frames=total_frames)
    replay_buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(frames_per_batch),
        sampler=SamplerWithoutReplacement(),
        batch_size=minibatch_size,
    )
    loss_module = ClipPPOLoss(
        actor_network=policy,
        critic_network=critic,
        clip_epsilon=0.2,
        entropy_coeff=0.0,
        normalize_advantage=False,
    )
    loss_module.set_keys(
        reward=env.reward_key,
        action=env.action_key,
        done=("agents", "done"),
        terminated=("agents", "terminated"),
    )
    loss_module.make_value_estimator(ValueEstimators.GAE, gamma=0.9, lmbda=0.9)
    optim = Adam(loss_module.parameters(), 1e-3)

    @lite.enable_grad()
    def update(subdata):
        loss_vals = loss_module(subdata)
        (loss_vals["loss_objective"] + loss_vals["loss_critic"] + loss_vals["loss_entropy"]).backward()
        clip_grad_norm_(loss_module.parameters(), 1.0)
        optim.step()
        optim.zero_grad()

    if compile:
        update = lite.jit(update)

    returns = []
    for tensordict in collector:
        for key in ("done", "terminated"):  # all agents end together
            tensordict["next", "agents", key] = tensordict["next", key][..., [0] * env.n_agents][..., None]
        with lite.no_grad():
            loss_module.value_estimator(
                tensordict,
                params=loss_module.critic_network_params,
                target_params=loss_module.target_critic_network_params,
            )
        replay_buffer.extend(tensordict.reshape(-1))
        for _ in range(epochs * frames_per_batch // minibatch_size):
            update(replay_buffer.sample())
        collector.update_policy_weights_()
        done = tensordict["next", "agents", "done"]
        returns.append(tensordict["next", "agents", "episode_reward"][done].mean().item())
    with set_exploration_type(ExplorationType.DETERMINISTIC), lite.no_grad():
        rollout = eval_env.rollout(max_steps, policy, break_when_any_done=False)
    collector.shutdown()
    return rollout["next", "agents", "reward"].sum(1).mean().item(), returns


if __name__ == "__main__":
    print(main(*sys.argv[1:2])[0])
