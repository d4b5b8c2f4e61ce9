"""TorchRL's offline scripts on lite: sota-implementations/iql/iql_offline.py, cql/cql_offline.py, td3_bc.

They learn from frames that were recorded before: here Pendulum's, by random actions.
`offline.py [iql|cql|td3_bc]`.
"""

import sys

import lite
from lite import nn
from lite.data import LazyTensorStorage, SamplerWithoutReplacement, TensorDictReplayBuffer
from lite.envs import DoubleToFloat, ExplorationType, GymEnv, TransformedEnv, set_exploration_type
from lite.nn import (
    NormalParamExtractor,
    ProbabilisticActor,
    TanhModule,
    TensorDictModule,
    TensorDictSequential,
    ValueOperator,
)
from lite.nn.distributions import TanhNormal
from lite.nn.losses import CQLLoss, IQLLoss, SoftUpdate, TD3BCLoss
from lite.optim import Adam


def make_env():
    return TransformedEnv(GymEnv("Pendulum-v1"), DoubleToFloat())


def record(frames, seed):
    env = make_env()
    env.set_seed(seed)
    data = env.rollout(frames, auto_reset=True, break_when_any_done=False)
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(frames), sampler=SamplerWithoutReplacement(drop_last=True), batch_size=128
    )
    buffer.append_transform(DoubleToFloat())
    buffer.extend(data)
    return buffer


def mlp(outputs, cells=(64, 64)):
    return nn.MLP(num_cells=cells, out_features=outputs, activation_class=nn.ReLU)


def make_stochastic_actor(spec):
    net = nn.Sequential(mlp(2 * spec.shape[-1]), NormalParamExtractor("biased_softplus_1.0", scale_lb=0.1))
    return ProbabilisticActor(
        module=TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        spec=spec,
        distribution_class=TanhNormal,
        distribution_kwargs={"low": spec.space.low, "high": spec.space.high, "tanh_loc": False},
        default_interaction_type=ExplorationType.RANDOM,
    )


def make_deterministic_actor(spec):
    return TensorDictSequential(
        TensorDictModule(mlp(spec.shape[-1]), in_keys=["observation"], out_keys=["param"]),
        TanhModule(in_keys=["param"], out_keys=["action"], spec=spec),
    )


def make_loss(name, env):
    spec = env.action_spec
    actor = make_deterministic_actor(spec) if name == "td3_bc" else make_stochastic_actor(spec)
    qvalue = ValueOperator(in_keys=["observation", "action"], out_keys=["state_action_value"], module=mlp(1))
    value = ValueOperator(in_keys=["observation"], out_keys=["state_value"], module=mlp(1))
    td = env.fake_tensordict()
    for net in (actor, qvalue, value):
        net(td)
    if name == "iql":
        return actor, IQLLoss(actor, qvalue, value_network=value, temperature=3.0, expectile=0.7)
    if name == "cql":
        return actor, CQLLoss(actor, qvalue, min_q_weight=1.0, num_random=10, with_lagrange=False)
    loss = TD3BCLoss(
        actor, qvalue, num_qvalue_nets=2, delay_actor=True, delay_qvalue=True, action_spec=spec, alpha=2.5
    )
    return actor, loss


def main(name="iql", gradient_steps=2000, frames=5000, seed=0, compile=False):
    env = make_env()
    replay_buffer = record(frames, seed)
    actor, loss_module = make_loss(name, env)
    loss_module.make_value_estimator(gamma=0.99)
    target_net_updater = SoftUpdate(loss_module, tau=0.005)
    optimizer = Adam(loss_module.parameters(), lr=3e-4)

    @lite.enable_grad()
    def update(data):
        loss_vals = loss_module(data)
        total = sum(value for key, value in loss_vals.items() if key.startswith("loss_"))
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        target_net_updater.step()
        return loss_vals.detach()

    if compile:
        update = lite.jit(update)

    for _ in range(gradient_steps):
        found = update(replay_buffer.sample())
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        rollout = env.rollout(200, actor)
    return rollout["next", "reward"].sum(-2).mean().item(), found


if __name__ == "__main__":
    print(main(*sys.argv[1:2])[0])
