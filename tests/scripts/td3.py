"""TorchRL's sota-implementations/td3, on lite: Pendulum in place of HalfCheetah."""

import sys

from off_policy import learn
from sac import make_env

import lite
from lite.data import Collector, LazyTensorStorage, TensorDictReplayBuffer
from lite.nn import (
    MLP,
    AdditiveGaussianModule,
    ReLU,
    TanhModule,
    TensorDictModule,
    TensorDictSequential,
    ValueOperator,
)
from lite.nn.losses import SoftUpdate, TD3Loss
from lite.optim import Adam


def make_agent(env, cells=(256, 256)):
    action_spec = env.action_spec
    actor_net = MLP(num_cells=cells, out_features=action_spec.shape[-1], activation_class=ReLU)
    actor = TensorDictSequential(
        TensorDictModule(actor_net, in_keys=["observation"], out_keys=["param"]),
        TanhModule(in_keys=["param"], out_keys=["action"], spec=action_spec),
    )
    qvalue_net = MLP(num_cells=cells, out_features=1, activation_class=ReLU)
    qvalue = ValueOperator(in_keys=["action", "observation"], module=qvalue_net)
    td = env.fake_tensordict()
    actor(td)
    qvalue(td)
    noise = AdditiveGaussianModule(
        sigma_init=1, sigma_end=1, mean=0, std=0.1, spec=action_spec, annealing_num_steps=1
    )
    return actor, qvalue, TensorDictSequential(actor, noise)


def main(
    total_frames=20_000, frames_per_batch=200, init_random_frames=1000, utd_ratio=1.0, seed=0, compile=False
):
    train_env, eval_env = make_env(), make_env()
    actor, qvalue, exploration_policy = make_agent(train_env)
    loss_module = TD3Loss(
        actor_network=actor,
        qvalue_network=qvalue,
        num_qvalue_nets=2,
        loss_function="smooth_l1",
        delay_actor=True,
        delay_qvalue=True,
        action_spec=train_env.action_spec,
        policy_noise=0.2,
        noise_clip=0.5,
    )
    loss_module.make_value_estimator(gamma=0.99)
    target_net_updater = SoftUpdate(loss_module, eps=0.995)
    critic_params = list(loss_module.qvalue_network_params.flatten_keys().values())
    actor_params = list(loss_module.actor_network_params.flatten_keys().values())
    optimizer_actor, optimizer_critic = Adam(actor_params, lr=3e-4), Adam(critic_params, lr=3e-4)
    replay_buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(total_frames), batch_size=256)
    collector = Collector(
        train_env,
        exploration_policy,
        init_random_frames=init_random_frames,
        frames_per_batch=frames_per_batch,
        total_frames=total_frames,
    )
    collector.set_seed(seed)

    @lite.enable_grad()
    def update(sampled_tensordict, update_actor):
        q_loss, *_ = loss_module.value_loss(sampled_tensordict)
        q_loss.backward()
        optimizer_critic.step()
        optimizer_critic.zero_grad(set_to_none=True)
        if update_actor:
            actor_loss, *_ = loss_module.actor_loss(sampled_tensordict)
            actor_loss.backward()
            optimizer_actor.step()
            optimizer_actor.zero_grad(set_to_none=True)
            target_net_updater.step()

    return learn(
        collector, replay_buffer, update, eval_env, exploration_policy, init_random_frames=init_random_frames,
        updates=int(frames_per_batch * utd_ratio), actor_every=2, compile=compile,
    )  # fmt: skip


if __name__ == "__main__":
    print(main(*map(int, sys.argv[1:]))[0])
