"""Log-probs from hidden states and an output matrix, with their gradients, beside torch.

`python bench/linear_log_probs.py` runs 2048 tokens on the shape of SmolLM2-135M, in a process on one thread
and in one on two. torch computes the logits, their log-softmax and what is gathered of it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from side_by_side import arguments, extra_memory, heading, machine, measure, place, row, show

from lite import value_and_grad
from lite.kernels import linear_log_probs
from lite.nn import functional as F

TOKENS, FEATURES, VOCABULARY = 2048, 576, 49152
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "LITE_NUM_THREADS")
OURS, THEIRS = "lite", "torch log_softmax + gather"


def cases() -> dict[str, dict[str, Callable[[], Any]]]:
    """Alternatives by name; the first one is lite's."""
    rng = np.random.default_rng(0)
    hidden = rng.standard_normal((TOKENS, FEATURES), np.float32)
    weight = rng.standard_normal((VOCABULARY, FEATURES), np.float32) * np.float32(0.05)
    ids = rng.integers(0, VOCABULARY, TOKENS)
    h, w, i = torch.from_numpy(hidden), torch.from_numpy(weight), torch.from_numpy(ids)[:, None]

    def ours(places: int | tuple[int, ...]) -> Any:
        return value_and_grad(lambda x, y: F.linear_log_probs(x, y, ids).sum(), places)(hidden, weight)

    def theirs(of_weight: bool) -> Any:
        x, y = h.detach().requires_grad_(), w.detach().requires_grad_(of_weight)
        torch.log_softmax(x @ y.T, -1).gather(-1, i).sum().backward()
        return x.grad, y.grad

    def without_gradient() -> Any:
        with torch.no_grad():
            return torch.log_softmax(h @ w.T, -1).gather(-1, i)

    def in_blocks(megabytes: int) -> Callable[[], Any]:
        return lambda: linear_log_probs(hidden, weight, ids, block_bytes=megabytes << 20)

    return {
        "log-probs alone": {OURS: lambda: linear_log_probs(hidden, weight, ids), THEIRS: without_gradient},
        "and the gradient by hidden states": {OURS: lambda: ours(0), THEIRS: lambda: theirs(False)},
        "and by the matrix, too": {OURS: lambda: ours((0, 1)), THEIRS: lambda: theirs(True)},
        "log-probs alone, blocks of 32 MB": {
            OURS: in_blocks(32),
            "blocks of 4 MB": in_blocks(4),
            "blocks of 128 MB": in_blocks(128),
        },
    }


def on_these_threads(rounds: int) -> list[dict[str, Any]]:
    rows = []
    for name, alternatives in cases().items():
        result = measure(alternatives, rounds)
        memory = {other: extra_memory(run) for other, run in alternatives.items()}
        for other in list(alternatives)[1:]:
            more = {"lite_megabytes": memory[OURS], "other_megabytes": memory[other]}
            rows.append(row(name, other, result, threads=torch.get_num_threads(), **more))
    return rows


def table(rows: list[dict[str, Any]], about: dict[str, Any]) -> list[str]:
    logits, matrix = (4e-6 * VOCABULARY * n for n in (TOKENS, FEATURES))
    lines = [
        *heading("Log-probs of a linear layer", about),
        f"{TOKENS} tokens, {FEATURES} features, a vocabulary of {VOCABULARY}: {logits:.0f} MB of logits,",
        f"a matrix of {matrix:.0f} MB, float32.",
        "Medians of interleaved rounds in one process; minima in brackets. Memory is what the process",
        "grows by at its peak, results included.",
        "",
        "| case | threads | lite | other | | times faster | lite, memory | other, memory |",
        "|---|--:|--:|--:|---|--:|--:|--:|",
    ]
    for r in rows:
        lines.append(
            f"| {r['case']} | {r['threads']} | {r['lite_ms']:.0f} ms ({r['lite_min_ms']:.0f}) "
            f"| {r['other_ms']:.0f} ms ({r['other_min_ms']:.0f}) | {r['against']} | {r['ratio']:.3g} "
            f"| {r['lite_megabytes']} MB | {r['other_megabytes']} MB |"
        )
    return lines


def main() -> None:
    parser = arguments(__doc__, rounds=5)
    parser.add_argument("--threads", type=int, metavar="N", help="rows of one process, as JSON")
    asked = parser.parse_args()
    if asked.threads:
        torch.set_num_threads(asked.threads)
        print(json.dumps(on_these_threads(asked.rounds)))
        return
    about = machine(torch)
    rows = []
    for threads in (1, 2):
        command = [sys.executable, __file__, "--threads", str(threads), "--rounds", str(asked.rounds)]
        path = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = os.environ | dict.fromkeys(THREADS, str(threads)) | {"PYTHONPATH": path}
        rows += json.loads(subprocess.check_output(command, env=environment, text=True))
    show(place(asked), "linear_log_probs", table(rows, about), {"about": about, "rows": rows})


if __name__ == "__main__":
    main()
