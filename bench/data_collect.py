"""Collectors: lite's beside a bare loop that steps and stores, and torchrl's over the same environments.

`python bench/data_collect.py` runs all; the functions give rows for the table of `bench/test_data.py`. Times
are of 1,000 frames, so a millisecond is a microsecond per frame.

All step 8 CartPoles in one SyncVectorEnv with the same policy, a rule on the observation that costs next to
nothing, so that what a collector adds is what differs. The bare loop writes observation, action, reward, both
flags and the next observation into arrays made beforehand, and resets environments by mask. lite's collector
takes the vector as it is, in each autoreset mode; the last pair of rows has torchrl's pieces on both sides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from side_by_side import measure, row

from lite.data import Collector

ENVS, FRAMES = 8, 1000
SAME = "TransformedEnv(GymWrapper, StepCounter)"


def vector(mode: AutoresetMode = AutoresetMode.DISABLED) -> SyncVectorEnv:
    return SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * ENVS, autoreset_mode=mode)


def rule(observation: np.ndarray) -> np.ndarray:
    """Push to where the pole falls: episodes of some 40 steps."""
    return (observation[..., 2] > 0).astype(np.int64)


def bare() -> Callable[[], Any]:
    """A loop that steps and stores, as one writes it by hand."""
    env, time = vector(), FRAMES // ENVS
    observation, following = np.zeros((2, ENVS, time, 4), np.float32)
    action = np.zeros((ENVS, time), np.int64)
    reward = np.zeros((ENVS, time), np.float32)
    terminated, truncated = np.zeros((2, ENVS, time), bool)
    state = {"obs": env.reset(seed=0)[0]}

    def run() -> None:
        obs = state["obs"]
        for t in range(time):
            observation[:, t] = obs
            acts = rule(obs)
            action[:, t] = acts
            obs, reward[:, t], terminated[:, t], truncated[:, t], _ = env.step(acts)
            following[:, t] = obs
            ended = terminated[:, t] | truncated[:, t]
            if ended.any():
                obs, _ = env.reset(options={"reset_mask": ended})
        state["obs"] = obs

    return run


def lite(mode: AutoresetMode) -> Callable[[], Any]:
    collector = Collector(
        vector(mode), lambda td: td.set("action", rule(td["observation"])), frames_per_batch=FRAMES, seed=0
    )
    return lambda: collector.next().shape


def same_text() -> Callable[[], Any]:
    """The pieces that torchrl has, in lite: a script whose imports alone were changed."""
    from lite.envs import GymWrapper, StepCounter, TransformedEnv

    env = TransformedEnv(GymWrapper(vector(), categorical_action_encoding=True), StepCounter())
    collector = Collector(
        env, lambda td: td.set("action", rule(td["observation"])), frames_per_batch=FRAMES, seed=0
    )
    return lambda: collector.next().shape


def torchrl() -> Callable[[], Any] | None:
    try:
        import torch
        from torchrl.collectors import Collector as Peer
        from torchrl.envs import GymWrapper, StepCounter, TransformedEnv
    except ImportError:
        return None
    torch.set_num_threads(1)
    env = TransformedEnv(GymWrapper(vector(), categorical_action_encoding=True), StepCounter())

    def policy(td: Any) -> Any:
        return td.set("action", (td["observation"][..., 2] > 0).long())

    collector = Peer(env, policy, frames_per_batch=FRAMES, total_frames=-1, trust_policy=True)
    data = iter(collector)
    return lambda: next(data).shape


def collecting(rounds: int) -> list[dict[str, Any]]:
    """Whole batches, and what a collector adds to the bare loop."""
    runs = {"bare": bare(), **{mode.name: lite(mode) for mode in AutoresetMode}, SAME: same_text()}
    peer = torchrl()
    if peer is not None:
        runs["torchrl"] = peer
    result = measure(runs, rounds)
    # Of differences, medians for the clock on the wall, and minima for processor time.
    above = {
        name: {kind: found[kind] - result["bare"][kind] for kind in found} for name, found in result.items()
    }
    rows = []
    for how in (*(mode.name for mode in AutoresetMode), SAME):
        name = f"8 CartPoles, {how}"
        rows.append(row(f"1,000 frames of {name}", "bare", {**result, "lite": result[how]}))
        if peer is not None:
            rows.append(row(f"above the bare loop, {name}", "torchrl", {**above, "lite": above[how]}))
    return rows


CASES = {"collecting": collecting}
