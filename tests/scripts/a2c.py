"""TorchRL's sota-implementations/a2c/a2c_mujoco.py, on lite: Pendulum in place of HalfCheetah."""

import sys

import lite
from lite import TensorDict, nn
from lite.data import GAE, Collector, LazyTensorStorage, SamplerWithoutReplacement, TensorDictReplayBuffer
from lite.envs import (
    ClipTransform,
    ExplorationType,
    GymEnv,
    RewardSum,
    StepCounter,
    TransformedEnv,
    VecNorm,
    set_exploration_type,
)
from lite.nn import AddStateIndependentNormalScale, ProbabilisticActor, TensorDictModule, ValueOperator
from lite.nn.distributions import TanhNormal
from lite.nn.losses import A2CLoss
from lite.optim import Adam, clip_grad_norm_


def make_env():
    env = TransformedEnv(GymEnv("Pendulum-v1"))
    env.append_transform(VecNorm(in_keys=["observation"], decay=0.99999, eps=1e-2))
    env.append_transform(ClipTransform(in_keys=["observation"], low=-10, high=10))
    env.append_transform(RewardSum())
    env.append_transform(StepCounter())
    return env


def make_models(env):
    inputs, space = env.observation_spec["observation"].shape[-1], env.action_spec.space
    outputs = env.action_spec.shape[-1]
    policy_mlp = nn.MLP(
        in_features=inputs, activation_class=nn.Tanh, out_features=outputs, num_cells=[64, 64]
    )
    for layer in policy_mlp.modules():
        if isinstance(layer, nn.Linear):
            nn.init.orthogonal_(layer.weight, 1.0)
            layer.bias.data.fill(0)
    policy = ProbabilisticActor(
        TensorDictModule(
            nn.Sequential(policy_mlp, AddStateIndependentNormalScale(outputs, scale_lb=1e-8)),
            in_keys=["observation"],
            out_keys=["loc", "scale"],
        ),
        in_keys=["loc", "scale"],
        spec=env.full_action_spec,
        distribution_class=TanhNormal,
        distribution_kwargs={"low": space.low, "high": space.high, "tanh_loc": False},
        return_log_prob=True,
        default_interaction_type=ExplorationType.RANDOM,
    )
    value_mlp = nn.MLP(in_features=inputs, activation_class=nn.Tanh, out_features=1, num_cells=[64, 64])
    for layer in value_mlp.modules():
        if isinstance(layer, nn.Linear):
            nn.init.orthogonal_(layer.weight, 0.01)
            layer.bias.data.fill(0)
    return policy, ValueOperator(value_mlp, in_keys=["observation"])


def learn(env, actor, critic, collector, data_buffer, loss_module, optimizers, *, epochs=1, compile=False):
    """The return of an episode without exploration, those of the episodes on the way, and the last losses."""
    adv_module = GAE(gamma=0.9, lmbda=0.95, value_network=critic, average_gae=False)

    @lite.enable_grad()
    def update(batch):
        loss = loss_module(batch)
        sum(loss[key] for key in loss.keys() if key.startswith("loss_")).backward()  # noqa: SIM118
        clip_grad_norm_(actor.parameters(), max_norm=0.5)
        for optimizer in optimizers:
            optimizer.step()
        for optimizer in optimizers:
            optimizer.zero_grad()
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
        rollout = env.rollout(200, actor)
    collector.shutdown()
    return rollout["next", "episode_reward"][-1].item(), returns, losses


def main(total_frames=100_000, frames_per_batch=640, seed=0, compile=False):
    train_env = make_env()
    actor, critic = make_models(train_env)
    collector = Collector(train_env, actor, frames_per_batch=frames_per_batch, total_frames=total_frames)
    collector.set_seed(seed)
    data_buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(frames_per_batch), sampler=SamplerWithoutReplacement(), batch_size=64
    )
    loss_module = A2CLoss(
        actor_network=actor,
        critic_network=critic,
        loss_critic_type="l2",
        entropy_coeff=0.0,
        critic_coeff=0.25,
    )
    optimizers = Adam(actor.parameters(), lr=3e-4), Adam(critic.parameters(), lr=3e-4)
    return learn(train_env, actor, critic, collector, data_buffer, loss_module, optimizers, compile=compile)


if __name__ == "__main__":
    print(main(*map(int, sys.argv[1:]))[0])
