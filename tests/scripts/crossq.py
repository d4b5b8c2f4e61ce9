"""TorchRL's sota-implementations/crossq, on lite: Pendulum in place of HalfCheetah."""

import sys

import lite
from lite import nn
from lite.data import Collector, LazyTensorStorage, TensorDictReplayBuffer
from lite.envs import (
    Compose,
    DoubleToFloat,
    ExplorationType,
    GymEnv,
    InitTracker,
    RewardSum,
    SerialEnv,
    StepCounter,
    TransformedEnv,
    set_exploration_type,
)
from lite.nn import InteractionType, NormalParamExtractor, ProbabilisticActor, TensorDictModule, ValueOperator
from lite.nn.distributions import TanhNormal
from lite.nn.losses import CrossQLoss
from lite.optim import Adam, group_optimizers


def make_env():
    return TransformedEnv(
        SerialEnv(1, lambda: GymEnv("Pendulum-v1")),
        Compose(InitTracker(), StepCounter(200), DoubleToFloat(), RewardSum()),
    )


def make_net(outputs, cells, warmup_steps):
    norm_kwargs = {"momentum": 0.01, "num_features": cells[-1], "warmup_steps": warmup_steps}
    return nn.MLP(
        num_cells=cells,
        out_features=outputs,
        activation_class=nn.ReLU,
        norm_class=nn.BatchRenorm1d,
        norm_kwargs=norm_kwargs,
    )


def make_agent(env, actor_cells=(256, 256), critic_cells=(512, 512), warmup_steps=5000):
    action_spec = env.action_spec_unbatched
    actor_net = make_net(2 * action_spec.shape[-1], actor_cells, warmup_steps)
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
    qvalue_net = make_net(1, critic_cells, warmup_steps)
    qvalue = ValueOperator(in_keys=["action", "observation"], module=qvalue_net)
    td = env.fake_tensordict()
    for net in (actor, qvalue):
        net.eval()
        net(td)
        net.train()
    return actor, qvalue


def main(total_frames=10_000, frames_per_batch=200, init_random_frames=1000, seed=0, compile=False):
    train_env, eval_env = make_env(), make_env()
    actor, qvalue = make_agent(train_env)
    loss_module = CrossQLoss(
        actor_network=actor, qvalue_network=qvalue, num_qvalue_nets=2, loss_function="l2", alpha_init=1.0
    )
    loss_module.make_value_estimator(gamma=0.99)
    critic_params = list(loss_module.qvalue_network_params.flatten_keys().values())
    actor_params = list(loss_module.actor_network_params.flatten_keys().values())
    optimizer = group_optimizers(
        Adam(actor_params, lr=1e-3, betas=(0.5, 0.999)),
        Adam(critic_params, lr=1e-3, betas=(0.5, 0.999)),
        Adam([loss_module.log_alpha], lr=1e-3),
    )
    replay_buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(total_frames), batch_size=256)
    collector = Collector(
        train_env,
        actor.eval(),
        init_random_frames=init_random_frames,
        frames_per_batch=frames_per_batch,
        total_frames=total_frames,
    )
    collector.set_seed(seed)

    @lite.enable_grad()
    def update(sampled_tensordict, update_actor):
        optimizer.zero_grad(set_to_none=True)
        loss, _ = loss_module.qvalue_loss(sampled_tensordict)
        loss = loss.mean()
        if update_actor:
            actor_loss, metadata = loss_module.actor_loss(sampled_tensordict)
            alpha_loss = loss_module.alpha_loss(log_prob=metadata["log_prob"])
            loss = loss + actor_loss.mean() + alpha_loss.mean()
        loss.backward()
        optimizer.step()

    if compile:
        update = lite.jit(update)

    collected_frames, updates, returns = 0, 0, []
    for tensordict in collector:
        collector.update_policy_weights_()
        tensordict = tensordict.reshape(-1)
        replay_buffer.extend(tensordict)
        collected_frames += tensordict.numel()
        if collected_frames >= init_random_frames:
            actor.train()
            for _ in range(frames_per_batch):
                updates += 1
                update(replay_buffer.sample(), updates % 3 == 0)
            actor.eval()
        returns.extend(tensordict["next", "episode_reward"][tensordict["next", "done"]].tolist())
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        eval_rollout = eval_env.rollout(200, actor, break_when_any_done=True)
    collector.shutdown()
    return eval_rollout["next", "reward"].sum(-2).mean().item(), returns


if __name__ == "__main__":
    print(main(*map(int, sys.argv[1:]))[0])
