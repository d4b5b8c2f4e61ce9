"""TorchRL's sota-implementations/discrete_sac, on lite, for CartPole."""

import sys

from off_policy import learn

import lite
from lite import nn
from lite.data import Collector, LazyTensorStorage, TensorDictReplayBuffer
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
from lite.nn.distributions import OneHotCategorical
from lite.nn.losses import DiscreteSACLoss, SoftUpdate
from lite.optim import Adam


def make_env():
    return TransformedEnv(
        GymEnv("CartPole-v1"), Compose(InitTracker(), StepCounter(500), DoubleToFloat(), RewardSum())
    )


def make_agent(env, cells=(256, 256)):
    action_spec = env.action_spec
    actor_net = nn.MLP(num_cells=cells, out_features=action_spec.space.n, activation_class=nn.ReLU)
    actor = ProbabilisticActor(
        spec=action_spec,
        in_keys=["logits"],
        module=SafeModule(module=actor_net, in_keys=["observation"], out_keys=["logits"]),
        distribution_class=OneHotCategorical,
        default_interaction_type=InteractionType.RANDOM,
        return_log_prob=False,
    )
    qvalue_net = nn.MLP(num_cells=cells, out_features=action_spec.space.n, activation_class=nn.ReLU)
    qvalue = TensorDictModule(in_keys=["observation"], out_keys=["action_value"], module=qvalue_net)
    td = env.fake_tensordict()
    actor(td)
    qvalue(td)
    return actor, qvalue


def main(
    total_frames=20_000, frames_per_batch=500, init_random_frames=2000, utd_ratio=0.2, seed=0, compile=False
):
    train_env, eval_env = make_env(), make_env()
    actor, qvalue = make_agent(train_env)
    loss_module = DiscreteSACLoss(
        actor_network=actor,
        qvalue_network=qvalue,
        action_space=train_env.action_spec,
        num_actions=train_env.action_spec.space.n,
        num_qvalue_nets=2,
        loss_function="smooth_l1",
        target_entropy_weight=0.2,
        delay_qvalue=True,
    )
    loss_module.make_value_estimator(gamma=0.99)
    target_net_updater = SoftUpdate(loss_module, eps=0.995)
    optimizers = [
        Adam(list(loss_module.actor_network_params.flatten_keys().values()), lr=3e-4),
        Adam(list(loss_module.qvalue_network_params.flatten_keys().values()), lr=3e-4),
        Adam([loss_module.log_alpha], lr=3e-4),
    ]
    replay_buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(total_frames), batch_size=256)
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
        loss_out = loss_module(sampled_tensordict)
        for name, optimizer in zip(["loss_actor", "loss_qvalue", "loss_alpha"], optimizers, strict=True):
            loss_out[name].backward()
            optimizer.step()
            optimizer.zero_grad()
        target_net_updater.step()

    return learn(
        collector, replay_buffer, update, eval_env, actor, init_random_frames=init_random_frames,
        updates=int(frames_per_batch * utd_ratio), steps=500, compile=compile,
    )  # fmt: skip


if __name__ == "__main__":
    print(main(*map(int, sys.argv[1:]))[0])
