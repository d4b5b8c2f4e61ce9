"""Collectors: lite's beside a bare loop that steps and stores, and torchrl's over the same environments.

    python bench/data_collect.py [--rounds N] [--frames N]

All step 8 CartPoles in one SyncVectorEnv with the same policy, a rule on the observation that costs next to
nothing, so that what a collector adds is what differs. The bare loop writes observation, action, reward, both
flags and the next observation into arrays made beforehand, and starts environments anew by mask.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from side_by_side import machine, measure

from lite.data import Collector

ENVS = 8


def vector(mode: AutoresetMode = AutoresetMode.DISABLED) -> SyncVectorEnv:
    return SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * ENVS, autoreset_mode=mode)


def rule(observation: np.ndarray) -> np.ndarray:
    """Push to where the pole falls: episodes of some 40 steps."""
    return (observation[..., 2] > 0).astype(np.int64)


def bare(frames: int) -> Callable[[], Any]:
    """A loop that steps and stores, as one writes it by hand."""
    env, time = vector(), frames // ENVS
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


def lite(frames: int, mode: AutoresetMode) -> Callable[[], Any]:
    collector = Collector(
        vector(mode), lambda td: td.set("action", rule(td["observation"])), frames_per_batch=frames, seed=0
    )
    return lambda: collector.next().shape


def torchrl(frames: int) -> Callable[[], Any] | None:
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

    collector = Peer(env, policy, frames_per_batch=frames, total_frames=-1, trust_policy=True)
    data = iter(collector)
    return lambda: next(data).shape


def collector_overhead(rounds: int = 15, frames: int = 2000) -> list[dict[str, Any]]:
    """Microseconds per frame above the bare loop; the ratio is that of torchrl's overhead to lite's."""
    runs = {"bare": bare(frames), **{mode.name: lite(frames, mode) for mode in AutoresetMode}}
    peer = torchrl(frames)
    if peer is not None:
        runs["torchrl"] = peer
    result = measure(runs, rounds)
    rows = []
    for mode in AutoresetMode:
        row: dict[str, Any] = {
            "case": f"collector overhead per frame, 8 CartPoles, {mode.name}",
            "against": "torchrl's collector",
        }
        # By the clock on the wall (medians), and by processor time (minima), for busy machines.
        for kind, name in (("median_ms", ""), ("cpu_ms", "_cpu")):
            each = {run: 1e3 * found[kind] / frames for run, found in result.items()}
            own = each[mode.name] - each["bare"]
            other = each["torchrl"] - each["bare"] if peer is not None else float("nan")
            row |= {
                f"lite{name}_us": own,
                f"other{name}_us": other,
                f"bare{name}_us": each["bare"],
                f"{name[1:] + '_' if name else ''}ratio": other / own,
            }
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--frames", type=int, default=2000)
    options = parser.parse_args()
    print(machine())
    for row in collector_overhead(options.rounds, options.frames):
        print(row["case"])
        for kind, name, ratio in (("wall", "", "ratio"), ("cpu", "_cpu", "cpu_ratio")):
            print(
                f"  {kind}: {row[f'lite{name}_us']:.2f} us above {row[f'bare{name}_us']:.2f} us of "
                f"the bare loop; torchrl {row[f'other{name}_us']:.1f} us, {row[ratio]:.1f} times lite's"
            )


if __name__ == "__main__":
    main()
