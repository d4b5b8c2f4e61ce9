"""Formulas over rows of numbers: written once in Python, run as vector instructions, or by NumPy.

A formula is a function of operations `o`, of a vector `x` of logits and of float64 parameters. Compiled, its
operators write LLVM's vector instructions, up to sixteen floats at a time; where Numba does not run
the kernels the same function works on NumPy arrays. Beside loops that LLVM turns into vectors this gains
three things:

- Memory is prefetched. A formula of a dozen instructions fills the processor's reorder window with a few
hundred
  bytes: without prefetching it reads memory half as fast as a maximum does.
- 16-bit logits and masks are read in place, and results may bypass the caches.
- It compiles in a fraction of the time, because there is nothing to infer.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from lite.kernels._types import LogitData
from lite.kernels.backends.choice import backend

if TYPE_CHECKING:
    from lite.kernels.cpu.vectors import numbers

Formula = Callable[..., Any]
Vector: TypeAlias = Any  # of numbers: `numbers.Number` in compiled code, else an array
Operations: TypeAlias = "Arrays | numbers.Operations"
_COMPILED = backend() == "numba"

# 1.5 * 2**m of m bits of mantissa, plus the exponent's bias: adding it rounds a float to an integer k, and
# leaves k + bias in the last bits of the sum.
ROUND = {4: 1.5 * 2.0**23 + 127, 8: 1.5 * 2.0**52 + 1023}


class Arrays:
    """The operations of formulas, on arrays of NumPy."""

    def __init__(self, itemsize: int) -> None:
        self.itemsize = itemsize
        self._float: Any = np.float32 if itemsize == 4 else np.float64
        self._int: Any = np.int32 if itemsize == 4 else np.int64

    def narrow(self, parameter: Vector) -> Vector:
        """A parameter as a number of the vectors' type."""
        return self._float(parameter)

    def wide(self, number: Vector) -> Vector:
        """Back to a parameter."""
        return np.float64(number)

    def where(self, condition: Vector, x: Vector, y: Vector) -> Vector:
        return np.where(condition, x, y)

    def larger(self, x: Vector, y: Vector) -> Vector:
        """The larger of both; y if x is NaN."""
        return np.where(x > y, x, y)

    def at_least(self, x: Vector, least: Vector) -> Vector:
        """`least` where x is less; NaN stays."""
        return np.where(x < least, least, x)

    def fused(self, x: Vector, y: Vector, z: Vector) -> Vector:
        """x y + z, rounded once where the processor can."""
        return self._float(np.multiply(x, y, dtype=np.float64) + z)

    def power(self, rounded: Vector) -> Vector:
        """2**k of a sum with ROUND."""
        return (np.asarray(rounded).view(self._int) << (23 if self.itemsize == 4 else 52)).view(self._float)


def _read(
    values: LogitData, more: tuple[Vector, ...], parameters: int
) -> tuple[Arrays, Vector, tuple[Vector, ...]]:
    """Operations, logits and parameters, where nothing is compiled."""
    given, flags = more[:parameters], more[parameters:]
    x = values
    if x.dtype.itemsize == 2:
        x = (
            (x.astype(np.uint32) << 16).view(np.float32)
            if flags[0]
            else x.view(np.float16).astype(np.float32)
        )
    if flags and flags[1].size:
        x = np.where(flags[1], x, x.dtype.type(-np.inf))
    return Arrays(x.itemsize), x, given


if _COMPILED:
    from lite.kernels.cpu.vectors import intrinsics


def folded(parameters: int, **results: str) -> Callable[[Formula], Any]:
    """Make `f(values, *parameters[, bfloat16, keep])`, which folds the vectors of a formula over a row.

    A formula returns a tuple of vectors; `results` are their names, and how: "sum", given as float64, or
    "max", in the type of the floats and -inf where there is nothing but NaN. `values` is a flat array of
    floats, or of the bits of 16-bit ones (`bfloat16` or float16); where the flags `keep` are False logits
    are -inf. An empty `keep` masks nothing.
    """
    kinds = tuple(results.values())

    def interpreted(formula: Formula) -> Callable[..., Any]:
        def fold(values: LogitData, *more: Vector) -> Any:
            o, x, given = _read(values, more, parameters)
            found = [
                np.float64(np.sum(v, dtype=np.float64))
                if kind == "sum"
                else np.fmax.reduce(v, initial=-np.inf)
                for kind, v in zip(kinds, formula(o, x, *given), strict=True)
            ]
            return tuple(found) if len(found) > 1 else found[0]

        return fold

    if not _COMPILED:
        return interpreted
    return lambda formula: intrinsics.fold(formula, parameters, kinds)


def written(parameters: int) -> Callable[[Formula], Any]:
    """Make `f(values, *parameters, bfloat16, keep, past, out)` of a formula: its vector is written to `out`.

    If `past`, bypassing the caches, for results that do not fit them.
    """

    def interpreted(formula: Formula) -> Callable[..., Any]:
        def write(values: LogitData, *more: Vector) -> None:
            o, x, given = _read(values, more[:-2], parameters)
            more[-1][:] = formula(o, x, *given)

        return write

    if not _COMPILED:
        return interpreted
    return lambda formula: intrinsics.write(formula, parameters)


def by_number(results: int) -> Callable[[Formula], Any]:
    """Make `f(x)` of a formula of one number, for loops of compiled code over numbers of any kind."""
    if not _COMPILED:
        return lambda formula: lambda x: formula(Arrays(x.itemsize), x)
    return lambda formula: intrinsics.number(formula, results)
