"""TorchRL's sota-implementations/ddpg, on lite: Pendulum in place of HalfCheetah."""

import sys

from off_policy import learn
from sac import make_env

import lite
from lite.data import Collector, LazyTensorStorage, TensorDictReplayBuffer
from lite.nn import (
    MLP,
    OrnsteinUhlenbeckProcessModule,
    ReLU,
    TanhModule,
    TensorDictModule,
    TensorDictSequential,
    ValueOperator,
)
from lite.nn.losses import DDPGLoss, SoftUpdate
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
    td = env.reset()
    actor(td)
    qvalue(td)
    noise = OrnsteinUhlenbeckProcessModule(spec=action_spec, annealing_num_steps=1_000_000, safe=False)
    return actor, qvalue, TensorDictSequential(actor, noise)


def main(total_frames=10_000, frames_per_batch=200, init_random_frames=1000, seed=0, compile=False):
    train_env, eval_env = make_env(), make_env()
    actor, qvalue, exploration_policy = make_agent(train_env)
    loss_module = DDPGLoss(
        actor_network=actor, value_network=qvalue, loss_function="l2", delay_actor=True, delay_value=True
    )
    loss_module.make_value_estimator(gamma=0.99)
    target_net_updater = SoftUpdate(loss_module, eps=0.995)
    critic_params = list(loss_module.value_network_params.flatten_keys().values())
    actor_params = list(loss_module.actor_network_params.flatten_keys().values())
    optimizer_actor, optimizer_critic = Adam(actor_params, lr=3e-4), Adam(critic_params, lr=1e-3)
    replay_buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(total_frames), batch_size=128)
    collector = Collector(
        train_env,
        exploration_policy,
        init_random_frames=init_random_frames,
        frames_per_batch=frames_per_batch,
        total_frames=total_frames,
    )
    collector.set_seed(seed)

    @lite.enable_grad()
    def update(sampled_tensordict):
        q_loss, *_ = loss_module.loss_value(sampled_tensordict)
        q_loss.backward()
        optimizer_critic.step()
        optimizer_critic.zero_grad(set_to_none=True)
        actor_loss, *_ = loss_module.loss_actor(sampled_tensordict)
        actor_loss.backward()
        optimizer_actor.step()
        optimizer_actor.zero_grad(set_to_none=True)
        target_net_updater.step()

    return learn(
        collector, replay_buffer, update, eval_env, exploration_policy, init_random_frames=init_random_frames,
        updates=frames_per_batch, explores=exploration_policy[1], compile=compile,
    )  # fmt: skip


if __name__ == "__main__":
    print(main(*map(int, sys.argv[1:]))[0])
