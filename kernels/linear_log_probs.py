"""Log-probs of given tokens from hidden states and the output matrix, computed in blocks of the vocabulary.

Only one block of logits is in memory: some ids of the vocabulary for many rows. The softmax is accumulated
over blocks (online softmax), as attention does over blocks of keys. Blocks are of the vocabulary and not of
rows, because then each block of the matrix is read once for all rows, products have shapes that BLAS is fast
on, the derivative by a block of the matrix is one product, and quantised rows are dequantised once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite.kernels._arrays import contiguous, require_float, to_numpy
from lite.kernels._logits import inverse_temperature
from lite.kernels._row_numbers import run_rows

_Array = NDArray[Any]

BLOCK_BYTES = 32 << 20  # of logits; see bench/results/linear_log_probs.md
_NARROWEST = 512  # ids in a block; products with fewer are slower
_NOTHING = np.empty(0, np.bool_)


class QuantizedRows(Protocol):
    """An output matrix that is dequantised a block at a time; a constant."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(vocabulary, features)"""

    def rows(self, start: int, stop: int) -> _Array:
        """Rows `start` to `stop`, float32 (stop - start, features)."""


class _Gradients(NamedTuple):
    """Derivatives by the arguments of `LinearLogProbs`; None for those that were not requested."""

    hidden: NDArray[Any] | None
    weight: NDArray[Any] | None
    bias: NDArray[Any] | None


def linear_log_probs(
    hidden: ArrayLike, weight: ArrayLike | QuantizedRows, ids: ArrayLike, *, bias: ArrayLike | None = None,
    mask: ArrayLike | None = None, temperature: ArrayLike = 1.0, ignore_index: int = -100,
    block_bytes: int = BLOCK_BYTES,
) -> _Array:  # fmt: skip
    """Natural log-prob of each id under the softmax of `hidden @ weight.T + bias`.

    The result is `token_log_probs(hidden @ weight.T + bias, ids)`, but the array of logits is never
    allocated. The absolute error against float64 is below 1e-5. `lite.nn.functional.linear_log_probs` has a
    derivative.

    Args:
        hidden: `(*batch, features)`, float16, bfloat16, float32 or float64.
        weight: `(vocabulary, features)` of these types, never copied, also as a transposed view; or, for
            quantised matrices, an object with `shape` and `rows(start, stop)`, which gives float32.
        ids: integers, `(*batch)`.
        bias: `(vocabulary)`; -inf forbids an id.
        mask: booleans, `(*batch)`: positions that are False are not computed, and get 0.
        temperature: divides the logits; from 2**-126 to 2**100. One number, or one for each position.
        ignore_index: positions with this id get 0, as masked ones do.
        block_bytes: size of a block of logits. Further memory is a float32 block of a 16-bit or quantised
            matrix, which is no larger, a copy of `hidden` if rows are masked, and 60 bytes for each row.

    Returns:
        Shape of `ids`, float32 (float64 if an array is float64). A row whose logits are all -inf scores -inf;
        logits of +inf share the probability among themselves; NaN in a row gives NaN for that row only.

    Raises:
        TypeError: arrays of other types, or in CUDA memory (there `token_log_probs` reads logits).
        ValueError: shapes that do not fit, a temperature or `block_bytes` that is not positive.
        IndexError: an id outside the vocabulary at a position that counts.

    Source:
        The blocks are those of Milakov and Gimelshein (2018), Online normalizer calculation for softmax
        (arXiv:1805.02867); the purpose is that of Hsu et al. (2024), Liger Kernel (arXiv:2410.10989).

    Example:
        >>> import numpy as np
        >>> from lite.kernels import linear_log_probs
        >>> weight = np.log(np.array([[0.5, 0.1], [0.25, 0.1], [0.25, 0.8]], np.float32))
        >>> hidden = np.eye(2, dtype=np.float32)
        >>> np.exp(linear_log_probs(hidden, weight, np.array([0, 2]))).round(4).tolist()
        [0.5, 0.800000011920929]
    """
    return LinearLogProbs(hidden, weight, ids, bias, mask, temperature, ignore_index, block_bytes).log_probs()


class LinearLogProbs:
    """One call of `linear_log_probs`, and the derivatives of its result."""

    def __init__(
        self, hidden: ArrayLike, weight: Any, ids: ArrayLike, bias: ArrayLike | None = None,
        mask: ArrayLike | None = None, temperature: ArrayLike = 1.0, ignore_index: int = -100,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:  # fmt: skip
        states = _floats("hidden", hidden)
        self._quantized = hasattr(weight, "rows") and not isinstance(weight, np.ndarray)
        self._weight: Any = weight if self._quantized else _floats("weight", weight)
        self._bias = None if bias is None else _floats("bias", bias)
        given = [states, self._bias, None if self._quantized else self._weight]
        wide = any(array is not None and array.dtype == np.float64 for array in given)
        self._dtype: Any = np.dtype(np.float64 if wide else np.float32)
        shape = tuple(self._weight.shape)
        if len(shape) != 2:
            raise ValueError(f"weight must have the shape (vocabulary, features), got {shape}")
        self._vocabulary, self._features = map(int, shape)
        if not states.ndim or states.shape[-1] != self._features:
            raise ValueError(f"hidden must have the features of weight {shape} last, got {states.shape}")
        if self._bias is not None and self._bias.shape != shape[:1]:
            raise ValueError(f"bias must have the shape {shape[:1]}, got {self._bias.shape}")
        if block_bytes <= 0:
            raise ValueError(f"block_bytes must be positive, got {block_bytes}")
        self._block_bytes = block_bytes
        self._shape = states.shape[:-1]
        self._at, self._ids = self._counted(ids, mask, ignore_index)
        rows = states.reshape(-1, self._features)
        self._hidden = _taken(rows, self._at).astype(self._dtype, copy=False)
        inverses = np.broadcast_to(np.float64(inverse_temperature(temperature, self._shape)), self._shape)
        self._inverses = inverses.reshape(-1)[self._at]
        self._highest, self._logits = np.full((2, len(self._at)), -np.inf)
        self._counts, self._rests = np.zeros((2, len(self._at)))
        self._directions: _Array | None = None

    def _counted(
        self, ids: ArrayLike, mask: ArrayLike | None, ignore_index: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Indices of the rows that count, and their ids."""
        given = to_numpy("ids", ids)
        if given.dtype.kind not in "iu":
            raise TypeError(f"ids must be integers, got {given.dtype}")
        if given.shape != self._shape:
            raise ValueError(f"ids must have the shape {self._shape} of hidden states, got {given.shape}")
        flags = given != ignore_index
        if mask is not None:
            counted = to_numpy("mask", mask)
            if counted.dtype != np.bool_:
                raise TypeError(f"mask must be boolean, got {counted.dtype}")
            if counted.shape != self._shape:
                raise ValueError(f"mask must have the shape {self._shape} of ids, got {counted.shape}")
            flags = flags & counted
        bad = np.argwhere(flags & ((given < 0) | (given >= self._vocabulary)))
        if len(bad):
            raise IndexError(
                f"ids{bad[0].tolist()} is {given[tuple(bad[0])]}, which is outside the vocabulary of "
                f"{self._vocabulary}"
            )
        at = np.flatnonzero(flags)
        return at, contiguous(given.reshape(-1)[at], np.int64)

    def log_probs(self, directions: bool = False) -> _Array:
        """Log-probs of the ids, in their shape; 0 where they do not count.

        Args:
            directions: whether to keep the derivative of each log-prob by its hidden state, which takes one
                more product for each block. `gradients` then takes none, and computes that by `hidden` alone.
        """
        from lite.kernels.cpu import linear_log_probs as cpu

        sums, own = np.zeros((2, *(self._hidden.shape if directions else (0, 0))), self._dtype)
        state: Any = self._inverses, self._ids, self._highest, self._counts, self._rests, self._logits
        for part, first, matrix, block in self._blocks(self._hidden):
            factors = np.empty(len(block) if directions else 0)
            inverses, ids, *softmax = [array[part] for array in state]
            size = block.shape[1]
            args = (block.reshape(-1), size, inverses, ids, first, *softmax, factors, _NOTHING)
            run_rows(cpu.merge, len(block), size, *args)
            if directions:
                if first and (factors != 1.0).any():
                    sums[part] *= factors[:, None].astype(self._dtype)
                _add_product(block, matrix, sums[part], first == 0)
                here = np.flatnonzero((ids >= first) & (ids < first + size))
                own[part.start + here] = matrix[ids[here] - first]
        with np.errstate(all="ignore"):
            if directions:
                sums *= (-1.0 / (self._counts + self._rests)).astype(self._dtype)[:, None]
                sums += own
                sums *= self._inverses.astype(self._dtype)[:, None]
                self._directions, self._hidden = sums, sums[:0]  # hidden states are not needed any more
            distance = (self._logits - self._highest) * self._inverses
            distance[self._logits == self._highest] = 0.0
            found = distance - np.log(self._counts) - np.log1p(self._rests / self._counts)
        found[self._highest == -np.inf] = -np.inf  # all logits are -inf
        found[np.isnan(self._rests)] = np.nan
        return self._spread(found.astype(self._dtype), self._shape)

    def gradients(self, g: _Array, hidden: bool, weight: bool = False, bias: bool = False) -> _Gradients:
        """The requested derivatives, from `g`, the derivative by the log-probs; called after `log_probs`.

        Without directions the logits of rows where `g` is not 0 are computed again.
        """
        given = g.reshape(-1)[self._at]
        if self._directions is not None:
            shares = self._directions * given.astype(self._dtype)[:, None]
            shares[given == 0.0] = 0.0  # where a direction is NaN
            return _Gradients(self._spread(shares, (*self._shape, self._features)), None, None)
        from lite.kernels.cpu import linear_log_probs as cpu

        live = np.flatnonzero(given)
        rows = _taken(self._hidden, live)
        sums = np.zeros((len(live) if hidden else 0, self._features), self._dtype)
        of_weight = self._zeros() if weight else None
        of_bias = np.zeros(self._vocabulary, self._dtype) if bias else None
        gains = given[live] * self._inverses[live]
        with np.errstate(all="ignore"):
            scales = -gains / (self._counts + self._rests)[live]
        state: Any = self._inverses[live], self._ids[live], self._highest[live], scales, gains
        for part, first, matrix, block in self._blocks(rows):
            inverses, ids, *numbers = [array[part] for array in state]
            size = block.shape[1]
            args = (block.reshape(-1), size, inverses, ids, first, *numbers, _NOTHING)
            run_rows(cpu.shares, len(block), size, *args)
            if hidden:
                _add_product(block, matrix, sums[part], first == 0)
            if of_weight is not None:
                _add_product(block.T, rows[part], of_weight[first : first + size], part.start == 0)
            if of_bias is not None:
                of_bias[first : first + size] += block.sum(0)
        if not hidden:
            return _Gradients(None, of_weight, of_bias)
        if len(live) < len(self._at):
            shares = np.zeros((len(self._at), self._features), self._dtype)
            shares[live] = sums
            sums = shares
        return _Gradients(self._spread(sums, (*self._shape, self._features)), of_weight, of_bias)

    def _blocks(self, rows: _Array) -> Iterator[tuple[slice, int, _Array, _Array]]:
        """Blocks of logits: a part of the rows, the first id, the matrix's rows, and the logits.

        All blocks share the memory of the logits, which may be written to.
        """
        room = max(1, self._block_bytes // self._dtype.itemsize)
        width = room // max(1, min(len(rows), room // _NARROWEST))
        if self._quantized or self._weight.dtype != self._dtype:  # converted rows take memory, too
            width = min(width, max(_NARROWEST, room // max(1, self._features)))
        width = _even_size(self._vocabulary, width)
        height = _even_size(len(rows), max(1, room // max(1, width)))
        memory = np.empty(width * height, self._dtype)
        for start in range(0, len(rows), max(1, height)):
            part = slice(start, min(start + height, len(rows)))
            for first in range(0, self._vocabulary, width):
                matrix = self._matrix(first, min(first + width, self._vocabulary))
                shape = (part.stop - start, len(matrix))
                block = memory[: shape[0] * shape[1]].reshape(shape)
                with np.errstate(all="ignore"):
                    np.matmul(rows[part], matrix.T, out=block)
                    if self._bias is not None:
                        block += self._bias[first : first + shape[1]].astype(self._dtype, copy=False)
                yield part, first, matrix, block

    def _matrix(self, first: int, last: int) -> _Array:
        """Rows of the output matrix in the dtype of the computation."""
        if not self._quantized:
            return self._weight[first:last].astype(self._dtype, copy=False)
        rows = np.asarray(self._weight.rows(first, last))
        if rows.shape != (last - first, self._features):
            raise ValueError(
                f"weight.rows({first}, {last}) must have the shape {(last - first, self._features)}, got "
                f"{rows.shape}"
            )
        return rows.astype(self._dtype, copy=False)

    def _zeros(self) -> _Array:
        """Zeros of the output matrix's shape, in its order in memory."""
        shape = self._vocabulary, self._features
        if abs(self._weight.strides[0]) >= abs(self._weight.strides[1]):
            return np.zeros(shape, self._dtype)
        return np.zeros(shape[::-1], self._dtype).T

    def _spread(self, found: _Array, shape: tuple[int, ...]) -> _Array:
        """Results of the rows that count, with 0 for the others."""
        out = found
        if len(found) < math.prod(self._shape):
            out = np.zeros((math.prod(self._shape), *found.shape[1:]), found.dtype)
            out[self._at] = found
        return out.reshape(shape)


def _floats(name: str, value: ArrayLike) -> _Array:
    array = to_numpy(name, value)
    require_float(name, array.dtype)
    return array


def _taken(rows: _Array, at: NDArray[np.int64]) -> _Array:
    """The rows at ascending indices; not copied if these are all rows."""
    return rows if len(at) == len(rows) else rows[at]


def _even_size(count: int, limit: int) -> int:
    """The size of a part if `count` items are split evenly into parts of at most `limit`."""
    return -(-count // -(-count // limit)) if count else 0


def _add_product(a: _Array, b: _Array, out: _Array, first: bool) -> None:
    """Add the product of two matrices to `out`, which holds zeros if it is the `first` one."""
    with np.errstate(all="ignore"):
        if first:
            np.matmul(a, b, out=out)
        else:
            out += np.matmul(a, b)
