"""TorchRL's sota-implementations/iql/discrete_iql.py, on lite: CartPole, learnt while it is played."""

import sys

from off_policy import learn

import lite
from lite import nn
from lite.data import Collector, LazyMemmapStorage, TensorDictReplayBuffer
from lite.envs import (
    Compose,
    DoubleToFloat,
    GymEnv,
    InitTracker,
    RewardSum,
    StepCounter,
    TransformedEnv,
)
from lite.nn import InteractionType, ProbabilisticActor, SafeModule, TensorDictModule
from lite.nn.distributions import Categorical
from lite.nn.losses import DiscreteIQLLoss, HardUpdate
from lite.optim import Adam, group_optimizers


def make_env():
    return TransformedEnv(
        GymEnv("CartPole-v1", categorical_action_encoding=True),
        Compose(InitTracker(), StepCounter(500), DoubleToFloat(), RewardSum()),
    )


def make_models(env, cells=(256, 256)):
    spec = env.action_spec

    def mlp(outputs):
        return nn.MLP(num_cells=cells, out_features=outputs, activation_class=nn.ReLU)

    actor = ProbabilisticActor(
        spec=spec,
        module=SafeModule(module=mlp(spec.space.n), in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"],
        out_keys=["action"],
        distribution_class=Categorical,
        default_interaction_type=InteractionType.RANDOM,
        return_log_prob=False,
    )
    qvalue = TensorDictModule(mlp(spec.space.n), in_keys=["observation"], out_keys=["state_action_value"])
    value = TensorDictModule(mlp(1), in_keys=["observation"], out_keys=["state_value"])
    td = env.fake_tensordict()
    for net in (actor, qvalue, value):
        net(td)
    return actor, qvalue, value


def main(total_frames=20_000, frames_per_batch=200, init_random_frames=1000, seed=0, compile=False):
    train_env, eval_env = make_env(), make_env()
    actor, qvalue, value = make_models(train_env)
    loss_module = DiscreteIQLLoss(
        actor,
        qvalue,
        value_network=value,
        loss_function="l2",
        temperature=100,
        expectile=0.8,
        action_space="categorical",
    )
    loss_module.make_value_estimator(gamma=0.99)
    target_net_updater = HardUpdate(loss_module, value_network_update_interval=10)
    networks = ("actor_network_params", "qvalue_network_params", "value_network_params")
    optimizer = group_optimizers(
        *(Adam(list(getattr(loss_module, name).flatten_keys().values()), lr=3e-4) for name in networks)
    )
    replay_buffer = TensorDictReplayBuffer(storage=LazyMemmapStorage(total_frames), batch_size=256)
    collector = Collector(
        train_env,
        actor,
        init_random_frames=init_random_frames,
        frames_per_batch=frames_per_batch,
        total_frames=total_frames,
    )
    collector.set_seed(seed)

    @lite.enable_grad()
    def update(sampled_tensordict):
        optimizer.zero_grad(set_to_none=True)
        actor_loss, _ = loss_module.actor_loss(sampled_tensordict)
        value_loss, _ = loss_module.value_loss(sampled_tensordict)
        qvalue_loss, _ = loss_module.qvalue_loss(sampled_tensordict)
        (actor_loss + value_loss + qvalue_loss).backward()
        optimizer.step()
        target_net_updater.step()

    return learn(
        collector, replay_buffer, update, eval_env, actor, init_random_frames=init_random_frames,
        updates=frames_per_batch, steps=500, compile=compile,
    )  # fmt: skip


if __name__ == "__main__":
    print(main(*map(int, sys.argv[1:]))[0])
