"""Environments: rollouts of one and of several in processes, beside torchrl's.

    python bench/test_envs.py [--rounds N] [--output DIR]

Times are of 1,000 steps of CartPole, and of 250 steps of four in processes of their own. Episodes that end
restart. Actions are drawn, or those of a rule on the observation that costs next to nothing, so that what
the environments add is what differs.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import tensordict
import torch
import torchrl
import torchrl.envs as theirs
from side_by_side import arguments, machine, measure, place, report, row

import lite.envs as ours

STEPS, PROCESSES, THEIR_STEPS = 1000, 4, 250
PUSHES = np.eye(2, dtype=np.int64)
THEIR_PUSHES = torch.eye(2, dtype=torch.int64)


def our_rule(td: Any) -> Any:
    return td.set("action", PUSHES[int(td["observation"][2] > 0)])


def their_rule(td: Any) -> Any:
    return td.set("action", THEIR_PUSHES[int(td["observation"][2] > 0)])


def alone(rounds: int) -> list[dict[str, Any]]:
    rows = []
    for name, policies in (
        ("random actions", (None, None)),
        ("a rule", (our_rule, their_rule)),
    ):
        runs = {}
        for side, library, policy in (("lite", ours, policies[0]), ("torchrl", theirs, policies[1])):
            env = library.GymEnv("CartPole-v1")
            env.set_seed(0)
            runs[side] = partial(env.rollout, STEPS, policy, break_when_any_done=False)
        rows.append(row(f"rollout of {STEPS} steps, {name}", "torchrl", measure(runs, rounds)))
    return rows


def processes(rounds: int) -> list[dict[str, Any]]:
    runs, opened = {}, []
    for side, library, words in (("lite", ours, {}), ("torchrl", theirs, {"mp_start_method": "spawn"})):
        env = library.ParallelEnv(PROCESSES, partial(library.GymEnv, "CartPole-v1"), **words)
        env.set_seed(0)
        opened.append(env)
        runs[side] = partial(env.rollout, THEIR_STEPS, break_when_any_done=False)
    result = measure(runs, rounds)
    for env in opened:
        env.close()
    return [row(f"ParallelEnv of {PROCESSES}, {THEIR_STEPS} steps", "torchrl", result)]


def main() -> None:
    args = arguments(__doc__, rounds=9).parse_args()
    warnings.simplefilter("ignore")  # of the other libraries
    about = machine(torch, tensordict, torchrl)
    report(place(args), "envs", "Environments", alone(args.rounds) + processes(args.rounds), about)


if __name__ == "__main__":
    main()
