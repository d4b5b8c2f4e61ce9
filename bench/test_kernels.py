"""lite.kernels and MultiStep beside torch, torchrl and Hugging Face: `python bench/test_kernels.py`.

`--only PATTERN` runs the parts whose names match.
"""

import os
import re
import subprocess
import sys
import tempfile
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensordict
import torch
import torchrl
from side_by_side import arguments, machine, measure, place, pyplot, report, row, rows_of
from torchrl.data.postprocs import MultiStep as TorchMultiStep
from torchrl.data.postprocs.postprocs import _get_reward
from torchrl.objectives.value import functional
from transformers.generation.logits_process import TopKLogitsWarper, TopPLogitsWarper

from lite import TensorDict
from lite.data import MultiStep
from lite.kernels import (
    SamplingPlan,
    gae,
    get_num_threads,
    masked_log_softmax,
    multistep_return,
    reward_to_go,
    sample_tokens,
    td_lambda_return,
    token_log_probs,
    token_log_probs_and_entropy,
    vtrace,
)

ROWS, TIME = 64, 1000


def returns(rounds: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    reward, done = rng.normal(size=(ROWS, TIME)).astype(np.float32), rng.random((ROWS, TIME)) < 0.05
    theirs = torch.from_numpy(reward), torch.from_numpy(done)
    rows = []
    for n in (3, 10, 100, 1000):
        both = {
            "lite": lambda n=n: multistep_return(reward, done, gamma=0.99, n_steps=n),
            "torchrl _get_reward": lambda n=n: _get_reward(0.99, *theirs, n - 1),
        }
        result = measure(both, max(3, rounds // 3))
        rows.append(row(f"multistep_return {ROWS}x{TIME}, n={n}", "torchrl _get_reward", result))
    return rows


def multistep(rounds: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    shape = (ROWS, TIME)
    done = rng.random((*shape, 1)) < 0.05
    entries = {
        "observation": rng.normal(size=(*shape, 4)).astype(np.float32),
        "action": rng.normal(size=(*shape, 1)).astype(np.float32),
        "next": {
            "observation": rng.normal(size=(*shape, 4)).astype(np.float32),
            "reward": rng.normal(size=(*shape, 1)).astype(np.float32),
            "done": done,
            "terminated": done.copy(),
        },
    }
    ours, theirs = MultiStep(0.99, 3), TorchMultiStep(0.99, 3)
    td, other = TensorDict(entries, shape), tensordict.TensorDict(entries, shape)
    result = measure({"lite": lambda: ours(td), "torchrl MultiStep": lambda: theirs(other)}, rounds)
    tracemalloc.start()
    out = ours(td)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    size = sum(value.nbytes for value in out.values(True, True))
    name = f"MultiStep {ROWS}x{TIME}, 4 floats, n=3"
    return [
        row(
            name,
            "torchrl MultiStep",
            result,
            peak_bytes=peak,
            output_bytes=size,
            peak_over_output=peak / size,
        )
    ]


Cases = dict[str, tuple[Callable[[], Any], dict[str, Callable[[], Any]]]]


def _estimates(rng: np.random.Generator, shape: tuple[int, int]) -> Cases:
    """Ours, and what torchrl has for the same."""
    arrays = [rng.normal(size=(*shape, 1)).astype(np.float32) for _ in range(5)]
    reward, value, following, log_pi, log_mu = arrays
    done = rng.random((*shape, 1)) < 0.05
    stop = done & (rng.random((*shape, 1)) < 0.5)
    flags = done, stop
    r, v, n, p, m, d, s = map(torch.from_numpy, (*arrays, *flags))
    return {
        "gae": (
            lambda: gae(reward, value, following, *flags, gamma=0.99, lmbda=0.95, time_dim=-2),
            {
                "torchrl loop": lambda: functional.generalized_advantage_estimate(0.99, 0.95, v, n, r, d, s),
                "torchrl vec": lambda: functional.vec_generalized_advantage_estimate(
                    0.99, 0.95, v, n, r, d, s
                ),
            },
        ),
        "td_lambda_return": (
            lambda: td_lambda_return(reward, following, *flags, gamma=0.99, lmbda=0.95, time_dim=-2),
            {
                "torchrl loop": lambda: functional.td_lambda_return_estimate(0.99, 0.95, n, r, d, s),
                "torchrl vec": lambda: functional.vec_td_lambda_return_estimate(0.99, 0.95, n, r, d, s),
            },
        ),
        "vtrace": (
            lambda: vtrace(log_pi, log_mu, reward, value, following, *flags, gamma=0.99, time_dim=-2),
            {"torchrl loop": lambda: functional.vtrace_advantage_estimate(0.99, p, m, v, n, r, d, s)},
        ),
        "reward_to_go": (
            lambda: reward_to_go(reward, done, gamma=0.99, time_dim=-2),
            {"torchrl reward2go": lambda: functional.reward2go(r, d, 0.99)},
        ),
    }


def estimates(rounds: int) -> list[dict[str, Any]]:
    """Against the faster of torchrl's loop and its vectorised variant."""
    rng = np.random.default_rng(0)
    rows = []
    for shape in ((64, 1000), (1024, 128)):
        for name, (ours, theirs) in _estimates(rng, shape).items():
            result = measure({"lite": ours}, 5 * rounds) | measure(theirs, max(3, rounds // 3))
            fastest = min((result[other]["median_ms"], other) for other in theirs)[1]
            rows.append(row(f"{name} {shape[0]}x{shape[1]}", fastest, result))
    return rows


def log_probs(rounds: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    rows = []
    for shape in ((8, 64, 32000), (4, 32, 128256), (64, 1, 50257)):
        logits = (rng.standard_normal(shape, np.float32)) * 3
        tokens = rng.integers(0, shape[-1], shape[:-1])
        a, b = torch.from_numpy(logits), torch.from_numpy(tokens)[..., None]
        result = measure(
            {
                "lite": lambda x=logits, t=tokens: token_log_probs(x, t),
                "torch log_softmax + gather": lambda x=a, t=b: torch.log_softmax(x, -1).gather(-1, t),
                "reading once (torch amax)": lambda x=a: x.amax(),
            },
            rounds,
        )
        exact = torch.log_softmax(a.double(), -1).gather(-1, b)[..., 0].numpy()
        error = float(np.abs(token_log_probs(logits, tokens) - exact).max())
        name = f"token_log_probs {shape}"
        rows += rows_of(name, result, max_error=error)
    return rows


def log_softmax(rounds: int) -> list[dict[str, Any]]:
    """Whole log-softmaxes, and the log-prob and entropy of each row in one pass."""
    rng = np.random.default_rng(0)
    shape = (8, 64, 32000)
    logits = rng.standard_normal(shape, np.float32) * 3
    tokens, mask = rng.integers(0, shape[-1], shape[:-1]), rng.random(shape, np.float32) < 0.9
    a, b, hidden = torch.from_numpy(logits), torch.from_numpy(tokens)[..., None], torch.from_numpy(~mask)

    def two_calls() -> tuple[torch.Tensor, torch.Tensor]:
        scores = torch.log_softmax(a, -1)
        return scores.gather(-1, b), -(scores.exp() * scores).sum(-1)

    whole = measure(
        {
            "lite": lambda: masked_log_softmax(logits, mask),
            "torch masked_fill + log_softmax": lambda: torch.log_softmax(
                a.masked_fill(hidden, -torch.inf), -1
            ),
            "a copy (torch clone)": lambda: a.clone(),
        },
        rounds,
    )
    out, copy = np.empty_like(logits), torch.empty_like(a)
    again = measure(
        {
            "lite": lambda: masked_log_softmax(logits, mask, out=out),
            "a copy (torch copy_)": lambda: copy.copy_(a),
        },
        rounds,
    )
    both = measure(
        {
            "lite": lambda: token_log_probs_and_entropy(logits, tokens),
            "torch log_softmax, gather, entropy": two_calls,
            "reading once (torch amax)": lambda: a.amax(),
        },
        rounds,
    )
    return [
        *rows_of(f"masked_log_softmax {shape}", whole),
        *rows_of(f"masked_log_softmax {shape}, out=", again),
        *rows_of(f"token_log_probs_and_entropy {shape}", both),
    ]


def sampling(rounds: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    normal = rng.standard_normal((8, 50257), np.float32)
    seeds, ids = np.arange(8), torch.zeros((8, 1), dtype=torch.long)

    def theirs(tensor: torch.Tensor, top_k: int, top_p: float) -> torch.Tensor:
        scores = TopKLogitsWarper(top_k)(ids, tensor) if top_k else tensor
        scores = TopPLogitsWarper(top_p)(ids, scores) if top_p < 1 else scores
        token = torch.multinomial(torch.softmax(scores, -1), 1)
        return torch.log_softmax(tensor, -1).gather(-1, token)

    rows = []
    for top_k, top_p, scale in ((50, 0.9, 3.0), (0, 0.9, 3.0), (0, 0.9, 0.5), (0, 1.0, 3.0)):
        logits = normal * np.float32(scale)  # flat where the scale is small: top-p leaves most tokens
        tensor, options = torch.from_numpy(logits), {"top_k": top_k, "top_p": top_p}
        plan = SamplingPlan(logits.shape, seeds, **options, details=True, kept_ids=True, top_n=5)
        ours = {
            "": lambda x=logits, o=options: sample_tokens(x, seeds, **o),
            ", with all details": lambda x=logits, plan=plan: plan.draw(x),
        }
        for what, call in ours.items():
            against = {"Hugging Face + multinomial": lambda x=tensor, o=options: theirs(x, **o)}
            result = measure({"lite": call, **against}, rounds)
            name = f"sample_tokens (8, 50257) x {scale:g}, top_k={top_k}, top_p={top_p}{what}"
            rows.append(row(name, list(result)[1], result))
    return rows


FIRST_CALLS = """
import json, os, pathlib, sys, time
import numpy as np
from lite.kernels.backends import cache
# Not the folder of the checkout, which has what was compiled before.
cache.folders = lambda: [pathlib.Path(os.environ["NUMBA_CACHE_DIR"])]
import lite.kernels as k

logits, tokens = np.zeros((1, 8), np.float32), np.zeros(1, np.int64)
reward, done = np.zeros((1, 2), np.float32), np.zeros((1, 2), bool)
calls = {
    "nothing": lambda: empty(reward),
    "multistep_return": lambda: k.multistep_return(reward, done, gamma=0.9, n_steps=2),
    "reward_to_go": lambda: k.reward_to_go(reward, done, gamma=0.9),
    "gae": lambda: k.gae(reward, reward, reward, done, gamma=0.9, lmbda=0.9),
    "token_log_probs": lambda: k.token_log_probs(logits, tokens),
    "masked_log_softmax": lambda: k.masked_log_softmax(logits),
    "sample_tokens": lambda: k.sample_tokens(logits, tokens, top_k=2, top_p=0.9),
}
from empty_kernel import empty  # with numba: a third of a second that is no kernel's
start = time.process_time()  # one thread: what the clock on the wall shows where nothing else runs
calls[sys.argv[1]]()
print(json.dumps(time.process_time() - start))
"""
KERNELS = re.findall(r'^    "(\w+)": lambda', FIRST_CALLS, re.MULTILINE)


def first_calls(rounds: int) -> list[dict[str, Any]]:
    """Processor seconds of the first call in a new process: compiling, and reading what is compiled."""
    rows = []
    for name in KERNELS:
        with tempfile.TemporaryDirectory() as folder:
            path = os.pathsep.join(
                [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
            )
            environment = os.environ | {"NUMBA_CACHE_DIR": folder, "PYTHONPATH": path}

            def seconds(name: str = name, environment: dict[str, str] = environment) -> float:
                command = [sys.executable, "-c", FIRST_CALLS, name]
                return float(subprocess.check_output(command, env=environment, text=True))

            cold = seconds()
            cached = min(seconds() for _ in range(2))
        rows.append({"kernel": name, "cold_s": cold, "cached_s": cached})
    return rows


def first_call_table(rows: list[dict[str, Any]]) -> str:
    """A second table, below the first, and the chart."""
    if not rows:
        return ""
    lines = [
        "",
        "Processor time of the first call in a new process, after `import numba`; `nothing` is a function of",
        "one line, and what Numba does once a process:",
        "",
        "| kernel | compiling | from the cache |",
    ]
    lines += ["|---|--:|--:|"]
    lines += [f"| {r['kernel']} | {r['cold_s']:.2f} s | {r['cached_s']:.3f} s |" for r in rows]
    return "\n".join(lines) + "\n\n![times faster](kernels.png)\n"


def plot(rows: list[dict[str, Any]], file: Path) -> None:
    plt = pyplot()
    names = [f"{r['case']}\n{r['against']}" for r in rows]
    figure, axis = plt.subplots(figsize=(9, 0.42 * len(rows) + 1), layout="constrained")
    bars = axis.barh(
        names, [r["ratio"] for r in rows], color=["C0" if r["ratio"] >= 1 else "C1" for r in rows]
    )
    axis.bar_label(bars, [f"{r['ratio']:.3g}" for r in rows], padding=3, fontsize=7)
    axis.axvline(1, color="black", linewidth=0.8)
    axis.set(xscale="log", xlabel="times faster than the other (medians)")
    axis.invert_yaxis()
    axis.tick_params(axis="y", labelsize=6)
    axis.margins(x=0.1, y=0.01)
    figure.savefig(file, dpi=110)


PARTS = (returns, estimates, multistep, log_probs, log_softmax, sampling)


def main() -> None:
    parser = arguments(__doc__, rounds=15)
    names = [part.__name__ for part in (*PARTS, first_calls)]
    parser.add_argument("--only", metavar="PATTERN", help=f"of {', '.join(names)}")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # of the other libraries
    about = machine(torch, torchrl) | {
        "threads_lite": get_num_threads(),
        "threads_torch": torch.get_num_threads(),
    }
    chosen = re.compile(asked.only or "")
    rows = [line for part in PARTS if chosen.search(part.__name__) for line in part(asked.rounds)]
    first = first_calls(asked.rounds) if chosen.search("first_calls") else []
    folder = place(asked, part=bool(asked.only))
    report(folder, "kernels", "Kernels", rows, about, first_call_table(first), first_calls=first)
    if folder is not None and rows:
        plot(rows, folder / "kernels.png")


if __name__ == "__main__":
    main()
