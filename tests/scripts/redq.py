"""TorchRL's sota-implementations/redq, on lite: Pendulum in place of HalfCheetah."""

import sys

from off_policy import learn
from sac import make_agent, make_env

import lite
from lite.data import Collector, LazyTensorStorage, TensorDictReplayBuffer
from lite.nn.losses import REDQLoss, SoftUpdate
from lite.optim import Adam


def main(
    total_frames=4000,
    frames_per_batch=200,
    init_random_frames=1000,
    updates_per_frame=1,
    seed=0,
    compile=False,
):
    env = make_env()
    actor, qvalue = make_agent(env)
    loss_module = REDQLoss(actor_network=actor, qvalue_network=qvalue, num_qvalue_nets=10, sub_sample_len=2)
    loss_module.make_value_estimator(gamma=0.99)
    target_net_updater = SoftUpdate(loss_module, eps=0.995)
    optimizer = Adam(loss_module.parameters(), lr=1e-3)
    replay_buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(total_frames), batch_size=128)
    collector = Collector(
        env,
        actor,
        init_random_frames=init_random_frames,
        frames_per_batch=frames_per_batch,
        total_frames=total_frames,
    )
    collector.set_seed(seed)

    @lite.enable_grad()
    def update(sampled_tensordict):
        loss = loss_module(sampled_tensordict)
        (loss["loss_actor"] + loss["loss_qvalue"] + loss["loss_alpha"]).backward()
        optimizer.step()
        optimizer.zero_grad()
        target_net_updater.step()

    return learn(
        collector, replay_buffer, update, env, actor, init_random_frames=init_random_frames,
        updates=frames_per_batch * updates_per_frame,  compile=compile,
    )  # fmt: skip


if __name__ == "__main__":
    print(main(*map(int, sys.argv[1:]))[0])
