"""Distribution: the base class; arrays of parameters, draws, and deterministic samples."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Self, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lite import get_default_dtype
from lite._arrays.caller import warn
from lite._arrays.dtypes import is_floating, is_numeric
from lite._arrays.types import Array, HostArray, as_array, computed
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.tape import has_derivative, value_of
from lite._transforms.vmap.running import generator_for
from lite.nn._modules.initial import Rng
from lite.nn.distributions.support import Real, Support


def as_float(value: Numbers | None, dtype: np.dtype[Any] | None = None) -> Array:
    """An array of floats of `dtype`; without one, floats keep theirs and other numbers get the default."""
    if value is None:
        raise TypeError("expected an array or a number, got None")
    given = computed(value)
    own = getattr(given, "dtype", None)
    if own is not None and (own == dtype or (dtype is None and is_floating(own))):
        return given
    target = get_default_dtype() if dtype is None else dtype
    if own is None and isinstance(given, (int, float)):
        return np.asarray(given, target)
    array = np.asarray(given) if own is None else given
    if not is_numeric(array.dtype):  # None would be cast to NaN
        raise TypeError(f"expected an array of numbers or a number, got the dtype {array.dtype}")
    return array.astype(target)


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


LOG_2 = math.log(2.0)
EULER = 0.5772156649015329  # the Euler-Mascheroni constant
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_MISSING: Any = object()
# Formulas of `Elementwise` by the methods that compute them.
_METHODS = {"_log_density": "log_prob", "_probability": "cdf", "_quantile": "icdf"}


class Distribution:
    """Base of distributions over arrays, with as many of them as the batch has elements.

    A subclass sets its shapes, defines `log_prob` and either `rsample`, if draws have derivatives by its
    parameters, or `sample`, and of the rest what has a closed form. What it does not define raises
    NotImplementedError. What it draws by `sample(..., rng=rng)` of another distribution takes part in
    `lite.jit` and `vmap`.

    Args:
        batch_shape: shape of the batch.
        event_shape: shape of one value.

    Attributes:
        has_rsample: whether samples have derivatives by the parameters.
        has_enumerate_support: whether there are so few values that `enumerate_support` gives them all.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import Distribution
        >>> class Coin(Distribution):
        ...     def sample(self, sample_shape=(), *, rng=None):
        ...         return np.random.default_rng(rng).integers(0, 2, (*sample_shape, *self.batch_shape))
        ...
        ...     def log_prob(self, value):
        ...         return np.full(np.shape(value), -np.log(2))
        >>> Coin(batch_shape=(3,)).sample((2,), rng=0).shape
        (2, 3)

    Source:
        torch.distributions.Distribution.
    """

    has_rsample: ClassVar[bool] = False
    has_enumerate_support: ClassVar[bool] = False
    # Attributes whose dimensions begin with those of the batch: arrays and distributions; None if not made.
    _batched: ClassVar[tuple[str, ...]] = ()
    _validates: ClassVar[bool] = True
    batch_shape: tuple[int, ...]
    event_shape: tuple[int, ...]

    def __init__(self, batch_shape: Sequence[int] = (), event_shape: Sequence[int] = ()) -> None:
        self.batch_shape = tuple(batch_shape)
        self.event_shape = tuple(event_shape)

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set whether all distributions that take `validate_args` check parameters where it is not given."""
        Distribution._validates = value

    def _is_checked(self, validate_args: bool | None) -> bool:
        return self._validates if validate_args is None else validate_args

    def sample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Any:
        """Draw values without derivatives, of shape (*sample_shape, *batch_shape, *event_shape).

        Args:
            sample_shape: how many to draw for each element of the batch.
            rng: generator or seed; by default the generator that the process shares.
        """
        if type(self).rsample is Distribution.rsample:
            raise self._lacks("sample")
        if self._is_plain():
            return self.rsample(sample_shape, rng=rng)
        return untraced(self.rsample, sample_shape, rng=rng)

    def _is_plain(self) -> bool:
        """Whether no parameter is an array that an interpreter made."""
        own = self.__dict__
        for name in self._batched:
            value = own.get(name)
            if type(value) is np.ndarray:
                continue
            if isinstance(value, HostArray) or (isinstance(value, Distribution) and not value._is_plain()):
                return False
        return True

    def rsample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Any:
        """Draw the same values as `sample`, with derivatives by the parameters where there are any.

        A distribution for which `has_rsample` is False has none: this is its `sample`.

        Raises:
            NotImplementedError: it has none, and a gradient by its parameters is computed.
        """
        own = self.__dict__
        if any(getattr(own.get(name), "requires_grad", False) for name in self._batched):
            raise NotImplementedError(
                f"{type(self).__name__} has no rsample: no derivative goes through its draws to its "
                "parameters. sample() draws without one; log_prob(), and relaxed and straight-through "
                "distributions, have one."
            )
        return self.sample(sample_shape, rng=rng)

    def log_prob(self, value: Array) -> Array:
        """Logarithm of the probability, or of the density, of values; -inf outside the support."""
        raise self._lacks("log_prob")

    def entropy(self) -> Array:
        """Entropy in nats, of shape `batch_shape`."""
        raise self._lacks("entropy")

    def perplexity(self) -> Array:
        """exp(entropy), of shape `batch_shape`: how many equally probable values are as hard to guess."""
        return np.exp(self.entropy())

    def expand(self, batch_shape: ShapeLike) -> Self:
        """The same distributions for a larger batch, to which `batch_shape` broadcasts; nothing is copied.

        Raises:
            ValueError: this batch does not broadcast to that shape.
        """
        shape, dims = as_shape(batch_shape), len(self.batch_shape)
        if not _broadcasts(self.batch_shape, shape):
            raise ValueError(f"a batch of shape {self.batch_shape} cannot be expanded, got {shape}")
        out = copy.copy(self)
        for name in self._batched:
            value = self.__dict__.get(name)
            if isinstance(value, Distribution):
                out.__dict__[name] = value.expand((*shape, *value.batch_shape[dims:]))
            elif value is not None:
                out.__dict__[name] = np.broadcast_to(value, (*shape, *value.shape[dims:]))
        out.batch_shape = shape
        return out

    def enumerate_support(self, expand: bool = True) -> Array:
        """All values, one after the other: (values, *batch_shape, *event_shape).

        Args:
            expand: False leaves the dimensions of the batch at 1.
        """
        raise self._lacks("enumerate_support")

    def cdf(self, value: Array) -> Array:
        """Probability of values up to this one."""
        raise self._lacks("cdf")

    def icdf(self, value: Numbers) -> Array:
        """The value up to which the probability is `value`."""
        raise self._lacks("icdf")

    @property
    def mean(self) -> Any:
        """The expected value."""
        raise self._lacks("mean")

    @property
    def mode(self) -> Any:
        """The most probable value."""
        raise self._lacks("mode")

    @property
    def median(self) -> Any:
        """The value up to which the probability is a half."""
        return self.icdf(0.5)

    @property
    def variance(self) -> Any:
        """The expected squared distance from the mean."""
        raise self._lacks("variance")

    @property
    def stddev(self) -> Any:
        """Square root of the variance."""
        return np.sqrt(self.variance)

    @property
    def support(self) -> Support:
        """The values that can be drawn."""
        raise self._lacks("support")

    @property
    def _dtype(self) -> np.dtype[Any]:
        """Dtype of the parameters, or of those of the base distribution."""
        for name in self._batched:
            value = self.__dict__.get(name)
            if value is not None:
                return value._dtype if isinstance(value, Distribution) else value.dtype
        return np.dtype(np.float64)

    def _lacks(self, name: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} does not define {name}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_shape={self.batch_shape}, event_shape={self.event_shape})"


class Elementwise(Distribution):
    """Base of distributions of numbers, one for each element of the parameters that `_batched` names.

    A subclass writes formulas as static methods of arrays of float64, the value and the parameters:
    `_log_density`, `_probability` of numbers up to the value, and its inverse, `_quantile`.
    """

    _positive: ClassVar[tuple[str, ...]] = ()  # parameters that must be positive

    def _parameters(self, validate_args: bool | None, *parameters: Numbers) -> list[Array]:
        """The parameters broadcast to one shape, that of the batch.

        Raises:
            ValueError: a parameter is not positive, but should be.
        """
        arrays = float_arrays(*parameters)
        for name, array in zip(self._batched, arrays, strict=True):
            if name in self._positive and self._is_checked(validate_args):
                require(array > 0, f"{name} must be positive", array)
        self.batch_shape, self.event_shape = arrays[0].shape, ()
        return arrays

    def _in_double(self, formula: Callable[..., Array] | str, *values: Numbers) -> Array:
        """A formula, or the static method of a name, of values, if any, and the parameters."""
        chosen = getattr(self, formula, None) if isinstance(formula, str) else formula
        if chosen is None:
            raise self._lacks(_METHODS[str(formula)])
        parameters = [self.__dict__[name] for name in self._batched]
        dtype = parameters[0].dtype
        return in_double(chosen, *[as_value(value, dtype) for value in values], *parameters)

    def log_prob(self, value: Numbers) -> Array:
        """Logarithm of the density of each number; -inf outside the support."""
        return self._in_double("_log_density", value)

    def cdf(self, value: Numbers) -> Array:
        """Probability of numbers up to `value`."""
        return self._in_double("_probability", value)

    def icdf(self, value: Numbers) -> Array:
        """The number up to which the probability is `value`."""
        return self._in_double("_quantile", value)


class LocScale(Elementwise):
    """Base of distributions of real numbers with a place and a scale, which is positive."""

    has_rsample = True
    _batched = ("loc", "scale")
    _positive = ("scale",)
    support = Real()

    def __init__(self, loc: Numbers, scale: Numbers, validate_args: bool | None = None) -> None:
        self.loc, self.scale = self._parameters(validate_args, loc, scale)


def _broadcasts(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False


def deterministic_sample(dist: Distribution) -> Array:
    """The deterministic sample of a distribution.

    It is `deterministic_sample`. Without that attribute, it is, with a warning, the mean if the support is
    the real line or unknown, otherwise the mode.

    Raises:
        NotImplementedError: there is no such mean or mode either.
    """
    value = getattr(dist, "deterministic_sample", _MISSING)
    if value is not _MISSING:
        return value
    try:
        name = "mean" if isinstance(dist.support, Real) else "mode"
    except NotImplementedError:
        name = "mean"
    warn(
        f"{type(dist).__name__} has no deterministic_sample; its {name} is used. Define the property, or "
        "choose another interaction type.",
        UserWarning,
    )
    return getattr(dist, name)
