"""TorchRL's sota-implementations/sac, on lite: Pendulum in place of HalfCheetah."""

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
from lite.nn import InteractionType, NormalParamExtractor, ProbabilisticActor, TensorDictModule, ValueOperator
from lite.nn.distributions import TanhNormal
from lite.nn.losses import SACLoss, SoftUpdate
from lite.optim import Adam


def make_env():
    return TransformedEnv(
        GymEnv("Pendulum-v1"),
        Compose(StepCounter(max_steps=200), InitTracker(), DoubleToFloat(), RewardSum()),
    )


def make_agent(env, cells=(256, 256)):
    action_spec = env.action_spec
    actor_net = nn.MLP(num_cells=cells, out_features=2 * action_spec.shape[-1], activation_class=nn.ReLU)
    extractor = NormalParamExtractor(scale_mapping="biased_softplus_1.0", scale_lb=0.1)
    actor = ProbabilisticActor(
        spec=action_spec,
        in_keys=["loc", "scale"],
        module=TensorDictModule(nn.Sequential(actor_net, extractor), ["observation"], ["loc", "scale"]),
        distribution_class=TanhNormal,
        distribution_kwargs={"low": action_spec.space.low, "high": action_spec.space.high, "tanh_loc": False},
        default_interaction_type=InteractionType.RANDOM,
        return_log_prob=False,
    )
    qvalue_net = nn.MLP(num_cells=cells, out_features=1, activation_class=nn.ReLU)
    qvalue = ValueOperator(in_keys=["action", "observation"], module=qvalue_net)
    td = env.fake_tensordict()
    actor(td)
    qvalue(td)
    return actor, qvalue


def main(total_frames=10_000, frames_per_batch=200, init_random_frames=1000, seed=0, compile=False):
    train_env, eval_env = make_env(), make_env()
    actor, qvalue = make_agent(train_env)
    loss_module = SACLoss(
        actor_network=actor,
        qvalue_network=qvalue,
        num_qvalue_nets=2,
        loss_function="l2",
        delay_actor=False,
        delay_qvalue=True,
        alpha_init=1.0,
    )
    loss_module.make_value_estimator(gamma=0.99)
    target_net_updater = SoftUpdate(loss_module, eps=0.995)
    optimizers = [
        Adam(list(loss_module.actor_network_params.flatten_keys().values()), lr=1e-3),
        Adam(list(loss_module.qvalue_network_params.flatten_keys().values()), lr=1e-3),
        Adam([loss_module.log_alpha], lr=1e-3),
    ]
    replay_buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(total_frames), batch_size=128)
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
        loss_td = loss_module(sampled_tensordict)
        (loss_td["loss_actor"] + loss_td["loss_qvalue"] + loss_td["loss_alpha"]).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        target_net_updater.step()

    return learn(
        collector, replay_buffer, update, eval_env, actor, init_random_frames=init_random_frames,
        updates=frames_per_batch,  compile=compile,
    )  # fmt: skip


if __name__ == "__main__":
    print(main(*map(int, sys.argv[1:]))[0])
