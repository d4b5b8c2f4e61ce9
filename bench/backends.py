"""Milliseconds of `lite.kernels` calls at ordinary sizes, for each backend that this machine has.

    python bench/backends.py [numba numpy prebuilt]

Each backend runs in a process of its own, on one thread; medians of repeated calls go to results/.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from side_by_side import arguments, heading, machine, place, show

import lite.kernels as k

SECONDS, ROUNDS = 0.5, 200  # at most, for each call


def cases() -> dict[str, Callable[[], Any]]:
    """The calls by their names."""
    rng = np.random.default_rng(0)
    reward, value, following = rng.normal(size=(3, 64, 1000)).astype(np.float32)
    done = rng.random((64, 1000)) < 0.01
    few = {"reward": reward[:4, :128].copy(), "done": done[:4, :128].copy()}
    logits, tokens = rng.normal(size=(64, 32000)).astype(np.float32), rng.integers(0, 32000, 64)
    small, actions = rng.normal(size=(64_000, 8)).astype(np.float32), rng.integers(0, 8, 64_000)
    flat, seeds = logits / 8, np.arange(64)
    tree, leaves = k.sum_tree(100_000), np.arange(100_000)
    k.update_sum_tree(tree, leaves, rng.random(100_000))
    batch, mass = rng.integers(0, 100_000, 256), rng.random(256) * tree[1]
    filters: dict[str, Any] = {"top_k": 50, "top_p": 0.9}
    return {
        "multistep_return 64 x 1000": lambda: k.multistep_return(reward, done, gamma=0.99, n_steps=5),
        "multistep_return 4 x 128": lambda: k.multistep_return(**few, gamma=0.99, n_steps=5),
        "gae 64 x 1000": lambda: k.gae(reward, value, following, done, gamma=0.99, lmbda=0.95),
        "gae 1 x 1000": lambda: k.gae(reward[:1], value[:1], following[:1], done[:1], gamma=0.99, lmbda=0.95),
        "gae 1000 x 64, time first": lambda: k.gae(
            reward.T.copy(),
            value.T.copy(),
            following.T.copy(),
            done.T.copy(),
            gamma=0.9,
            lmbda=0.9,
            time_dim=0,
        ),
        "vtrace 64 x 1000": lambda: k.vtrace(reward, reward, value, value, following, done, gamma=0.99),
        "reward_to_go 64 x 1000": lambda: k.reward_to_go(reward, done, gamma=0.99),
        "td_lambda_return 64 x 100, not rolling": lambda: k.td_lambda_return(
            reward[:, :100], following[:, :100], done[:, :100], gamma=0.99, lmbda=0.95, rolling=False
        ),
        "token_log_probs 64 x 32000": lambda: k.token_log_probs(logits, tokens),
        "token_log_probs_and_entropy 64 x 32000": lambda: k.token_log_probs_and_entropy(logits, tokens),
        "token_log_probs 64000 x 8": lambda: k.token_log_probs(small, actions),
        "masked_log_softmax 64 x 32000": lambda: k.masked_log_softmax(logits),
        "masked_log_softmax 64000 x 8": lambda: k.masked_log_softmax(small),
        "token_scores 64 x 32000, temperature": lambda: k.token_scores(logits, tokens, temperature=0.7),
        "sample_tokens 1 x 32000": lambda: k.sample_tokens(logits[:1], seeds[:1]),
        "sample_tokens 1 x 32000, top-k, top-p": lambda: k.sample_tokens(logits[:1], seeds[:1], **filters),
        "sample_tokens 8 x 32000, top-k, top-p": lambda: k.sample_tokens(logits[:8], seeds[:8], **filters),
        "sample_tokens 8 x 32000, flat, top-p": lambda: k.sample_tokens(flat[:8], seeds[:8], top_p=0.9),
        "sample_tokens 64 x 512, details": lambda: k.sample_tokens(
            logits[:, :512], seeds, **filters, details=True, kept_ids=True
        ),
        "update_sum_tree 100000, 256": lambda: k.update_sum_tree(tree, batch, 0.5),
        "search_sum_tree 100000, 256": lambda: k.search_sum_tree(tree, mass),
    }


def measure(rounds: int) -> dict[str, float]:
    """Milliseconds of each call, in this process."""
    k.set_num_threads(1)
    found = {}
    for name, call in cases().items():
        call()
        times: list[float] = []
        while sum(times) < SECONDS and len(times) < rounds:
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        found[name] = 1000 * statistics.median(times)
    return found


def main() -> None:
    parser = arguments(__doc__, ROUNDS, each="calls of each case, at most")
    parser.add_argument("names", nargs="*", default=["numba", "numpy"], help="of backends (numba numpy)")
    parser.add_argument("--here", action="store_true", help="what this process has, as JSON")
    asked = parser.parse_args()
    if asked.here:
        print(json.dumps(measure(asked.rounds)))
        return
    names = asked.names
    columns, about = {}, {**machine(), "threads": 1}
    for name in names:
        run = subprocess.run(
            [sys.executable, __file__, "--here", "--rounds", str(asked.rounds)],
            env=os.environ | {"LITE_KERNELS": name}, stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        columns[name] = json.loads(run.stdout)
    first, last = names[0], names[-1]
    rows = [
        {"case": case, **{f"{name}_ms": columns[name][case] for name in names}} for case in columns[first]
    ]
    lines = [
        *heading("What runs the kernels", about),
        f"Medians, in milliseconds; how many times longer {last} takes than {first}.",
        "",
        f"| call | {' | '.join(names)} | times |",
        f"|---|{'--:|' * len(names)}--:|",
        *(
            f"| {case} | {' | '.join(f'{columns[name][case]:.3g}' for name in names)} "
            f"| {columns[last][case] / columns[first][case]:.2g} |"
            for case in columns[first]
        ),
    ]
    show(place(asked), "backends", lines, {"about": about, "rows": rows})


if __name__ == "__main__":
    main()
