"""Arrays of distributions: parameters as floats of one dtype and shape, checks, and random draws."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lite import get_default_dtype
from lite._arrays.dtypes import is_floating
from lite._arrays.types import Array, HostArray, as_array, computed
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.tape import has_derivative, value_of
from lite._transforms.vmap.running import generator_for
from lite.nn._modules.initial import Rng


def as_float(value: Numbers | None, dtype: np.dtype[Any] | None = None) -> Array:
    """An array of floats of `dtype`; without one, floats keep theirs and other numbers get the default."""
    if value is None:
        raise TypeError("expected an array or a number, got None")
    given = computed(value)
    own = getattr(given, "dtype", None)
    if own is not None and (own == dtype or (dtype is None and is_floating(own))):
        return given
    target = get_default_dtype() if dtype is None else dtype
    return np.asarray(given, target) if own is None else given.astype(target)


def float_arrays(*values: Numbers) -> list[Array]:
    """The values as arrays of one float dtype and shape. Python numbers do not change the dtype."""
    first = values[0]
    if type(first) is np.ndarray and first.dtype.kind == "f":
        dtype, shape = first.dtype, first.shape
        for value in values:
            if type(value) is not np.ndarray or value.dtype is not dtype or value.shape != shape:
                break
        else:
            return [*values]  # type: ignore[list-item]
    given = [computed(value) for value in values]
    dtypes = {v.dtype for v in given if hasattr(v, "dtype") and is_floating(v.dtype)}
    common = np.result_type(*dtypes) if dtypes else get_default_dtype()
    arrays = [as_float(value, common) for value in given]
    shape = arrays[0].shape
    if all(array.shape == shape for array in arrays):
        return arrays
    shapes = [array.shape for array in arrays]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(f"parameters must have shapes that broadcast to one, got {shapes}.") from None
    return [array if array.shape == shape else np.broadcast_to(array, shape) for array in arrays]


def as_value(value: Numbers, dtype: np.dtype[Any]) -> Array:
    """A value to score: floats keep their dtype, other numbers become `dtype`."""
    given = computed(value)
    own = getattr(given, "dtype", None)
    return given if own is not None and is_floating(own) else as_float(given, dtype)


def in_double(formula: Callable[..., Any], *arrays: Array, dtype: np.dtype[Any] | None = None) -> Array:
    """A formula computed in float64 and cast to the common dtype of its arguments, or to `dtype`.

    It is for formulas whose intermediate results lose digits or overflow.
    """
    if dtype is None:
        dtype = arrays[0].dtype
        for array in arrays:
            if array.dtype != dtype:
                dtype = np.result_type(dtype, array.dtype)
    with np.errstate(all="ignore"):
        return formula(*[array.astype(np.float64, copy=False) for array in arrays]).astype(dtype, copy=False)


def limits(dtype: np.dtype[Any]) -> Any:
    """`np.finfo`, also for extension floats such as bfloat16."""
    if dtype.kind != "V":
        return np.finfo(dtype)
    import ml_dtypes

    return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]


def inside_of_simplex(shares: Array, dtype: np.dtype[Any]) -> Array:
    """Shares cast to `dtype`, clipped so that none rounds to 0 or 1, where densities may be infinite."""
    end = limits(dtype)
    return np.clip(shares.astype(dtype, copy=False), end.tiny, 1 - end.epsneg)


def require(passed: Array, message: str, values: Numbers, error: type[Exception] = ValueError) -> None:
    """Raise `error` unless all of `passed` is True; the first value that failed follows `message`.

    Only plain arrays are checked: under `vmap` the condition may hold for some elements alone.
    """
    if type(passed) is np.ndarray:
        if np.count_nonzero(passed) == passed.size:  # a third of the time of all()
            return
    elif not isinstance(passed, np.bool_) or passed:
        return
    bad = np.broadcast_to(values, passed.shape)[~passed]
    raise error(f"{message}, got {bad.reshape(-1)[0]}")


def untraced(draw: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of a function under `no_grad`."""
    from lite._transforms.grad.mode import no_grad  # it imports all rules

    with no_grad():
        return value_of(draw(*args, **kwargs))


def sum_rightmost(values: Array, dims: int) -> Array:
    """Sum over the last `dims` dimensions."""
    return values.sum(tuple(range(-dims, 0))) if dims else values


# A parameter or a value as users give it.
Numbers: TypeAlias = Array | float
ShapeLike: TypeAlias = SupportsIndex | Iterable[SupportsIndex] | None
_NATIVE = (np.dtype(np.float32), np.dtype(np.float64))
_shared: list[Any] = []


def generator_of(rng: Rng = None) -> np.random.Generator:
    """The generator, a new one from a seed, or for None the generator of the process."""
    if rng is None:
        if not _shared:
            _shared.append(np.random.default_rng())  # takes 20 microseconds, so it is done once
        rng = _shared[0]
    return generator_for(np.random.default_rng(rng))


if hasattr(os, "register_at_fork"):  # a forked process must not repeat its parent's draws
    os.register_at_fork(after_in_child=_shared.clear)


def as_shape(shape: ShapeLike) -> tuple[int, ...]:
    """A sample shape as a tuple: None is empty, an integer one dimension."""
    if shape is None:
        return ()
    if isinstance(shape, Iterable):
        return tuple(n.__index__() for n in shape)
    return (shape.__index__(),)


def standard_normal(rng: Rng, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Draws of the standard normal distribution."""
    native: Any = dtype if dtype in _NATIVE else np.float64
    return generator_of(rng).standard_normal(shape, native).astype(dtype, copy=False)


def uniform(rng: Rng, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Draws of the uniform distribution on [0, 1)."""
    native: Any = dtype if dtype in _NATIVE else np.float64
    return generator_of(rng).random(shape, native).astype(dtype, copy=False)


def standard_exponential(rng: Rng, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Draws of the exponential distribution of rate 1, which are positive."""
    native: Any = dtype if dtype in _NATIVE else np.float64
    waits = generator_of(rng).standard_exponential(shape, native).astype(dtype, copy=False)
    return np.maximum(waits, limits(dtype).tiny)


def drawn(rng: Rng, kind: str, sample_shape: ShapeLike, *parameters: Array) -> Array:
    """Draws of a distribution that `numpy.random.Generator` has, one for each element of the parameters.

    Args:
        rng: generator, seed or None.
        kind: name of the generator's method.
        sample_shape: how many draws for each element.
        parameters: arrays of one shape, in the order of the method.

    Raises:
        RuntimeError: inside `vmap` with ``randomness="same"`` the parameters are mapped: how many random
            numbers a draw takes depends on them.
    """
    parameters = tuple(map(value_of, parameters))  # draws have no derivative by them
    generator = _for_parameters(rng, kind, parameters)
    shape = (*as_shape(sample_shape), *parameters[0].shape)
    return as_array(getattr(generator, kind)(*parameters, size=shape))


def drawn_without_gradient(rng: Rng, kind: str, sample_shape: ShapeLike, *parameters: Array) -> Array:
    """Return `drawn`; raise if its gradient is requested, which torch supports and lite does not.

    Raises:
        NotImplementedError: the gradient with respect to the parameters is requested.
    """
    for parameter in parameters:
        if isinstance(parameter, TracedArray) and has_derivative(parameter):
            raise NotImplementedError(
                f"no gradient through draws of Generator.{kind} by its parameters: draw with sample(), which "
                "has none, or detach them (x.detach())."
            )
    return drawn(rng, kind, sample_shape, *parameters)


def multinomial(rng: Rng, total: int, sample_shape: ShapeLike, shares: Array) -> Array:
    """Draws of counts, (*sample_shape, *batch, V), whose rows sum to `total`; see `drawn`."""
    shares = value_of(shares)
    generator = _for_parameters(rng, "multinomial", (shares,))
    return as_array(generator.multinomial(total, shares, (*as_shape(sample_shape), *shares.shape[:-1])))


def _for_parameters(rng: Rng, kind: str, parameters: tuple[Any, ...]) -> np.random.Generator:
    generator = generator_of(rng)
    if type(generator) is np.random.Generator and any(isinstance(p, HostArray) for p in parameters):
        raise RuntimeError(
            f"draws by Generator.{kind} cannot be the same for all elements where their parameters are "
            "mapped: use vmap with randomness='different'"
        )
    return generator
