"""Transforms: the base class, compositions, and transforms of events. `number_transforms` has more.

`TransformedDistribution` uses them. With ``cache_size=1`` a transform stores its last argument and result, so
that scoring a fresh sample needs no inverse, which is inaccurate near the bounds of the values. The cache
does not notice changes of a result in place: copy it before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from lite._arrays.types import Array
from lite.nn.distributions.distribution import sum_rightmost
from lite.nn.distributions.support import IndependentSupport, Real, Support

_REAL = Real()


class Transform:
    """Base of maps: a subclass defines `_call`, `_inverse` and `log_abs_det_jacobian`.

    Args:
        cache_size: 1 keeps the last value and its result, 0 nothing.

    Attributes:
        domain: the values it takes.
        codomain: the values it gives.
        bijective: whether it has an inverse.
        sign: 1 for maps that rise, -1 for those that fall.

    Raises:
        ValueError: `cache_size` is neither 0 nor 1.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import AffineTransform, ComposeTransform, TanhTransform
        >>> squash = ComposeTransform([TanhTransform(), AffineTransform(1.0, 2.0)])
        >>> y = squash(np.array([0.0, 0.5]))
        >>> y.round(4), squash.inv(y).round(4)
        (array([1.    , 1.9242]), array([0. , 0.5]))

    Source:
        torch.distributions.transforms.
    """

    bijective: bool = False
    domain: Support = _REAL
    codomain: Support = _REAL
    # Attributes in which equal transforms of one class agree; None if each equals only itself.
    _compared: ClassVar[tuple[str, ...] | None] = None
    _inv: Transform | None = None

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError(f"cache_size must be 0 or 1, got {cache_size}")
        self._cache_size = cache_size
        self._cached: tuple[Any, Any] = (None, None)

    @property
    def event_dim(self) -> int:
        """Dimensions of one value.

        Raises:
            ValueError: what goes in has another number of them than what comes out.
        """
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError("use domain.event_dim or codomain.event_dim: they are different")
        return self.domain.event_dim

    @property
    def inv(self) -> Transform:
        """The inverse map, of which the inverse is this one."""
        if self._inv is None:
            self._inv = _InverseTransform(self)
        return self._inv

    @property
    def sign(self) -> int | Array:
        """1 for maps that rise, -1 for those that fall."""
        raise NotImplementedError(f"{type(self).__name__} does not define sign")

    def with_cache(self, cache_size: int = 1) -> Transform:
        """A copy of the map with or without a cache."""
        if cache_size == self._cache_size:
            return self
        out = self._copy()
        Transform.__init__(out, cache_size)
        return out

    def _copy(self) -> Self:
        out = type(self).__new__(type(self))
        out.__dict__.update({k: v for k, v in self.__dict__.items() if k != "_inv"})
        return out

    def __call__(self, x: Array) -> Array:
        if not self._cache_size:
            return self._call(x)
        known, result = self._cached
        if x is not known:
            result = self._call(x)
            self._cached = (x, result)
        return result

    def _invert(self, y: Array) -> Array:
        if not self._cache_size:
            return self._inverse(y)
        value, known = self._cached
        if y is not known:
            value = self._inverse(y)
            self._cached = (value, y)
        return value

    def _call(self, x: Array) -> Array:
        raise NotImplementedError(f"{type(self).__name__} does not define _call")

    def _inverse(self, y: Array) -> Array:
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x: Array, y: Array) -> Array:
        """Logarithm of the derivative, or of the Jacobian's determinant, at `x`, whose result is `y`."""
        raise NotImplementedError(f"{type(self).__name__} has no log_abs_det_jacobian")

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the result for a shape of the argument."""
        return shape

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the argument for a shape of the result."""
        return shape

    def __eq__(self, other: object) -> bool:
        if self is other or self._compared is None or type(self) is not type(other):
            return self is other
        return all(_equal(getattr(self, name), getattr(other, name)) for name in self._compared)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _InverseTransform(Transform):
    _compared = ("_inv",)

    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self._inv = transform

    @property
    def _forward(self) -> Transform:
        assert self._inv is not None
        return self._inv

    @property
    def domain(self) -> Support:  # type: ignore[override]
        return self._forward.codomain

    @property
    def codomain(self) -> Support:  # type: ignore[override]
        return self._forward.domain

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return self._forward.bijective

    @property
    def sign(self) -> int | Array:
        return self._forward.sign

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._forward.with_cache(cache_size).inv

    def __call__(self, x: Array) -> Array:
        return self._forward._invert(x)

    def _invert(self, y: Array) -> Array:
        return self._forward(y)

    def log_abs_det_jacobian(self, x: Array, y: Array) -> Array:
        return -self._forward.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return self._forward.inverse_shape(shape)

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return self._forward.forward_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self._inv).__name__}.inv"


class ComposeTransform(Transform):
    """Several maps, one after the other.

    Args:
        parts: the maps, the first one first.
        cache_size: 1 gives each of them a cache.
    """

    _compared = ("parts",)

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) if cache_size else part for part in parts]

    @property
    def domain(self) -> Support:  # type: ignore[override]
        """The values that the first map takes, with as many dimensions as any of them needs."""
        if not self.parts:
            return _REAL
        dims = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            dims = max(dims + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return _with_dims(self.parts[0].domain, dims)

    @property
    def codomain(self) -> Support:  # type: ignore[override]
        """The values that the last map gives, likewise."""
        if not self.parts:
            return _REAL
        dims = self.parts[0].domain.event_dim
        for part in self.parts:
            dims = max(dims + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        return _with_dims(self.parts[-1].codomain, dims)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether all of them are."""
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> int | Array:
        """The product of theirs."""
        out: Any = 1
        for part in self.parts:
            out = out * part.sign
        return out

    @property
    def inv(self) -> Transform:
        """Their inverses, the last one first."""
        if self._inv is None:
            self._inv = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv._inv = self
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        """A copy of the maps with or without caches."""
        if cache_size == self._cache_size:
            return self
        out = ComposeTransform([part.with_cache(cache_size) for part in self.parts])
        out._cache_size = cache_size
        return out

    def __call__(self, x: Array) -> Array:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Array, y: Array) -> Array:
        """The sum of theirs."""
        if not self.parts:
            return np.zeros_like(x)
        total: Any = 0
        dims = self.domain.event_dim
        for i, part in enumerate(self.parts):
            result = y if i == len(self.parts) - 1 else part(x)
            total = total + sum_rightmost(part.log_abs_det_jacobian(x, result), dims - part.domain.event_dim)
            dims += part.codomain.event_dim - part.domain.event_dim
            x = result
        return total

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape after all of them, applied in order."""
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of which they make this one."""
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.parts})"


class IndependentTransform(Transform):
    """A map of which the last dimensions are read as one value: derivatives are summed there.

    Args:
        base_transform: the map.
        reinterpreted_batch_ndims: how many more dimensions a value has.
        cache_size: 1 gives it a cache.
    """

    _compared = ("base_transform", "reinterpreted_batch_ndims")

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def domain(self) -> Support:  # type: ignore[override]
        """The domain of the map, with more event dimensions."""
        return IndependentSupport(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @property
    def codomain(self) -> Support:  # type: ignore[override]
        """The codomain of the map, with more event dimensions."""
        return IndependentSupport(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """As the map."""
        return self.base_transform.bijective

    @property
    def sign(self) -> int | Array:
        """As the map."""
        return self.base_transform.sign

    def with_cache(self, cache_size: int = 1) -> Transform:
        """A copy of the map with or without a cache."""
        if cache_size == self._cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size)

    def _call(self, x: Array) -> Array:
        return self.base_transform(_with_rank(x, self.domain))

    def _inverse(self, y: Array) -> Array:
        return self.base_transform._invert(_with_rank(y, self.codomain))

    def log_abs_det_jacobian(self, x: Array, y: Array) -> Array:
        """The log-determinant of the map, summed over the event dimensions."""
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """As the map."""
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """As the map."""
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """Reshapes values; the numbers stay the same.

    Args:
        in_shape: shape of a value.
        out_shape: shape of the result.
        cache_size: 1 gives it a cache.

    Raises:
        ValueError: the shapes have different numbers of elements, or a value has another shape.
    """

    bijective = True
    _compared = ("in_shape", "out_shape")

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError(
                "in_shape, out_shape have different numbers of elements, "
                f"got {self.in_shape} and {self.out_shape}"
            )

    @property
    def domain(self) -> Support:  # type: ignore[override]
        """Values of `in_shape`."""
        return IndependentSupport(_REAL, len(self.in_shape))

    @property
    def codomain(self) -> Support:  # type: ignore[override]
        """Values of `out_shape`."""
        return IndependentSupport(_REAL, len(self.out_shape))

    def _call(self, x: Array) -> Array:
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y: Array) -> Array:
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Array, y: Array) -> Array:
        """Zeros."""
        return np.zeros_like(x, shape=x.shape[: x.ndim - len(self.in_shape)])

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """`out_shape` in place of `in_shape`."""
        return _replaced(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """`in_shape` in place of `out_shape`."""
        return _replaced(shape, self.out_shape, self.in_shape)


identity_transform = ComposeTransform([])


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, Transform | list | tuple | int | float):
        return bool(np.all(a == b))
    return bool(np.array_equal(a, b))


def _with_dims(support: Support, dims: int) -> Support:
    more = dims - support.event_dim
    return IndependentSupport(support, more) if more else support


def _with_rank(value: Array, support: Support) -> Array:
    if value.ndim < support.event_dim:
        raise ValueError(f"a value has {support.event_dim} dimensions, got an array of shape {value.shape}")
    return value


def _replaced(shape: tuple[int, ...], old: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...]:
    cut = len(shape) - len(old)
    if cut < 0 or tuple(shape[cut:]) != old:
        raise ValueError(f"a value has the shape {old}, got an array of shape {tuple(shape)}")
    return (*shape[:cut], *new)
