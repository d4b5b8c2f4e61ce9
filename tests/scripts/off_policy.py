"""The loop of TorchRL's scripts that learn from a replay buffer."""

import lite
from lite.envs import ExplorationType, set_exploration_type


def learn(
    collector, replay_buffer, update, env, policy, *, init_random_frames, updates, compile=False, steps=200,
    explores=None, actor_every=None,
):  # fmt: skip
    """The return of an episode without exploration in `env`, and those of the episodes on the way."""
    if compile:
        update = lite.jit(update)
    collected_frames, count, returns = 0, 0, []
    for tensordict in collector:
        collector.update_policy_weights_()
        if explores is not None:
            explores.step(tensordict.numel())
        tensordict = tensordict.reshape(-1)
        replay_buffer.extend(tensordict)
        collected_frames += tensordict.numel()
        for _ in range(updates if collected_frames >= init_random_frames else 0):
            count += 1
            update(replay_buffer.sample(), *(() if actor_every is None else (count % actor_every == 0,)))
        returns.extend(tensordict["next", "episode_reward"][tensordict["next", "done"]].tolist())
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        eval_rollout = env.rollout(steps, policy, break_when_any_done=True)
    collector.shutdown()
    return eval_rollout["next", "reward"].sum(-2).mean().item(), returns
