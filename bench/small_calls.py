"""Calls on few values, where Python takes longer than the kernel, and many short rows.

`python bench/small_calls.py` runs all, on one thread each.

`--only PATTERN` runs the cases whose names match.
"""

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import tensordict
import torch
import torchrl
from side_by_side import arguments, machine, measure, place, report, row
from torchrl.data.postprocs import MultiStep as TorchMultiStep
from torchrl.data.postprocs.postprocs import _get_reward
from torchrl.objectives.value import functional

from lite import TensorDict
from lite.data import MultiStep
from lite.kernels import gae, multistep_return, reward_to_go, set_num_threads, td_lambda_return

Case = tuple[str, Callable[[], Any], str, Callable[[], Any]]
SHAPES = (
    (1, 128),
    (64, 1000),
    (1024, 32),
)  # few values; the same, and half of it, in long rows and in short ones


def cases(shape: tuple[int, int]) -> list[Case]:
    """Ours, and what torchrl has for the same: the faster one at this size, where it has two."""
    rng = np.random.default_rng(0)
    reward, value, following = (rng.normal(size=(*shape, 1)).astype(np.float32) for _ in range(3))
    done = rng.random((*shape, 1)) < 0.05
    r, v, n, d = map(torch.from_numpy, (reward, value, following, done))
    flat, ends = reward[..., 0].copy(), done[..., 0].copy()
    entries = {
        "observation": rng.normal(size=(*shape, 4)).astype(np.float32),
        "action": rng.normal(size=(*shape, 1)).astype(np.float32),
        "next": {
            "observation": rng.normal(size=(*shape, 4)).astype(np.float32),
            "reward": reward,
            "done": done,
            "terminated": done.copy(),
        },
    }
    td, other = TensorDict(entries, shape), tensordict.TensorDict(entries, shape)
    ours, theirs = MultiStep(0.99, 3), TorchMultiStep(0.99, 3)
    found: list[Case] = [
        (
            "multistep_return, n=3",
            lambda: multistep_return(flat, ends, gamma=0.99, n_steps=3),
            "torchrl _get_reward",
            lambda: _get_reward(0.99, r[..., 0], d[..., 0], 2),
        ),
        ("MultiStep, 4 floats, n=3", lambda: ours(td), "torchrl MultiStep", lambda: theirs(other)),
    ]
    if shape[0] == 1:
        found += [
            (
                "gae",
                lambda: gae(reward, value, following, done, gamma=0.99, lmbda=0.95, time_dim=-2),
                "torchrl vec",
                lambda: functional.vec_generalized_advantage_estimate(0.99, 0.95, v, n, r, d),
            ),
            (
                "td_lambda_return",
                lambda: td_lambda_return(reward, following, done, gamma=0.99, lmbda=0.95, time_dim=-2),
                "torchrl vec",
                lambda: functional.vec_td_lambda_return_estimate(0.99, 0.95, n, r, d),
            ),
            (
                "reward_to_go",
                lambda: reward_to_go(reward, done, gamma=0.99, time_dim=-2),
                "torchrl reward2go",
                lambda: functional.reward2go(r, d, 0.99),
            ),
        ]
    return found


def main() -> None:
    parser = arguments(__doc__, rounds=101)
    parser.add_argument("--only", metavar="PATTERN", help="of the names of cases")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # of torchrl
    torch.set_num_threads(1)  # more of them take longer at these sizes
    set_num_threads(1)
    rows = []
    for shape in SHAPES:
        times = 20 if shape[0] == 1 else 1  # a round is over before another program takes the processor
        for name, ours, against, theirs in cases(shape):
            if not re.search(asked.only or "", name):
                continue
            result = measure({"lite": ours}, asked.rounds, pause=0, times=times)
            other = measure({against: theirs}, max(5, asked.rounds // 10), pause=0)
            rows.append(row(f"{name}, {shape[0]}x{shape[1]}", against, result | other))
    about = machine(torch, torchrl) | {"threads": 1}
    folder = place(asked, part=bool(asked.only))
    report(folder, "small_calls", "Small calls and short rows", rows, about)


if __name__ == "__main__":
    main()
