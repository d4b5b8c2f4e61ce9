"""lite.kernels and MultiStep beside torch, torchrl and Hugging Face: `python bench/test_kernels.py`."""

import argparse
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import tensordict
import torch
import torchrl
from side_by_side import machine, measure, report, row
from torchrl.data.postprocs import MultiStep as TorchMultiStep
from torchrl.data.postprocs.postprocs import _get_reward
from torchrl.objectives.value import functional
from transformers.generation.logits_process import TopKLogitsWarper, TopPLogitsWarper

from lite import TensorDict
from lite.data import MultiStep
from lite.kernels import (
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
        ours = measure(
            {"lite": lambda n=n: multistep_return(reward, done, gamma=0.99, n_steps=n)}, 5 * rounds
        )
        other = measure(
            {"torchrl _get_reward": lambda n=n: _get_reward(0.99, *theirs, n - 1)}, max(3, rounds // 5)
        )
        rows.append(row(f"multistep_return {ROWS}x{TIME}, n={n}", "torchrl _get_reward", ours | other))
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
    result = measure({"lite": lambda: ours(td)}, 5 * rounds)
    result |= measure({"torchrl MultiStep": lambda: theirs(other)}, max(3, rounds // 5))
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
        rows += [row(name, other, result, max_error=error) for other in list(result)[1:]]
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
        *(row(f"masked_log_softmax {shape}", other, whole) for other in list(whole)[1:]),
        row(f"masked_log_softmax {shape}, out=", list(again)[1], again),
        *(row(f"token_log_probs_and_entropy {shape}", other, both) for other in list(both)[1:]),
    ]


def sampling(rounds: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((8, 50257), np.float32) * 3
    seeds, tensor, ids = np.arange(8), torch.from_numpy(logits), torch.zeros((8, 1), dtype=torch.long)

    def theirs(top_k: int, top_p: float) -> torch.Tensor:
        scores = TopKLogitsWarper(top_k)(ids, tensor) if top_k else tensor
        scores = TopPLogitsWarper(top_p)(ids, scores) if top_p < 1 else scores
        token = torch.multinomial(torch.softmax(scores, -1), 1)
        return torch.log_softmax(tensor, -1).gather(-1, token)

    rows = []
    for top_k, top_p in ((50, 0.9), (0, 0.9), (0, 1.0)):
        result = measure(
            {
                "lite": lambda k=top_k, p=top_p: sample_tokens(logits, seeds, top_k=k, top_p=p),
                "Hugging Face + multinomial": lambda k=top_k, p=top_p: theirs(k, p),
            },
            rounds,
        )
        rows.append(row(f"sample_tokens (8, 50257), top_k={top_k}, top_p={top_p}", list(result)[1], result))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    warnings.simplefilter("ignore")  # of the other libraries
    about = machine() | {
        "torch": torch.__version__,
        "torchrl": torchrl.__version__,
        "threads_lite": get_num_threads(),
        "threads_torch": torch.get_num_threads(),
    }
    rows = [
        line
        for part in (returns, estimates, multistep, log_probs, log_softmax, sampling)
        for line in part(rounds)
    ]
    report("kernels", "Kernels", rows, about)


if __name__ == "__main__":
    main()
