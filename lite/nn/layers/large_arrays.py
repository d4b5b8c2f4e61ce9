"""Which layers compute large arrays with the compiled code of `lite.kernels`; NumPy computes all others."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite._arrays import formulas
from lite._arrays.dtypes import float_dtypes
from lite._arrays.types import Array, ArrayHolder, HostArray
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.tape import value_of, with_node, with_vjp

_FLOAT = np.dtype(np.float32)
LARGE = 1 << 14  # numbers; calls with fewer are too short to be worth loading Numba
READY = 1 << 6  # numbers, where nothing has to be loaded: from 0.4 (GELU) to 0.8 (softmax) of NumPy's time
_MUCH = 1 << 24  # multiplications, likewise: a millisecond of NumPy's
_MANY = 1 << 18  # numbers of images: a batch, as single ones take NumPy less than a tenth of a millisecond
_BLOCK = 1 << 16  # numbers that stay in the cache between two operations
_SOME = 1 << 14  # where nothing has to be loaded: half of NumPy's time


def layers_for(x: Array, *parameters: Any, family: str = "_layers", few: bool = True) -> Any:
    """The compiled layers, or None where NumPy is to compute: they take large arrays, all of float32.

    The size of `x` and the backend decide, so that results do not depend on what has run before. `family` is
    the module of `lite.kernels` that has them, `few` whether they gain anything on less than `LARGE` numbers.
    """
    if not isinstance(x, np.ndarray) or (x.size < LARGE and (not few or x.size < READY or not _is_ready())):
        return None
    return _kernels(family) if _are_floats(x, *parameters) else None


def convolutions_for(work: int, *arrays: Any) -> Any:
    """The compiled convolutions, or None where NumPy is to compute: they take arrays of float32.

    Args:
        work: multiplications that it takes in NumPy, or what takes as long, which decide.
        arrays: input, weight and bias.
    """
    if not _are_floats(*arrays):  # first, as a graph would be for sizes of the same answer
        return None
    much = work >= _MUCH or (work >= _SOME and _is_ready())
    return _kernels("networks.convolution") if much else None


def images_for(x: Any, dtype: Any) -> Any:
    """The compiled transforms of images, or None where NumPy is to compute.

    They take many bytes or numbers of float32, and compute in float32, which must be `dtype`: in 0.1 (grey
    images of bytes) to 0.6 (a scale and an offset) of NumPy's time, and to the bit as NumPy; other sizes but
    for the order of sums, by which a byte of several thousand is the next one.
    """
    many = type(x) is np.ndarray and x.size >= _MANY and dtype == _FLOAT and x.dtype in (_FLOAT, np.uint8)
    return _kernels("_images") if many else None


def _are_floats(*arrays: Any) -> bool:
    for x in arrays:  # noqa: SIM110 - `all` takes twice the time, a tenth of that of a small layer
        if x is not None and not (isinstance(x, np.ndarray) and x.dtype == _FLOAT):
            return False
    return True


def pointwise(
    formula: Callable[[Any], Any],
    x: Array,
    name: str | None = None,
    derivative: Callable[[Any, Any], Any] | None = None,
) -> Array:
    """A function of single numbers, computed in at least float32.

    Args:
        formula: the function of arrays, in NumPy.
        x: an array of any dtype.
        name: name of the function among the compiled ones, if it is one.
        derivative: its derivative, of the array and the result; without one, that of the formula is found.
    """
    if isinstance(x, ArrayHolder):  # a parameter, whose derivative is that of the array
        x = x.computing()
    if isinstance(x, HostArray):
        if derivative is not None and isinstance(x, TracedArray):
            return _recorded(formula, x, name, derivative)
        if x.layered:
            return x.elementwise(lambda inside: pointwise(formula, inside, name, derivative))
    layers = None if name is None else layers_for(x)
    if layers is not None:
        return layers.pointwise(name, x)
    return formulas.in_blocks(formula, x, *float_dtypes(x))


def softmax(x: Array, axis: int) -> Array:
    """exp(x) / sum(exp(x)) along an axis of an array of floats; see `formulas.softmax`."""
    layers = _along_last(x, axis)
    return formulas.softmax(x, axis) if layers is None else layers.softmax(x)


def log_softmax(x: Array, axis: int) -> Array:
    """x - log(sum(exp(x))) along an axis of an array of floats."""
    layers = _along_last(x, axis)
    return formulas.log_softmax(x, axis) if layers is None else layers.log_softmax(x)


def softmax_shares(g: Array, out: Array, axis: int) -> Array:
    """The gradient of the input of softmax from that of its result `out`."""
    layers = _along_last(out, axis, g)
    if layers is not None:
        return layers.softmax_gradients(out, g)
    weighted = g * out
    return weighted - out * weighted.sum(axis, keepdims=True)


def _along_last(x: Array, axis: int, *others: Any) -> Any:
    return layers_for(x, *others) if axis in (-1, x.ndim - 1) else None


def swiglu(x: Array, y: Array) -> Array | None:
    """silu(x) * y as one node, or None where the kernels do not compute it."""
    a, b = value_of(x), value_of(y)
    layers = layers_for(a, b)
    if layers is None or a.shape != b.shape:
        return None
    return with_vjp(layers.swiglu(a, b), (x, y), lambda g: layers.swiglu_gradients(a, b, g))


def affine(x: NDArray[Any], loc: NDArray[Any], scale: NDArray[Any], divide: bool) -> NDArray[Any]:
    """(x - loc) / scale where `divide`, else x * scale + loc, of many numbers of one floating dtype.

    Compiled for one loc and one scale. With more, NumPy takes some rows at a time, which stay in the cache:
    0.75 of the time for images with numbers for each colour.
    """
    one = loc.size == scale.size == 1 and max(loc.ndim, scale.ndim) <= x.ndim
    images = images_for(x, x.dtype) if one else None
    if images is not None:
        return images.affine(x, loc.item(), scale.item(), divide)
    if one or np.broadcast(x, loc, scale).shape != x.shape or max(loc.ndim, scale.ndim) == x.ndim:
        return (x - loc) / scale if divide else x * scale + loc
    out = np.empty_like(x)
    count = max(1, _BLOCK * len(x) // x.size)
    for i in range(0, len(x), count):
        rows = out[i : i + count]
        if divide:
            np.divide(np.subtract(x[i : i + count], loc, out=rows), scale, out=rows)
        else:
            np.add(np.multiply(x[i : i + count], scale, out=rows), loc, out=rows)
    return out


def _recorded(
    formula: Callable[[Any], Any], x: Array, name: str | None, derivative: Callable[[Any, Any], Any]
) -> Array:
    inside = value_of(x)
    out = pointwise(formula, inside, name, derivative)
    compute = float_dtypes(inside)[0]

    def vjp(g: Array) -> Array:
        return g * derivative(inside.astype(compute, copy=False), out)

    return with_node(out, (x, vjp))


@functools.cache
def _is_ready() -> bool:
    """Whether small arrays go to the kernels, too: compiled beforehand, or asked for as Numba's by name.

    Numba takes 0.7 s and 120 MB at the first call, with all in its cache, and is not loaded unasked. Then it
    takes 0.2 (LayerNorm and GELU of 64 x 64) to 0.5 (Conv1d, an encoder layer) of NumPy's time.
    """
    from lite.kernels.backends.choice import backend  # loads what compiles kernels

    return backend() == "prebuilt" or (backend() == "numba" and os.environ.get("LITE_KERNELS") == "numba")


@functools.cache
def _kernels(name: str) -> Any:
    from lite.kernels.backends.choice import backend

    return None if backend() == "numpy" else importlib.import_module(f"lite.kernels.{name}")
