"""What the CUDA kernels are timed at; see cuda_kernels.py.

Each function makes a `Job` with its arrays; `JOBS` lists them.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from cuda_clock import Bench, Job

from lite import kernels


@functools.cache
def torch_on_gpu() -> Any:
    """torch where it can use the GPU, else None; the simulator is no GPU."""
    if numba.config.ENABLE_CUDASIM:
        return None
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def _in_torch(call: Callable[..., Any], *arrays: Any) -> Callable[[], Any] | None:
    """A call of torch and of tensors in the same memory; None where it cannot be made."""
    if (torch := torch_on_gpu()) is None:
        return None
    tensors = [torch.as_tensor(array, device="cuda") for array in arrays]
    return lambda: call(torch, *tensors)


def _in_torchrl(call: Callable[..., Any], *arrays: Any) -> Callable[[], Any] | None:
    """A call of torchrl's functions and of tensors, with the axis of features that these want."""
    try:
        from torchrl.objectives.value import functional
    except ImportError:
        return None
    return _in_torch(lambda torch, *tensors: call(functional, *(x[..., None] for x in tensors)), *arrays)


def allocation(bench: Bench) -> Job:
    """Memory for one result, which calls without `out` take again: how much of their time that is."""
    return Job(0, lambda: bench.cuda.device_array(bench.batch, np.float32))


def gae(bench: Bench) -> Job:
    shape = bench.batch
    reward, value, following = (bench.floats(*shape) for _ in range(3))
    done, stop = bench.flags(*shape), bench.flags(*shape, rate=0.01)
    theirs = _in_torchrl(
        lambda rl, r, v, n, d, s: rl.vec_generalized_advantage_estimate(0.99, 0.95, v, n, r, d, s),
        *(reward, value, following, done, stop),
    )
    # three numbers and two flags in, two numbers out
    return Job(
        22 * math.prod(shape),
        lambda: kernels.gae(reward, value, following, done, stop, gamma=0.99, lmbda=0.95),
        theirs,
    )


def gae_time_first(bench: Bench) -> Job:
    shape = bench.batch[::-1]
    reward, value, following = (bench.floats(*shape) for _ in range(3))
    done = bench.flags(*shape)
    return Job(
        21 * math.prod(shape),
        lambda: kernels.gae(reward, value, following, done, gamma=0.99, lmbda=0.95, time_dim=0),
    )


def vtrace(bench: Bench) -> Job:
    shape = bench.batch
    pi, mu, reward, value, following = (bench.floats(*shape) for _ in range(5))
    done, stop = bench.flags(*shape), bench.flags(*shape, rate=0.01)
    theirs = _in_torchrl(
        lambda rl, p, m, r, v, n, d, s: rl.vtrace_advantage_estimate(0.99, p, m, v, n, r, d, s),
        *(pi, mu, reward, value, following, done, stop),
    )
    return Job(
        30 * math.prod(shape),
        lambda: kernels.vtrace(pi, mu, reward, value, following, done, stop, gamma=0.99),
        theirs,
    )


def td_lambda_return(bench: Bench) -> Job:
    shape = bench.batch
    reward, following, done = bench.floats(*shape), bench.floats(*shape), bench.flags(*shape)
    theirs = _in_torchrl(
        lambda rl, r, n, d: rl.vec_td_lambda_return_estimate(0.99, 0.95, n, r, d, d), reward, following, done
    )
    return Job(
        13 * math.prod(shape),
        lambda: kernels.td_lambda_return(reward, following, done, gamma=0.99, lmbda=0.95),
        theirs,
    )


def td0_return(bench: Bench) -> Job:
    shape = bench.batch
    reward, following, done = bench.floats(*shape), bench.floats(*shape), bench.flags(*shape)
    theirs = _in_torchrl(lambda rl, r, n, d: rl.td0_return_estimate(0.99, n, r, d), reward, following, done)
    return Job(13 * math.prod(shape), lambda: kernels.td0_return(reward, following, done, gamma=0.99), theirs)


def reward_to_go(bench: Bench) -> Job:
    shape = bench.batch
    reward, done = bench.floats(*shape), bench.flags(*shape)
    theirs = _in_torchrl(lambda rl, r, d: rl.reward2go(r, d, 0.99), reward, done)
    return Job(9 * math.prod(shape), lambda: kernels.reward_to_go(reward, done, gamma=0.99), theirs)


def multistep_return(steps: int) -> Callable[[Bench], Job]:
    def make(bench: Bench) -> Job:
        shape = bench.batch
        reward, done = bench.floats(*shape), bench.flags(*shape)

        def get_reward(rl: Any, r: Any, d: Any) -> Any:
            from torchrl.data.postprocs.postprocs import _get_reward

            return _get_reward(0.99, r[..., 0], d[..., 0], steps - 1)

        # a number and a flag in; a number, two integers of 64 bits, a discount and a flag out
        return Job(
            30 * math.prod(shape),
            lambda: kernels.multistep_return(reward, done, gamma=0.99, n_steps=steps),
            _in_torchrl(get_reward, reward, done),
        )

    return make


def gather_time(bench: Bench) -> Job:
    rows, steps = bench.batch
    features = 2 if bench.toy else 64
    array, index = bench.floats(rows, steps, features), bench.below(steps, rows, steps)
    theirs = _in_torch(
        lambda torch, a, i: torch.gather(a, 1, i[..., None].expand(-1, -1, features)), array, index
    )
    moved = 8 * features * rows * steps + 8 * rows * steps
    return Job(moved, lambda: kernels.gather_time(array, index), theirs, waits=True)


def token_log_probs(*shape: int, narrow: bool) -> Callable[[Bench], Job]:
    def make(bench: Bench) -> Job:
        *rows, size = (2, 3, 40) if bench.toy else shape
        logits = bench.bfloat16(*rows, size) if narrow else bench.floats(*rows, size)
        tokens = bench.below(size, *rows)

        def log_probs(torch: Any, a: Any, b: Any) -> Any:
            return torch.log_softmax(a.view(torch.bfloat16) if narrow else a, -1).gather(-1, b[..., None])

        theirs = _in_torch(log_probs, logits.bits if narrow else logits, tokens)
        moved = math.prod(rows) * (size * (2 if narrow else 4) + 8 + 4)
        return Job(moved, lambda: kernels.token_log_probs(logits, tokens), theirs, waits=True)

    return make


def token_log_probs_and_entropy(bench: Bench) -> Job:
    *rows, size = (2, 3, 40) if bench.toy else (64, 1024, 32000)
    logits, tokens = bench.bfloat16(*rows, size), bench.below(size, *rows)

    def both(torch: Any, a: Any, b: Any) -> Any:
        log_p = torch.log_softmax(a.view(torch.bfloat16), -1)
        return log_p.gather(-1, b[..., None]), -(log_p.exp() * log_p).sum(-1)

    moved = math.prod(rows) * (size * 2 + 8 + 4 + 4)
    theirs = _in_torch(both, logits.bits, tokens)
    return Job(moved, lambda: kernels.token_log_probs_and_entropy(logits, tokens), theirs, waits=True)


def log_softmax(bench: Bench) -> Job:
    shape = (2, 3, 40) if bench.toy else (8, 1024, 32000)
    logits, out = bench.floats(*shape), bench.floats(*shape)
    theirs = _in_torch(lambda torch, a, b: torch.log_softmax(a, -1, out=b), logits, out)
    return Job(8 * math.prod(shape), lambda: kernels.masked_log_softmax(logits, out=out), theirs)


def sample_tokens(rows: int, **details: Any) -> Callable[[Bench], Job]:
    def make(bench: Bench) -> Job:
        shape = (2, 40) if bench.toy else (rows, 50257)
        logits, seeds = bench.floats(*shape), np.arange(shape[0])

        def drawn(torch: Any, a: Any) -> Any:
            scores = a / 0.8
            scores = scores.masked_fill(scores < torch.topk(scores, 50)[0][..., -1:], -torch.inf)
            ordered, order = torch.sort(scores)
            dropped = ordered.softmax(-1).cumsum(-1) <= 0.1
            scores = scores.masked_fill(dropped.scatter(1, order, dropped), -torch.inf)
            tokens = torch.multinomial(scores.softmax(-1), 1)
            return tokens, torch.log_softmax(a, -1).gather(-1, tokens)

        def lite() -> Any:
            return kernels.sample_tokens(logits, seeds, temperature=0.8, top_k=50, top_p=0.9, **details)

        theirs = None if details else _in_torch(drawn, logits)
        return Job(4 * math.prod(shape), lite, theirs, waits=True)

    return make


def token_scores(bench: Bench) -> Job:
    """Of tokens that were drawn from 50 each, at another temperature: rows are read twice."""
    shape = (3, 40) if bench.toy else (4096, 50257)
    logits = bench.floats(*shape)
    kept = min(50, shape[1])
    support = np.arange(shape[0] + 1) * kept, np.tile(np.arange(kept), shape[0])
    tokens = bench.cuda.to_device(np.zeros(shape[0], np.int64))

    def lite() -> Any:
        return kernels.token_scores(logits, tokens, temperature=0.8, support=support)

    return Job(4 * math.prod(shape), lite, None, waits=True)


def masked_log_softmax(bench: Bench) -> Job:
    shape = (2, 3, 40) if bench.toy else (8, 1024, 32000)
    logits, out = bench.floats(*shape), bench.floats(*shape)
    mask = bench.flags(*shape, rate=0.9)
    theirs = _in_torch(
        lambda torch, a, keep: torch.log_softmax(a.masked_fill(~keep, -torch.inf), -1), logits, mask
    )
    # a number and a flag in, a number out
    return Job(9 * math.prod(shape), lambda: kernels.masked_log_softmax(logits, mask, out=out), theirs)


JOBS: dict[str, Callable[[Bench], Job]] = {
    "memory for one result": allocation,
    "gae": gae,
    "gae, time first": gae_time_first,
    "vtrace": vtrace,
    "td_lambda_return": td_lambda_return,
    "td0_return": td0_return,
    "reward_to_go": reward_to_go,
    "multistep_return, n=3": multistep_return(3),
    "multistep_return, n=1000": multistep_return(1000),
    "gather_time": gather_time,
    "token_log_probs, bfloat16": token_log_probs(64, 1024, 32000, narrow=True),
    "token_log_probs, float32": token_log_probs(16, 512, 128256, narrow=False),
    "token_log_probs_and_entropy, bfloat16": token_log_probs_and_entropy,
    "masked_log_softmax, no mask": log_softmax,
    "masked_log_softmax": masked_log_softmax,
    "sample_tokens, 8 rows": sample_tokens(8),
    "sample_tokens, 256 rows": sample_tokens(256),
    "sample_tokens with details, 8 rows": sample_tokens(8, details=True, kept_ids=True, top_n=5),
    "token_scores": token_scores,
}
