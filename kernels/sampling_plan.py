"""Repeated draws with fixed options: arguments are checked and memory is allocated once."""

from __future__ import annotations  # numpy.random is imported on first use, and is slow to import

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from lite.kernels._arrays import Array, as_array, contiguous, require_float, rows_of, to_numpy
from lite.kernels._device import gpu_of, in_cuda_memory
from lite.kernels._integer import integer
from lite.kernels._logits import SMALLEST
from lite.kernels._outcomes import OUTSIDE, WHY, check, uniform
from lite.kernels._threads import for_rows, get_num_threads
from lite.kernels.token_log_probs import token_log_probs

_SERIAL = 100_000  # logits: below, starting a thread costs more than it saves
_HOTTEST = float(np.finfo(np.float32).max)  # -inf divided by more would be NaN
_NO_FLAGS, _NO_BITS, _NO_IDS = np.empty(0, np.bool_), np.empty(0, np.int32), np.empty(0, np.int64)
_NO_SCORES = np.empty(0, np.float32)

Bias = tuple[ArrayLike, ArrayLike, ArrayLike]


@dataclass(frozen=True, slots=True)
class DrawDetails:
    """Statistics of the distributions that tokens were drawn from, one entry per row.

    With `scores` for what penalty and finite bias made of the logits: `sampled_log_probs` are
    `log_softmax(scores / temperature)[token] - kept_log_mass`.

    Attributes:
        sampled_log_probs: float64; of the token in the distribution that it was really drawn from, after
            penalty, bias, mask, temperature and filters. 0 at temperature 0.
        kept_log_mass: float64; log of the share of `softmax(scores / temperature)` that mask, bans (a bias of
            -inf) and filters left. 0 at temperature 0.
        entropy: float64, in nats; of the model, the softmax of its logits.
        kept_offsets, kept_ids: if asked for. `kept_ids[kept_offsets[r]:kept_offsets[r + 1]]`, int32 and
            ascending, are the tokens that row r could draw; none are listed where these are all tokens.
        top_ids, top_log_probs: if asked for, `(rows, top_n)`; the model's most probable tokens, int64, the
            first of equal ones first, and their log-probs in the model, float64.
    """

    sampled_log_probs: NDArray[np.float64]
    kept_log_mass: NDArray[np.float64]
    entropy: NDArray[np.float64]
    kept_offsets: NDArray[np.int64] | None = None
    kept_ids: NDArray[np.int32] | None = None
    top_ids: NDArray[np.int64] | None = None
    top_log_probs: NDArray[np.float64] | None = None


class SamplingPlan:
    """Draws one token per row of logits, again and again, for rows whose seeds and options stay.

    What `sample_tokens` does, in which each argument is explained; options are checked and memory is
    allocated once, so that a draw from few logits costs microseconds. The arrays that `draw` returns are the
    plan's: the next draw overwrites them, all but those of kept tokens. A plan is for one thread at a time.

    Args:
        shape: `(rows, vocabulary)` of all logits.
        seeds: `(rows,)` integers, or a generator.
        temperature, top_k, top_p, min_p, typical_p, repetition_penalty: one value, or one per row.
        details: whether draws come with `DrawDetails`.
        kept_ids: whether these list the tokens that were kept.
        top_n: how many of the most probable tokens they list.

    Raises:
        TypeError, ValueError: as `sample_tokens`.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import SamplingPlan
        >>> logits = np.log(np.array([[0.6, 0.3, 0.1], [0.1, 0.1, 0.8]], np.float32))
        >>> plan = SamplingPlan((2, 3), np.array([7, 8]), top_p=0.7, details=True, kept_ids=True)
        >>> tokens, log_probs, details = plan.draw(logits, step=0)
        >>> details.kept_offsets.tolist(), details.kept_ids.tolist()
        ([0, 2, 3], [0, 1, 2])
        >>> np.exp(details.kept_log_mass).round(4).tolist()
        [0.9, 0.8]
    """

    def __init__(
        self, shape: tuple[int, int], seeds: ArrayLike | np.random.Generator, *,
        temperature: ArrayLike = 1.0, top_k: ArrayLike = 0, top_p: ArrayLike = 1.0, min_p: ArrayLike = 0.0,
        typical_p: ArrayLike = 1.0, repetition_penalty: ArrayLike = 1.0, details: bool = False,
        kept_ids: bool = False, top_n: int = 0,
    ) -> None:  # fmt: skip
        if len(shape) != 2 or (shape[0] and not shape[1]):
            raise ValueError(f"shape must be (rows, vocabulary), got {shape}")
        rows, size = self.shape = shape
        options = [
            _option("temperature", temperature, rows, 0.0, np.inf),
            _option("top_k", top_k, rows, 0, np.inf, np.int64),
            _option("top_p", top_p, rows, 0.0, 1.0),
            _option("min_p", min_p, rows, 0.0, 1.0),
            _option("typical_p", typical_p, rows, 0.0, 1.0),
            _option("repetition_penalty", repetition_penalty, rows, SMALLEST, np.inf),
        ]
        top_n = integer("top_n", top_n)
        if not 0 <= top_n <= size:
            raise ValueError(f"top_n must be from 0 to the vocabulary of {size}, got {top_n}")
        if (kept_ids or top_n) and not details:
            raise ValueError(f"{'kept_ids' if kept_ids else 'top_n'} needs details=True")
        self._options = np.zeros((rows, 7))
        for i, option in enumerate(options):
            self._options[:, i] = option
        np.minimum(self._options[:, 0], _HOTTEST, out=self._options[:, 0])
        self._typical, self._penalized = (self._options[:, 4:6] != 1.0).any(0).tolist()
        drawn = "numpy.random" in sys.modules  # there is no generator otherwise, and its import takes longer
        self._generator = seeds if drawn and isinstance(seeds, np.random.Generator) else None
        self._seeds = np.zeros((rows if self._generator is None else 0, 2), np.uint64)  # with the steps
        if self._generator is None:
            given = to_numpy("seeds", seeds)  # type: ignore[arg-type]
            if given.dtype.kind not in "iu":
                raise TypeError(f"seeds and step must be integers, got seeds of {given.dtype}")
            if given.shape != (rows,):
                raise ValueError(f"seeds must have the shape ({rows},), got {given.shape}")
            self._seeds[:, 0] = given
        self._details, self._kept, self._top_n = details, kept_ids, top_n
        self._ready = False
        self._there: dict[int, Any] = {}  # memory on GPUs
        # logits that were drawn from as they are, and the kernel's arguments for them
        self._again: Any = None
        self._same: tuple[Any, ...] = ()

    def _allocate(self) -> None:
        """Allocate the results and the scratch memory, which all calls share."""
        import lite.kernels.cpu.sample_tokens as cpu  # `from` takes longer
        from lite.kernels.cpu.flat_rows import flat_row

        rows, size = self.shape
        self._rows, self._flat_row = cpu.rows, flat_row
        self._begins = np.arange(rows, dtype=np.int64) * size
        self._none = np.zeros(rows + 1, np.int64)  # offsets of what is not there
        self._tokens, self._status = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        self._log_probs = np.zeros(rows, np.float32)
        self._memories = [cpu.work_memory(size)]  # of the threads
        self._fixed: tuple[Any, ...] = (
            self._options.reshape(-1), self._seeds.reshape(-1), self._tokens, self._log_probs, self._status,
        )  # fmt: skip
        if self._details:
            self._numbers = np.zeros((rows, cpu.NUMBERS))
            self._top_ids = np.zeros((rows, self._top_n), np.int64)
            self._top_scores = np.zeros((rows, self._top_n))
            self._kept_ids = np.empty(rows * size if self._kept else 0, np.int32)
            self._kept_counts = np.zeros(rows if self._kept else 0, np.int64)
            self._fixed += (
                self._numbers.reshape(-1), self._kept_ids, self._kept_counts,
                self._top_n, self._top_ids.reshape(-1), self._top_scores.reshape(-1),
            )  # fmt: skip
        else:
            self._fixed += (None,) * 6
        self._ready = True

    def draw(
        self, logits: ArrayLike, step: ArrayLike = 0, *,
        previous: ArrayLike | Sequence[ArrayLike] | None = None, bias: Bias | None = None,
        mask: ArrayLike | None = None, scores: ArrayLike | None = None, stream: Any = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], DrawDetails | None]:  # fmt: skip
        """Draw a token of each row.

        Args:
            logits: `(rows, vocabulary)`, of a floating type.
            step: which draw of its seed this is, one value or one per row.
            previous, bias, mask, scores, stream: as in `sample_tokens`.

        Returns:
            Tokens, int64, their log-probs in the model, float32, both `(rows,)`, and the details, None where
            none were asked for.

        Raises:
            TypeError, ValueError: as `sample_tokens`.
        """
        plain = stream is None and previous is None and bias is None and mask is None and scores is None
        if plain and logits is self._again:  # the next step in the same memory
            self._set_steps(step)
            return self._drawn(logits, self._same)
        elsewhere = not plain and (stream is not None or in_cuda_memory(mask) or in_cuda_memory(scores))
        if type(logits) is np.ndarray and not elsewhere:  # the common case
            model: Array = logits
        else:
            gpu = gpu_of(stream, logits=logits, mask=mask, scores=scores)
            model = as_array("logits", logits)
            if gpu is not None:
                self._check(model)
                return self._draw_on(gpu, logits, model, step, previous, bias, mask, scores, stream)
        self._check(model)
        rows, size = self.shape
        self._set_steps(step)
        if not self._ready:
            self._allocate()
        begins = self._begins
        if model.dtype == np.float32 and not model.flags.c_contiguous and rows:
            narrow, begins = rows_of(model)
        else:
            narrow = _plain(model, np.float32)
        other = _NO_SCORES
        if scores is not None:
            other = _plain(_shaped("scores", scores, self.shape), np.float32)
        keep, bits = _NO_FLAGS, _NO_BITS
        if mask is not None:
            allowed, packed = _mask(mask, self.shape)
            if packed:
                bits = _plain(allowed.view(np.int32), np.int32)
            else:
                keep = _plain(allowed, np.bool_)
        before, starts = _NO_IDS, self._none
        if previous is not None:
            before, starts = _previous(previous, rows)
            before = before if self._penalized else _NO_IDS
            starts = starts if self._penalized else self._none
        offsets, ids, values = self._none, _NO_IDS, _NO_SCORES
        if bias is not None:
            offsets, ids, values = _bias(bias, rows)
        changes: tuple[Any, ...] = (None,) * 8
        changed = scores is not None or mask is not None or bias is not None or before.size or self._typical
        if changed or self._details:  # details without changes would be compiled once more
            changes = (other, keep, bits, before, starts, ids, values, offsets)
        args = (narrow, begins, size, *changes, *self._fixed)
        if plain and rows and np.may_share_memory(narrow, model):
            self._again, self._same = logits, args
        return self._drawn(model, args)

    def _drawn(
        self, model: Array, args: tuple[Any, ...]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], DrawDetails | None]:
        rows, size = self.shape
        if rows * size <= _SERIAL or rows == 1 or get_num_threads() == 1:
            self._draw_rows(args, self._memories[0], 0, rows)
        else:
            self._on_threads(args, rows)
        if np.count_nonzero(self._status):
            check(self._status)
        log_probs = self._log_probs
        if model.itemsize == 8 and rows:  # what float32 has rounded
            log_probs[:] = token_log_probs(model, self._tokens)
        return self._tokens, log_probs, self._detailed() if self._details else None

    def _check(self, model: Array) -> None:
        require_float("logits", model.dtype)
        if model.shape != self.shape:
            raise ValueError(f"logits must have the shape {self.shape}, got {model.shape}")

    def _draw_rows(self, args: tuple[Any, ...], memory: tuple[Any, ...], start: int, stop: int) -> None:
        """Rows in order; a flat one leaves the loop, so that others need no code for it."""
        while start < stop:
            start = self._rows(*args, *memory, start, stop)
            if start < stop:
                self._flat_row(*args[:3], *self._fixed[:4], *self._fixed[5:8], *memory, start)
                start += 1

    def _on_threads(self, args: tuple[Any, ...], rows: int) -> None:
        from lite.kernels.cpu import sample_tokens as cpu

        memories = self._memories

        def work(start: int, stop: int) -> None:
            try:
                memory = memories.pop()
            except IndexError:  # each is with a thread
                memory = cpu.work_memory(self.shape[1])
            self._draw_rows(args, memory, start, stop)
            memories.append(memory)

        for_rows(work, rows, 1)

    def _set_steps(self, step: ArrayLike) -> None:
        if self._generator is not None:
            self._options[:, 6] = self._generator.random(self.shape[0])
        elif type(step) is int:
            self._seeds[:, 1] = step & 0xFFFFFFFFFFFFFFFF
        else:
            given = to_numpy("step", step)
            if given.dtype.kind not in "iu":
                raise TypeError(f"seeds and step must be integers, got a step of {given.dtype}")
            if given.shape not in ((), (self.shape[0],)):
                raise ValueError(f"step must have the shape () or ({self.shape[0]},), got {given.shape}")
            self._seeds[:, 1] = given.astype(np.uint64)

    def _detailed(self) -> DrawDetails:
        offsets = kept = None
        rows, size = self.shape
        if self._kept:
            offsets = np.zeros(rows + 1, np.int64)
            np.cumsum(self._kept_counts, out=offsets[1:])
            counts = enumerate(self._kept_counts.tolist())
            parts = [self._kept_ids[r * size : r * size + n] for r, n in counts]
            kept = np.concatenate(parts) if rows else self._kept_ids
        numbers = self._numbers
        top = (self._top_ids, self._top_scores) if self._top_n else (None, None)
        return DrawDetails(numbers[:, 0], numbers[:, 1], numbers[:, 2], offsets, kept, *top)

    def _draw_on(
        self, gpu: Any, logits: Any, model: Array, step: ArrayLike, previous: Any, bias: Any, mask: Any,
        scores: Any, stream: Any,
    ) -> tuple[Any, Any, DrawDetails | None]:  # fmt: skip
        """For logits in CUDA memory; details are on the host."""
        from lite.kernels.cuda import sample_tokens as cuda
        from lite.kernels.cuda._gpu import Reused

        self._set_steps(step)
        keep = None if mask is None else _mask(mask, self.shape)[0]
        source = model if scores is None else _shaped("scores", scores, self.shape)
        before, starts = _previous(previous, self.shape[0], gpu)
        added = np.zeros(self.shape[0] + 1, np.int64), _NO_IDS, _NO_SCORES
        if bias is not None:
            added = _bias(bias, self.shape[0])
            outside = (added[1] < 0) | (added[1] >= self.shape[1])
            if outside.any():
                row = int(np.searchsorted(added[0], int(outside.argmax()), side="right")) - 1
                raise ValueError(WHY[OUTSIDE].format(row))
        if self._generator is None:
            self._options[:, 6] = uniform(self._seeds[:, 0], self._seeds[:, 1])
        details = cuda.Details(self._kept, self._top_n) if self._details else None
        options = self._options.T.copy()
        reused = self._there.setdefault(gpu.ordinal, Reused())
        drawn = cuda.draw(gpu, source, keep, before, starts, added, options, model, details, reused)
        check(drawn.outcomes)
        log_probs = cuda.narrowed(gpu, token_log_probs(logits, drawn.tokens, stream=stream))
        if drawn.numbers is None:
            return drawn.tokens, log_probs, None
        sampled, masses, entropies = drawn.numbers.T
        listed = drawn.offsets, drawn.kept, drawn.best, drawn.best_log_probs
        return drawn.tokens, log_probs, DrawDetails(sampled, masses, entropies, *listed)


def _option(
    name: str, value: ArrayLike, rows: int, low: float, high: float, dtype: type[np.generic] = np.float64
) -> Any:
    """A number, or one per row, checked."""
    plain = type(value) is int or (type(value) is float and dtype is np.float64)
    if plain and low <= value <= high and value < np.inf:  # type: ignore[operator]
        return value  # the common case: a tenth of the cost
    given = to_numpy(name, value)
    if given.dtype.kind not in ("iu" if dtype is np.int64 else "fiu"):
        raise TypeError(f"{name} must be {'integer' if dtype is np.int64 else 'a number'}, got {given.dtype}")
    if given.shape not in ((), (rows,)):
        raise ValueError(f"{name} must be one value or have the shape ({rows},), got {given.shape}")
    if not ((given >= low) & (given <= high) & (given < np.inf)).all():
        limits = f"in [{low:g}, {high:g}]" if high < np.inf else "at least 0" if low == 0 else "positive"
        raise ValueError(f"{name} must be {limits} and finite, got {given.tolist()}")
    return given


def _shaped(name: str, value: ArrayLike, shape: tuple[int, int]) -> Array:
    """Scores of the shape of logits."""
    given = as_array(name, value)
    require_float(name, given.dtype)
    if given.shape != shape:
        raise ValueError(f"{name} must have the shape of logits {shape}, got {given.shape}")
    return given


def _mask(mask: ArrayLike, shape: tuple[int, int]) -> tuple[Array, bool]:
    """The flags or the words of bits, and which of both."""
    given = as_array("mask", mask)
    if given.dtype == np.bool_:
        if given.shape != shape:
            raise ValueError(f"mask must have the shape of logits {shape}, got {given.shape}")
        return given, False
    if given.dtype not in (np.int32, np.uint32):
        raise TypeError(f"mask must be boolean, or bits in int32 or uint32, got {given.dtype}")
    words = shape[0], -(-shape[1] // 32)
    if given.shape != words:
        raise ValueError(f"mask must have the shape {words} for logits {shape}, as bits, got {given.shape}")
    return given, True


def _bias(bias: Bias, rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Offsets, ids and values; whether the ids are of the vocabulary is seen where they are used."""
    if not isinstance(bias, tuple) or len(bias) != 3:
        raise TypeError(f"bias must be a tuple (offsets, ids, values), got {type(bias).__name__}")
    offsets, ids, values = (
        to_numpy(f"bias {name}", part) for name, part in zip(("offsets", "ids", "values"), bias, strict=True)
    )
    if offsets.dtype.kind not in "iu" or (ids.size and ids.dtype.kind not in "iu"):
        raise TypeError(f"bias offsets and ids must be integers, got {offsets.dtype} and {ids.dtype}")
    if values.dtype.kind not in "fiu":
        raise TypeError(f"bias values must be numbers, got {values.dtype}")
    if offsets.shape != (rows + 1,) or ids.ndim != 1 or ids.shape != values.shape:
        raise ValueError(
            f"bias must have offsets of the shape ({rows + 1},) and as many values as ids, got the shapes "
            f"{offsets.shape}, {ids.shape} and {values.shape}"
        )
    if offsets[0] != 0 or offsets[-1] != ids.size or (offsets[1:] < offsets[:-1]).any():
        raise ValueError(f"bias offsets must rise from 0 to the {ids.size} ids, got {offsets.tolist()}")
    if not ids.size:
        return np.zeros(rows + 1, np.int64), _NO_IDS, _NO_SCORES
    if not (values < np.inf).all():
        raise ValueError("bias values must be finite or -inf, got NaN or +inf")
    return _plain(offsets, np.int64), _plain(ids, np.int64), _plain(values, np.float32)


def _previous(
    previous: ArrayLike | Sequence[ArrayLike] | None, rows: int, gpu: Any = None
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
    if isinstance(previous, np.ndarray) and previous.ndim == 2 and previous.dtype.kind in "iu":
        width = previous.shape[1]
        if previous.size and len(previous) == rows:  # without a look at each row
            return _plain(previous, np.int64), np.arange(rows + 1, dtype=np.int64) * width
    parts = [] if previous is None else [to_numpy("previous", part) for part in previous]  # type: ignore[union-attr]
    if previous is None or not rows:
        return _NO_IDS, np.zeros(rows + 1, np.int64)
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


def _plain(array: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    """As flat, writable memory of `dtype`, which compiled code reads."""
    if array.dtype == dtype and array.flags.carray:  # the common case: without a call of NumPy's
        return array.reshape(-1)
    with np.errstate(over="ignore"):  # of float64 logits
        return contiguous(array, dtype).reshape(-1)
