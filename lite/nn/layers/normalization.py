"""Layers that normalise: LayerNorm, GroupNorm, RMSNorm, BatchNorm1d and its lazy form, BatchNorm2d.

Past 600 lines, as they have one derivative (`_record`), and half of it is what each layer takes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike

from lite._arrays.dtypes import floats
from lite._arrays.formulas import accumulate
from lite._arrays.public import belong_to
from lite._arrays.types import Array, HostArray
from lite._transforms.grad.tape import is_traced, unbroadcast, value_of, with_node, with_vjp
from lite.kernels._integer import integer
from lite.nn._modules.initial import (
    UninitializedBuffer,
    UninitializedParameter,
    empty_array,
    empty_parameter,
    fill,
)
from lite.nn._modules.lazy import LazyLayer
from lite.nn._modules.meta import Device, MetaArray
from lite.nn._modules.module import Module
from lite.nn.layers.large_arrays import layers_for


class _OverLastDims(Module):
    """Base of LayerNorm and RMSNorm: the trailing dimensions that are normalised over."""

    def __init__(self, normalized_shape: int | Sequence[int], eps: float | None, affine: bool) -> None:
        super().__init__()
        shape = normalized_shape
        self.normalized_shape = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
        self.eps = eps
        self.elementwise_affine = affine

    def _axes(self, x: Array) -> tuple[int, ...]:
        shape = self.normalized_shape
        if x.shape[x.ndim - len(shape) :] != shape or x.ndim < len(shape):
            raise RuntimeError(f"the input must end in the dimensions {shape}, got {tuple(x.shape)}")
        return tuple(range(-len(shape), 0))

    def extra_repr(self) -> str:
        """Shape, eps, and whether there is a weight."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class LayerNorm(_OverLastDims):
    """(x - mean) / √(variance + eps) over the last dimensions, times weight plus bias.

    Args:
        normalized_shape: sizes of the last dimensions, or the size of the last one.
        eps: added to the variance.
        elementwise_affine: whether there are weight and bias.
        bias: whether there is a bias, given that there is a weight.
        device: "cpu", or "meta" for parameters without data.
        dtype: dtype of the parameters; the default float dtype if not given.

    Shapes:
        input and output (*B, *normalized_shape); `weight` (ones at first) and `bias` (zeros)
        `normalized_shape`.

    Dtypes:
        the input's; integers become the default float dtype; float16 and bfloat16 compute in float32.

    Raises:
        RuntimeError: an input that does not end in `normalized_shape`.

    Source:
        Ba et al. (2016), Layer normalization (arXiv:1607.06450).

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.LayerNorm(2)(np.array([[1.0, 3.0]])).round(3)
        array([[-1.,  1.]])
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Device | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine)
        for name, wanted in (("weight", elementwise_affine), ("bias", elementwise_affine and bias)):
            parameter = empty_parameter(self.normalized_shape, device, dtype) if wanted else None
            self.register_parameter(name, parameter)
        self.reset_parameters()

    def extra_repr(self) -> str:
        """Shape, eps, and whether there are weight and bias."""
        return f"{super().extra_repr()}, bias={self.bias is not None}"

    def reset_parameters(self) -> None:
        """Set the weight to ones and the bias to zeros, in place."""
        fill(self._held("weight"), 1.0)
        fill(self._held("bias"), 0.0)

    def forward(self, input: Array) -> Array:
        """Normalise input (*B, *normalized_shape)."""
        return self._normalized(input, self._tensor("weight"), self._tensor("bias"))

    def _normalized(self, input: Array, weight: Array, bias: Array) -> Array:
        axes = self._axes(input)
        if is_traced(input, weight, bias):
            return self._recorded(input, weight, bias, axes)
        shape = self.normalized_shape
        size = math.prod(shape)
        compiled = layers_for(input, weight, bias)
        stacked = not (weight is None or weight.shape == shape) or not (bias is None or bias.shape == shape)
        if compiled is not None and not stacked:
            return compiled.layer_norm(input, weight, bias, size, self.eps)
        x, dtype = floats(input)
        with np.errstate(invalid="ignore"):  # rows with infinities become NaN, as in compiled code
            centred = x - np.add.reduce(x, axes, keepdims=True) / size
            squares: Any
            if len(axes) == 1:
                squares = np.vecdot(centred, centred)[..., None]  # one pass instead of two
            else:
                squares = np.add.reduce(centred * centred, axes, keepdims=True)
            centred /= np.sqrt(squares / size + self.eps)
            return _scaled(centred, weight, bias).astype(dtype, copy=False)

    def _recorded(self, input: Array, weight: Array, bias: Array, axes: tuple[int, ...]) -> Array:
        """One node; the normalised input is made again for the gradient."""
        given, w = value_of(input), value_of(weight)
        out = self._normalized(given, w, value_of(bias))

        def state() -> tuple[Any, Any]:
            x = floats(given)[0]
            centred = x - x.mean(axes, keepdims=True)
            inverse = 1 / np.sqrt((centred * centred).mean(axes, keepdims=True) + self.eps)
            return centred * inverse, inverse

        return _record(out, state, (input, weight, bias), axes, centres=True)


class RMSNorm(_OverLastDims):
    """x / √(mean of x² + eps) over the last dimensions, times weight.

    Args:
        normalized_shape: sizes of the last dimensions, or the size of the last one.
        eps: added to the mean of squares; None takes the spacing of floats at 1 in the input's dtype.
        elementwise_affine: whether there is a weight.
        device: "cpu", or "meta" for parameters without data.
        dtype: dtype of the weight; the default float dtype if not given.

    Shapes:
        input and output (*B, *normalized_shape); `weight` (ones at first) `normalized_shape`.

    Dtypes:
        the input's; integers become the default float dtype; float16 and bfloat16 compute in float32.

    Raises:
        RuntimeError: an input that does not end in `normalized_shape`.
        ValueError: an input without dimensions.

    Source:
        Zhang and Sennrich (2019), Root mean square layer normalization (arXiv:1910.07467).

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.RMSNorm(2)(np.array([[3.0, 4.0]])).round(4)
        array([[0.8485, 1.1314]])
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Device | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine)
        wanted = empty_parameter(self.normalized_shape, device, dtype) if elementwise_affine else None
        self.register_parameter("weight", wanted)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to ones, in place."""
        fill(self._held("weight"), 1.0)

    def forward(self, input: Array) -> Array:
        """Normalise input (*B, *normalized_shape)."""
        if not input.ndim:
            raise ValueError(f"the input must end in the dimensions {self.normalized_shape}, got ()")
        return self._normalized(input, self._tensor("weight"), self._axes(input))

    def _normalized(self, input: Array, weight: Array, axes: tuple[int, ...]) -> Array:
        if is_traced(input, weight):
            return self._recorded(input, weight, axes)
        compiled = self._compiled(input, weight)
        if compiled is not None:
            return compiled.rms_norm(input, weight, math.prod(self.normalized_shape), self.eps)
        x, dtype = floats(input)
        with np.errstate(invalid="ignore"):  # infinities become NaN
            out = x / self._root(x, axes)
        return _scaled(out, weight, None).astype(dtype, copy=False)

    def _root(self, x: Array, axes: tuple[int, ...]) -> Array:
        eps = np.finfo(x.dtype).eps if self.eps is None else self.eps
        return np.sqrt((x * x).mean(axes, keepdims=True) + x.dtype.type(eps))

    def _compiled(self, input: Array, weight: Array) -> Any:
        """The kernels, where they are to compute."""
        if weight is not None and weight.shape != self.normalized_shape:  # stacked
            return None
        return None if self.eps is None else layers_for(input, weight)

    def _recorded(self, input: Array, weight: Array, axes: tuple[int, ...]) -> Array:
        given, scale = value_of(input), value_of(weight)
        out = self._normalized(given, scale, axes)
        compiled = self._compiled(given, scale)
        if compiled is not None:
            size, eps, learns = math.prod(self.normalized_shape), self.eps, isinstance(weight, HostArray)

            def shares(g: Array) -> tuple[Any, Any]:
                by_input, by_weight = compiled.rms_norm_gradients(given, scale, size, eps, g, learns)
                return by_input, None if by_weight is None else by_weight.reshape(scale.shape)

            return with_vjp(out, (input, weight), shares)

        def state() -> tuple[Any, Any]:
            x = floats(given)[0]
            inverse = 1 / self._root(x, axes)
            return x * inverse, inverse

        return _record(out, state, (input, weight, None), axes, centres=False)


class GroupNorm(Module):
    """(x - mean) / √(variance + eps) over groups of channels and all pixels, times weight plus bias.

    Args:
        num_groups: how many groups the channels make, which lie side by side.
        num_channels: size of dimension 1.
        eps: added to the variance.
        affine: whether there are weight and bias.
        device: "cpu", or "meta" for parameters without data.
        dtype: dtype of the parameters; the default float dtype if not given.
        bias: whether there is a bias, given that there is a weight.

    Shapes:
        input and output (N, num_channels, ...); `weight` (ones at first) and `bias` (zeros) (num_channels,).

    Dtypes:
        the input's; integers become the default float dtype; float16 and bfloat16 compute in float32.

    Raises:
        ValueError: `num_channels` is not divisible by `num_groups`, which is at least 1.
        RuntimeError: another number of channels.

    Source:
        Wu and He (2018), Group normalization (arXiv:1803.08494).

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.GroupNorm(2, 4)(np.array([[1.0, 3.0, 10.0, 20.0]])).round(3)
        array([[-1.,  1., -1.,  1.]])
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Device | None = None,
        dtype: DTypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % integer("num_groups", num_groups, least=1):
            raise ValueError(f"num_channels must be divisible by num_groups={num_groups}, got {num_channels}")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            self.register_parameter(name, empty_parameter((num_channels,), device, dtype) if wanted else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to ones and the bias to zeros, in place."""
        fill(self._held("weight"), 1.0)
        fill(self._held("bias"), 0.0)

    def forward(self, input: Array) -> Array:
        """Normalise input (N, num_channels, ...)."""
        if input.ndim < 2 or input.shape[1] != self.num_channels:
            raise RuntimeError(
                f"dimension 1 must be num_channels={self.num_channels}, got {tuple(input.shape)}"
            )
        x, dtype = floats(input)
        size = math.prod(x.shape[1:]) // self.num_groups
        apart = layer_norm(x.reshape(x.shape[0], self.num_groups, size), (size,), None, None, self.eps)
        row = (self.num_channels, *[1] * (x.ndim - 2))
        affine = (self._tensor(name) for name in ("weight", "bias"))
        out = _scaled(apart.reshape(x.shape), *(None if a is None else a.reshape(row) for a in affine))
        return out.astype(dtype, copy=False)

    def extra_repr(self) -> str:
        """The options."""
        numbers = f"{self.num_groups}, {self.num_channels}, eps={self.eps}"
        return f"{numbers}, affine={self.affine}, bias={self.bias is not None}"


class _BatchNorm(Module):
    """Base of BatchNorm1d and BatchNorm2d, which differ in the dimensions of their inputs."""

    _dims: ClassVar[tuple[int, ...]]  # how many an input may have

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Device | None = None,
        dtype: DTypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        shape = (num_features,)
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            self.register_parameter(name, empty_parameter(shape, device, dtype) if wanted else None)
        for name in ("running_mean", "running_var"):
            self.register_buffer(name, empty_array(shape, device, dtype) if track_running_stats else None)
        count = empty_array((), device, np.int64) if track_running_stats else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget the running averages: mean 0, variance 1, no batches."""
        for name, value in (("running_mean", 0), ("running_var", 1), ("num_batches_tracked", 0)):
            fill(getattr(self, name), value)

    def reset_parameters(self) -> None:
        """Set the weight to ones, the bias to zeros, and forget the running averages."""
        self.reset_running_stats()
        fill(self._held("weight"), 1.0)
        fill(self._held("bias"), 0.0)

    _version = 2  # 1 had no num_batches_tracked

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *args: Any
    ) -> None:
        key = f"{prefix}num_batches_tracked"
        count = self.num_batches_tracked
        if count is not None and key not in state_dict and local_metadata.get("version", 1) < 2:
            state_dict[key] = np.zeros((), np.int64) if isinstance(count, MetaArray) else count
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)

    def forward(self, input: Array) -> Array:
        """Normalise an input, (N, num_features, ...)."""
        self._check_dimensions(input)
        features = self.num_features
        mean, variance = value_of(self.running_mean), value_of(self.running_var)
        of_batch = self.training or mean is None
        count = input.shape[0] * math.prod(input.shape[2:])
        if of_batch and count <= 1:
            raise ValueError(
                f"expected more than 1 value per channel when training, got input size {tuple(input.shape)}"
            )
        if input.shape[1] != features:
            raise RuntimeError(f"dimension 1 must be num_features={features}, got {tuple(input.shape)}")
        weight, bias = self._tensor("weight"), self._tensor("bias")
        recorded = is_traced(input, weight, bias)
        values = value_of if recorded else lambda array: array
        x, dtype = floats(values(input))
        axes = (0, *range(2, x.ndim))
        row = (features, *[1] * (x.ndim - 2))  # how statistics line up with x
        if of_batch:
            # NumPy adds up rows one after the other: in float32, many rows would lose digits
            mean = x.mean(axes, dtype=np.float64).astype(x.dtype)
            centred = x - mean.reshape(row)
            variance = (centred * centred).mean(axes, dtype=np.float64).astype(x.dtype)
            if self.training and self.track_running_stats:
                # Of a dynamic size a graph has 1 / count alone.
                more = (
                    count / (count - 1) if type(count) is int else 1 / (1 - (1 / count) * np.ones_like(mean))
                )
                self._track(mean, variance * more)
        else:
            centred = x - mean.reshape(row)
        root = np.sqrt(variance + self.eps).reshape(row)
        affine = (None if a is None else values(a).reshape(row) for a in (weight, bias))
        out = _scaled(centred / root, *affine).astype(dtype, copy=False)
        if not recorded:
            return out
        parents = (input, weight, bias)
        return _record(
            out, lambda: (centred / root, 1 / root), parents, axes if of_batch else None, True, row
        )

    def _check_dimensions(self, input: Array) -> None:
        if input.ndim not in self._dims:
            expected = " or ".join(f"{n}D" for n in self._dims)
            raise ValueError(f"expected {expected} input (got {input.ndim}D input)")

    def _track(self, mean: Array, variance: Array) -> None:
        count = self.num_batches_tracked
        count[...] = count + 1  # in place, where mapped statistics are parts of stacked ones
        share = 1.0 / count if self.momentum is None else self.momentum
        for name, new in (("running_mean", mean), ("running_var", variance)):
            kept = value_of(getattr(self, name))  # no part of a gradient, as in torch
            new = new.detach() if isinstance(new, HostArray) else new
            kept[...] = (1 - share) * kept + share * new

    def extra_repr(self) -> str:
        """The options."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class BatchNorm1d(_BatchNorm):
    """(x - mean) / √(variance + eps) over all but the feature dimension, times weight plus bias.

    In training mode mean and variance are those of the batch, and running averages of both are kept
    (the variance with Bessel's correction); in evaluation mode the running averages are used.

    Args:
        num_features: size of the feature dimension.
        eps: added to the variance.
        momentum: share of the newest batch in the running averages; None: the average of all batches.
        affine: whether there are weight and bias.
        track_running_stats: whether there are running averages; without, the batch's own are always used.
        device: "cpu", or "meta" for parameters without data.
        dtype: dtype of parameters and averages; the default float dtype if not given.
        bias: whether there is a bias, given that there is a weight.

    Shapes:
        input and output (N, num_features) or (N, num_features, L); `weight`, `bias`, `running_mean` and
        `running_var` (num_features,); `num_batches_tracked` ().

    Dtypes:
        the input's; integers become the default float dtype. Sums over the batch are float64.

    Raises:
        ValueError: an input of other dimensions, or of one value per feature in training mode.
        RuntimeError: another number of features.

    Source:
        Ioffe and Szegedy (2015), Batch normalization (arXiv:1502.03167).

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> layer = nn.BatchNorm1d(1)
        >>> layer(np.array([[1.0], [3.0]])).round(3).tolist(), layer.running_mean.round(3)
        ([[-1.0], [1.0]], array([0.2], dtype=float32))
    """

    _dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """`BatchNorm1d` of images: statistics of each channel over the batch and all pixels.

    Args:
        num_features, eps, momentum, affine, track_running_stats, device, dtype, bias: as of `BatchNorm1d`.

    Shapes:
        input and output (N, num_features, H, W); parameters and averages as of `BatchNorm1d`.

    Dtypes:
        as of `BatchNorm1d`.

    Raises:
        ValueError, RuntimeError: as of `BatchNorm1d`.

    Source:
        torch.nn.BatchNorm2d.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.BatchNorm2d(1)(np.array([[[[1.0, 3.0]]]])).round(3)
        array([[[[-1.,  1.]]]])
    """

    _dims = (4,)


class LazyBatchNorm1d(LazyLayer, BatchNorm1d):
    """A `BatchNorm1d` that infers `num_features` from its first input, and then becomes a `BatchNorm1d`.

    Args:
        eps, momentum, affine, track_running_stats, device, dtype, bias: as of `BatchNorm1d`.

    Shapes:
        as of `BatchNorm1d`; parameters and running averages have none before the first call.

    Dtypes:
        as of `BatchNorm1d`.

    Raises:
        ValueError: an input of other dimensions.

    Source:
        torch.nn.LazyBatchNorm1d.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> layer = nn.LazyBatchNorm1d()
        >>> layer(np.ones((4, 3), np.float32)).shape, layer.num_features
        ((4, 3), 3)
    """

    cls_to_become = BatchNorm1d
    _size_name = "num_features"

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Device | None = None,
        dtype: DTypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        for name in ("weight", "bias"):
            if getattr(self, name) is not None:
                setattr(self, name, UninitializedParameter(device=device, dtype=dtype))
        if track_running_stats:
            for name in ("running_mean", "running_var"):
                self._set_buffer(name, UninitializedBuffer(device=device, dtype=dtype))

    def _size_of(self, input: Array) -> int:
        self._check_dimensions(input)
        return int(input.shape[1])

    def _shapes(self, size: int) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(("weight", "bias", "running_mean", "running_var"), (size,))

    def _known_size(self) -> int | None:
        known = [value for value in map(self._tensor, ("weight", "running_mean")) if value is not None]
        return int(known[0].shape[0]) if known else None


@functools.lru_cache(256)
def _layer_norm(shape: tuple[int, ...], eps: float) -> LayerNorm:
    return LayerNorm(shape, eps, elementwise_affine=False)


@functools.lru_cache(256)
def _rms_norm(shape: tuple[int, ...], eps: float) -> RMSNorm:
    return RMSNorm(shape, eps, elementwise_affine=False)


def layer_norm(x: Array, shape: tuple[int, ...], weight: Any, bias: Any, eps: float) -> Array:
    """The formula of `LayerNorm` with a given weight and bias, or None."""
    return _layer_norm(shape, eps)._normalized(x, weight, bias)


def rms_norm(x: Array, shape: tuple[int, ...], weight: Any, eps: float) -> Array:
    """The formula of `RMSNorm` with a given weight, or None."""
    return _rms_norm(shape, eps)._normalized(x, weight, tuple(range(-len(shape), 0)))


def _record(
    out: Array, state: Callable[[], tuple[Any, Any]], parents: tuple[Any, Any, Any],
    axes: tuple[int, ...] | None, centres: bool, row: tuple[int, ...] | None = None,
) -> Array:  # fmt: skip
    """The node of a normalisation.

    Args:
        out: its result.
        state: gives the normalised input, before weight and bias, and what the centred one was multiplied by.
        parents: input, weight and bias; None for missing ones.
        axes: what mean and variance were taken over; None if they were given.
        centres: whether the mean was subtracted.
        row: the shape in which weight and bias broadcast, if it is another than their own.
    """
    input, weight, bias = parents
    w = None if weight is None else value_of(weight)
    w = w if row is None or w is None else w.reshape(row)
    state = functools.cache(state)

    def summed(g: Array, shape: tuple[int, ...]) -> Array:
        return unbroadcast(g, shape) if row is None else unbroadcast(g, row).reshape(shape)

    def for_input(g: Array) -> Array:
        normal, inverse = state()
        g = g if w is None else g * w
        if axes is not None:
            rest = g.mean(axes, keepdims=True) if centres else 0
            g = g - rest - normal * (g * normal).mean(axes, keepdims=True)
        return unbroadcast(g * inverse, input.shape)

    return with_node(
        out,
        (input, for_input),
        (weight, lambda g: summed(g * state()[0], weight.shape)),
        (bias, lambda g: summed(g, bias.shape)),
    )


def _scaled(fresh: Array, weight: Array | None, bias: Array | None) -> Array:
    """`fresh`, an array without other references, times weight plus bias; in place for plain arrays."""
    if isinstance(fresh, np.ndarray) and isinstance(weight, np.ndarray):
        fresh *= weight
    elif weight is not None:
        fresh = fresh * weight
    return fresh if bias is None else accumulate(fresh, bias)


belong_to("lite.nn", BatchNorm1d, BatchNorm2d, GroupNorm, LayerNorm, LazyBatchNorm1d, RMSNorm)
