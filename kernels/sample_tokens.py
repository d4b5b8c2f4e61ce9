"""Draw the next token of every row, reproducibly whatever else is in the batch."""

from __future__ import annotations  # numpy.random is imported on first use, and is slow to import

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite.kernels._arrays import Array, as_array, contiguous, is_float, to_numpy
from lite.kernels._device import gpu_of, in_cuda_memory
from lite.kernels._logits import SMALLEST
from lite.kernels._outcomes import check
from lite.kernels._threads import for_rows
from lite.kernels.token_log_probs import token_log_probs

_SERIAL = 100_000  # logits: below, starting a thread costs more than it saves
_HOTTEST = float(np.finfo(np.float32).max)  # -inf divided by more would be NaN
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FACTORS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


def sample_tokens(
    logits: ArrayLike, seeds: ArrayLike | np.random.Generator, *, step: ArrayLike = 0,
    temperature: ArrayLike = 1.0, top_k: ArrayLike = 0, top_p: ArrayLike = 1.0, min_p: ArrayLike = 0.0,
    repetition_penalty: ArrayLike = 1.0, previous: ArrayLike | Sequence[ArrayLike] | None = None,
    mask: ArrayLike | None = None, stream: Any = None,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:  # fmt: skip
    """Draw one token per row, and give the model's own log-prob of it.

    The filters work in the order of Hugging Face's `generate`: mask, repetition penalty, temperature,
    top-k, top-p, min-p; their ties are resolved as there. A row's draw depends on its seed, its step, its
    logits and its options only, never on the other rows.

    Each option is one value for all rows or an array of one per row.

    Args:
        logits: `(rows, vocabulary)`, of a floating type; computed in float32.
        seeds: `(rows,)` integers, hashed with `step` to the row's uniform draw; or a generator, which then
            gives one draw per row in order (rows depend on their place in the batch then).
        step: which draw of the row's seed this is; count it up while generating.
        temperature: the scores are divided by it; 0, or less than 2**-126, takes the highest score (the
            first of equal ones).
        top_k: only the k highest scores stay, with all that equal the k-th; 0 is off.
        top_p: only the most probable tokens stay that hold this share of the probability, in [0, 1]; the
            most probable one always does; 1 is off.
        min_p: only tokens with at least this share of the best token's probability stay, in [0, 1].
        repetition_penalty: scores of `previous` tokens are divided by it, or multiplied where negative.
        previous: tokens already there: one array per row, or one padded with -1. Tokens outside the
            vocabulary are passed over.
        mask: `(rows, vocabulary)` booleans, True for tokens that may be drawn.
        stream: for logits in CUDA memory: a Numba stream, the handle of one, or a CuPy or torch stream. Mask
            and `previous`, as one array, lie beside them; seeds, steps and options may be on the host, where
            they are read in any case. The draws are those of the CPU but for rounding.

    Returns:
        Tokens, int64, and their natural log-probs, float32, both `(rows,)`. The log-probs are those of the
        model: of the logits before mask, penalty, temperature and filters.

    Raises:
        TypeError: a type that does not fit the argument; logits in CUDA memory and a mask that is not.
        ValueError: a shape or value that does not fit; a row with NaN, or with nothing left to draw.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import sample_tokens
        >>> logits = np.log(np.array([[0.6, 0.3, 0.1], [0.1, 0.1, 0.8]], np.float32))
        >>> tokens, log_probs = sample_tokens(logits, np.array([7, 8]), temperature=0)
        >>> tokens.tolist(), np.exp(log_probs).round(3).tolist()
        ([0, 2], [0.6000000238418579, 0.800000011920929])
        >>> both, _ = sample_tokens(logits, np.array([7, 8]), top_k=2)
        >>> alone, _ = sample_tokens(logits[1:], np.array([8]), top_k=2)
        >>> bool(both[1] == alone[0])
        True
    """
    gpu = gpu_of(stream, logits=logits, mask=mask)
    model = as_array("logits", logits)
    if not is_float(model.dtype):
        raise TypeError(f"logits must be float16, bfloat16, float32 or float64, got {model.dtype}")
    if model.ndim != 2 or (model.shape[0] and not model.shape[1]):
        raise ValueError(f"logits must have the shape (rows, vocabulary), got {model.shape}")
    rows, size = model.shape
    keep = None
    if mask is not None:
        keep = as_array("mask", mask)
        if keep.dtype != np.bool_:
            raise TypeError(f"mask must be boolean, got {keep.dtype}")
        if keep.shape != model.shape:
            raise ValueError(f"mask must have the shape of logits {model.shape}, got {keep.shape}")
    before, before_starts = _previous(previous, rows, gpu)
    options = [
        _option("temperature", temperature, rows, 0.0, np.inf, gpu),
        _option("top_k", top_k, rows, 0, np.inf, gpu, np.int64),
        _option("top_p", top_p, rows, 0.0, 1.0, gpu),
        _option("min_p", min_p, rows, 0.0, 1.0, gpu),
        _option("repetition_penalty", repetition_penalty, rows, SMALLEST, np.inf, gpu),
    ]
    np.minimum(options[0], _HOTTEST, out=options[0])
    uniform = _uniform(seeds, step, rows, gpu)
    if gpu is not None:
        from lite.kernels.cuda import sample_tokens as cuda

        drawn, outcome = cuda.draw(gpu, model, keep, before, before_starts, np.stack([*options, uniform]))
        check(outcome)
        scores = token_log_probs(logits, drawn, stream=stream)
        return drawn, cuda.narrowed(gpu, scores)
    tokens, status = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    log_probs = np.zeros(rows, np.float32)
    if rows:
        from lite.kernels.cpu import sample_tokens as cpu

        with np.errstate(over="ignore"):  # of float64 logits
            narrow = contiguous(model, np.float32).reshape(-1)
        penalty = options.pop()
        choices = np.array([*options, uniform]).T.copy()
        cold = choices[:, 0] < SMALLEST
        if cold.any():
            choices[cold] = 1, 1, 1, 0, 0  # the first of the highest scores
        args = (
            narrow, size, np.empty(0, np.bool_) if keep is None else contiguous(keep, np.bool_).reshape(-1),
            *_penalized(narrow, size, before, before_starts, penalty), choices.reshape(-1), tokens, log_probs,
            status,
        )  # fmt: skip
        memories: list[Any] = []  # of the threads

        def work(start: int, stop: int) -> None:
            memory = memories.pop() if memories else cpu.work_memory(size)
            cpu.rows(*args, *memory, start, stop)
            memories.append(memory)

        for_rows(work, rows, 1 if rows * size > _SERIAL else rows)
        check(status)
    if model.dtype == np.float64 or np.isnan(log_probs).any():  # what float32 has rounded; infinite logits
        log_probs = token_log_probs(model, tokens).astype(np.float32)
    return tokens, log_probs


def _penalized(
    logits: NDArray[np.float32], size: int, previous: NDArray[np.int64], starts: NDArray[np.int64],
    penalty: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:  # fmt: skip
    """Tokens whose scores a penalty changes, these scores, and where those of each row begin."""
    if not previous.size or (penalty == 1.0).all():
        return np.empty(0, np.int64), np.empty(0, np.float32), np.zeros_like(starts)
    row = np.repeat(np.arange(len(penalty)), np.diff(starts))
    changed = (previous >= 0) & (previous < size) & (penalty != 1.0)[row]
    row, places = row[changed], previous[changed]
    scores = logits[row * size + places]
    with np.errstate(all="ignore"):
        factor = penalty[row].astype(np.float32)
        scores = np.where(scores < 0, scores * factor, scores / factor)
    return places, scores, np.searchsorted(row, np.arange(len(starts)))


def _on_host(name: str, value: ArrayLike, gpu: Any) -> NDArray[Any]:
    """`value`, which is small, as a NumPy array."""
    if gpu is None or not in_cuda_memory(value):
        return to_numpy(name, value)
    from lite.kernels.cuda._copies import fetched

    return fetched(gpu, as_array(name, value))


def _option(
    name: str, value: ArrayLike, rows: int, low: float, high: float, gpu: Any,
    dtype: type[np.generic] = np.float64,
) -> NDArray[Any]:  # fmt: skip
    """`value` as one number per row, checked."""
    plain = type(value) is int or (type(value) is float and dtype is np.float64)
    if plain and low <= value <= high and value < np.inf:  # type: ignore[operator]
        return np.full(rows, value, dtype)  # the common case: a tenth of the work below
    given = _on_host(name, value, gpu)
    if given.dtype.kind not in ("iu" if dtype is np.int64 else "fiu"):
        raise TypeError(f"{name} must be {'integer' if dtype is np.int64 else 'a number'}, got {given.dtype}")
    if given.shape not in ((), (rows,)):
        raise ValueError(f"{name} must be one value or have the shape ({rows},), got {given.shape}")
    if not ((given >= low) & (given <= high) & (given < np.inf)).all():
        limits = f"in [{low:g}, {high:g}]" if high < np.inf else "at least 0" if low == 0 else "positive"
        raise ValueError(f"{name} must be {limits} and finite, got {given.tolist()}")
    return contiguous(np.broadcast_to(given, (rows,)), dtype)


def _previous(
    previous: ArrayLike | Sequence[ArrayLike] | None, rows: int, gpu: Any
) -> tuple[Array, NDArray[np.int64]]:
    """All previous tokens in a line, and where each row's begin (and the last one's end).

    The tokens are on the GPU if there is one.
    """
    if gpu is not None and in_cuda_memory(previous):
        given = as_array("previous", previous)  # type: ignore[arg-type]
        if given.ndim != 2 or given.shape[0] != rows:
            raise ValueError(f"previous must be {rows} rows of tokens, got the shape {given.shape}")
        if given.dtype.kind not in "iu":
            raise TypeError(f"previous must hold integers, got {given.dtype}")
        return given, np.arange(rows + 1, dtype=np.int64) * given.shape[1]
    parts = [] if previous is None else [to_numpy("previous", part) for part in previous]  # type: ignore[union-attr]
    if previous is None or not rows:
        return np.empty(0, np.int64), np.zeros(rows + 1, np.int64)
    if len(parts) != rows or any(part.ndim != 1 for part in parts):
        shapes = [part.shape for part in parts]
        raise ValueError(
            f"previous must be {rows} one-dimensional arrays or one of that many rows, got {shapes}"
        )
    for part in parts:
        if part.size and part.dtype.kind not in "iu":
            raise TypeError(f"previous must hold integers, got {part.dtype}")
    lengths = np.array([0] + [part.size for part in parts])
    return np.concatenate(parts).astype(np.int64), np.cumsum(lengths, dtype=np.int64)


def _uniform(
    seeds: ArrayLike | np.random.Generator, step: ArrayLike, rows: int, gpu: Any
) -> NDArray[np.float64]:
    """One number in [0, 1) per row."""
    if isinstance(seeds, np.random.Generator):
        return seeds.random(rows)
    given, count = _on_host("seeds", seeds, gpu), _on_host("step", step, gpu)
    if given.dtype.kind not in "iu" or count.dtype.kind not in "iu":
        raise TypeError(f"seeds and step must be integers, got {given.dtype} and {count.dtype}")
    if given.shape != (rows,) or count.shape not in ((), (rows,)):
        raise ValueError(
            f"seeds must have the shape ({rows},) and step that shape or (), "
            f"got {given.shape} and {count.shape}"
        )
    state = _mix(given.astype(np.uint64) + _GOLDEN)
    state = _mix(state + count.astype(np.uint64).reshape(-1) * _GOLDEN)
    return (state >> _SHIFTS[3]).astype(np.float64) * 2.0**-53


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele, Lea and Flood, 2014)."""
    x = (x ^ (x >> _SHIFTS[0])) * _FACTORS[0]
    x = (x ^ (x >> _SHIFTS[1])) * _FACTORS[1]
    return x ^ (x >> _SHIFTS[2])
