"""Linear and LazyLinear, y = x Wᵀ + b, and Bilinear, a form linear in each of two inputs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from lite._arrays.dtypes import compute_dtype
from lite._arrays.public import belong_to
from lite._arrays.types import Array, HostArray
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.tape import is_traced, unbroadcast, value_of, with_node
from lite.nn._modules.initial import Rng, UninitializedParameter, empty_parameter, fill_uniform, reset
from lite.nn._modules.lazy import LazyLayer
from lite.nn._modules.meta import Device
from lite.nn._modules.module import Module


class Linear(Module):
    """An affine map of the last dimension: y = x Wᵀ + b.

    Args:
        in_features: size of the last dimension of the input.
        out_features: size of the last dimension of the output.
        bias: whether there is a bias (None means no).
        device: "cpu", or "meta" for parameters without data.
        dtype: dtype of the parameters; the default float dtype (float32) if not given.
        rng: a `numpy.random.Generator`, a seed, or None for fresh entropy; initial weights and biases
            are drawn from U(-1/√in_features, 1/√in_features).

    Shapes:
        input (*B, in_features), `weight` (out_features, in_features), `bias` (out_features,), output
        (*B, out_features). Stacked parameters, `weight` (*E, out_features, in_features) with `bias`
        (*E, out_features), broadcast by the rule of `numpy.matmul`: an input (in_features,) or
        (*E, N, in_features), where E may be left out or 1, gives (*E, out_features) or
        (*E, N, out_features).

    Dtypes:
        the result has the promoted dtype of input and weight; integer inputs take the weight's.
        float16 and bfloat16 compute in float32.

    Raises:
        RuntimeError: if the last dimension of the input is not `in_features`.

    Source:
        torch.nn.Linear.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> layer = nn.Linear(3, 4, rng=0)
        >>> layer, layer(np.zeros((2, 3), dtype=np.float32)).shape
        (Linear(in_features=3, out_features=4, bias=True), (2, 4))
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool | None = True,
        device: Device | None = None,
        dtype: DTypeLike | None = None,
        *,
        rng: Rng = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = empty_parameter((out_features, in_features), device, dtype)
        self.register_parameter("bias", empty_parameter((out_features,), device, dtype) if bias else None)
        reset(self, rng)

    def reset_parameters(self, rng: Rng = None) -> None:
        """Redraw weight and bias from U(-1/√in_features, 1/√in_features), in place.

        Args:
            rng: a `numpy.random.Generator`, a seed, or None for fresh entropy.
        """
        rng = np.random.default_rng(rng)
        bound = 1.0 / math.sqrt(self.in_features) if self.in_features > 0 else 0.0
        for name in ("weight", "bias"):
            fill_uniform(self._held(name), bound, rng)

    def forward(self, input: Array) -> Array:
        """Map input (*B, in_features) to (*B, out_features)."""
        return linear(input, self._tensor("weight"), self._tensor("bias"))

    def extra_repr(self) -> str:
        """The sizes, and whether there is a bias."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )


class LazyLinear(LazyLayer, Linear):
    """A `Linear` that infers `in_features` from its first input, and then becomes a `Linear`.

    Args:
        out_features: size of the last dimension of the output.
        bias: whether there is a bias.
        device: "cpu", or "meta" for parameters without data.
        dtype: dtype of the parameters; the default float dtype if not given.
        rng: as of `Linear`, used at the first call.

    Shapes:
        as of `Linear`; `weight` and `bias` are `UninitializedParameter`s before the first call.

    Dtypes:
        as of `Linear`.

    Raises:
        RuntimeError: an input without dimensions.

    Source:
        torch.nn.LazyLinear.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> layer = nn.LazyLinear(4)
        >>> layer(np.zeros((2, 3), np.float32)).shape, layer
        ((2, 4), Linear(in_features=3, out_features=4, bias=True))
    """

    cls_to_become = Linear
    _size_name = "in_features"

    def __init__(
        self,
        out_features: int,
        bias: bool = True,
        device: Device | None = None,
        dtype: DTypeLike | None = None,
        *,
        rng: Rng = None,
    ) -> None:
        super().__init__(0, 0, False)
        self._rng = rng
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def _shapes(self, size: int) -> dict[str, tuple[int, ...]]:
        return {"weight": (self.out_features, size), "bias": (self.out_features,)}

    def _known_size(self) -> int:
        return int(self._tensor("weight").shape[-1])


def linear(x: Array, weight: Array, bias: Array | None) -> Array:
    """x Wᵀ + b for x (*B, in), weight (*E, out, in) and bias (*E, out) or None."""
    plain = type(weight) is type(x) is np.ndarray and (bias is None or type(bias) is np.ndarray)
    if plain and weight.ndim == 2 and (dims := x.ndim):
        dtype = x.dtype
        if (dtype is weight.dtype or dtype == weight.dtype) and dtype.char in "fd":
            try:
                # Half of what `matmul` takes for one row. More dimensions take a loop: they are joined.
                out = (x if dims < 3 else _rows(x)).dot(weight.T)
            except ValueError:  # of shapes, which are compared below
                pass
            else:
                if bias is None:
                    pass
                elif bias.dtype is not dtype and bias.dtype != dtype:
                    out = out + bias
                elif dims == 2 and len(x) == bias.ndim == 1:
                    row = out[0]  # to which it is added without a loop over rows, in half of the time
                    row += bias
                else:
                    out += bias
                return out if dims < 3 else out.reshape(*x.shape[:-1], out.shape[1])
    if not plain and is_traced(x, weight, bias):
        return _recorded_linear(x, weight, bias)
    if not plain and _is_ensemble(x, weight, bias):
        mapped: Any = weight
        inside = linear(*map(_inside, (x, weight, bias)))
        return type(mapped)(inside, mapped.level)
    shape = x.shape
    if not shape or shape[-1] != weight.shape[-1]:
        kind = ""
        if hasattr(type(x), "_as_node"):
            kind = f" of a {type(x).__name__}; TensorDictModule(layer, in_keys, out_keys) takes the"
            kind += " entries of a TensorDict (a dict would be one of them)"
        raise RuntimeError(
            f"the last dimension of the input must be in_features={weight.shape[-1]}, "
            f"got {tuple(shape)}{kind}."
        )
    dtype = weight.dtype
    if x.dtype == dtype and dtype.itemsize >= 4:
        return _affine(x, weight, bias)
    compute, result = compute_dtype(x.dtype, dtype)
    bias = None if bias is None else bias.astype(compute, copy=False)
    out = _affine(x.astype(compute, copy=False), weight.astype(compute, copy=False), bias)
    return out.astype(result, copy=False)


def _inside(x: Any) -> Any:
    return getattr(x, "value", x)


def _is_ensemble(x: Any, weight: Any, bias: Any) -> bool:
    """Whether a map runs over traced parameters, which behind it are those of a stacked layer."""
    kind = type(weight)
    if not issubclass(kind, HostArray) or not kind.layered or x.ndim != 2 or weight.ndim != 2:
        return False
    if type(weight.value) is not TracedArray or (bias is not None and type(bias) is not kind):
        return False
    mapped = [a for a in (x, weight, bias) if isinstance(a, HostArray) and not a.symbolic]
    return all(type(a) is kind and a.level == weight.level for a in mapped)


def _recorded_linear(x: Array, weight: Array, bias: Any) -> Array:
    """`linear` as one node, with what each argument gets of the gradient."""
    a, w = value_of(x), value_of(weight)
    out = linear(a, w, value_of(bias))
    compute = a.dtype if a.dtype == w.dtype and a.dtype.itemsize >= 4 else compute_dtype(a.dtype, w.dtype)[0]
    shape = a.shape  # so that the input can be freed if the weight does not learn

    def for_input(g: Array) -> Array:
        g = g.astype(compute, copy=False)
        if w.ndim == 2:
            return np.matmul(_rows(g), w.astype(compute, copy=False)).reshape(shape)
        g = g[..., None, :] if len(shape) == 1 else g
        each = np.matmul(g, w.astype(compute, copy=False))
        return unbroadcast(each[..., 0, :] if len(shape) == 1 else each, shape)

    def for_weight(g: Array) -> Array:
        g, rows = g.astype(compute, copy=False), a.astype(compute, copy=False)
        if w.ndim == 2:
            return np.matmul(_rows(g).T, _rows(rows))
        if a.ndim == 1:
            return unbroadcast(g[..., :, None] * rows, w.shape)
        return unbroadcast(np.matmul(g.swapaxes(-1, -2), rows), w.shape)

    def for_bias(g: Array) -> Array:
        if w.ndim > 2 and a.ndim > 1:  # (*E, N, out), with a bias (*E, out)
            g = g.sum(-2)
        return unbroadcast(g, bias.shape)

    return with_node(out, (x, for_input), (weight, for_weight), (bias, for_bias))


def _affine(x: Array, weight: Array, bias: Array | None) -> Array:
    if weight.ndim == 2:
        if x.ndim > 2:
            # One product of matrices instead of a loop over the leading dimensions.
            flat = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
            return _affine(flat, weight, bias).reshape(*x.shape[:-1], weight.shape[0])
        out = np.matmul(x, weight.T)
    else:
        out = np.matmul(x, weight.swapaxes(-1, -2))
        if bias is not None and x.ndim > 1:
            bias = bias[..., None, :]
    if bias is None:
        return out
    # A bias that is mapped may have a row for each element of what `out` shares among them.
    if out.dtype == bias.dtype and (
        not isinstance(bias, HostArray)
        or (type(_inside(bias)) is np.ndarray and getattr(out, "level", None) == getattr(bias, "level", 0))
    ):
        out += bias
        return out
    return out + bias


def _rows(x: Array) -> Array:
    """All but the last dimension as one."""
    return x if x.ndim == 2 else x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


class Bilinear(Module):
    """y_o = x1 W_o x2 + b_o.

    Args:
        in1_features: size of the last dimension of the first input.
        in2_features: size of the last dimension of the second input.
        out_features: size of the last dimension of the output.
        bias: whether there is a bias.
        device: "cpu", or "meta" for parameters without data.
        dtype: dtype of the parameters; the default float dtype if not given.
        rng: a `numpy.random.Generator`, a seed, or None for fresh entropy; initial values are drawn from
            U(-1/√in1_features, 1/√in1_features).

    Shapes:
        inputs (*B, in1_features) and (*B, in2_features), `weight` (out_features, in1_features,
        in2_features), `bias` (out_features,), output (*B, out_features).

    Dtypes:
        the promoted dtype of inputs and weight; integers take the weight's, float16 and bfloat16
        compute in float32.

    Raises:
        ValueError: in1_features is not positive.
        RuntimeError: inputs whose shapes do not fit.

    Source:
        torch.nn.Bilinear.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> layer = nn.Bilinear(2, 3, 4, rng=0)
        >>> layer(np.zeros((5, 2), np.float32), np.zeros((5, 3), np.float32)).shape
        (5, 4)
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Device | None = None,
        dtype: DTypeLike | None = None,
        *,
        rng: Rng = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be positive, got {in1_features}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = empty_parameter((out_features, in1_features, in2_features), device, dtype)
        self.register_parameter("bias", empty_parameter((out_features,), device, dtype) if bias else None)
        reset(self, rng)

    def reset_parameters(self, rng: Rng = None) -> None:
        """Redraw weight and bias from U(-1/√in1_features, 1/√in1_features), in place."""
        rng = np.random.default_rng(rng)
        for name in ("weight", "bias"):
            fill_uniform(self._held(name), 1.0 / math.sqrt(self.in1_features), rng)

    def forward(self, input1: Array, input2: Array) -> Array:
        """Map (*B, in1_features) and (*B, in2_features) to (*B, out_features)."""
        weight, bias = self._tensor("weight"), self._tensor("bias")
        if not (input1.shape and input2.shape) or input1.shape[:-1] != input2.shape[:-1]:
            raise RuntimeError(
                "input1 and input2 must have dimensions and agree in all but the last, got "
                f"{tuple(input1.shape)} and {tuple(input2.shape)}"
            )
        for name, x, size in (("input1", input1, weight.shape[-2]), ("input2", input2, weight.shape[-1])):
            if x.shape[-1] != size:
                raise RuntimeError(f"the last dimension of {name} must be {size}, got {tuple(x.shape)}")
        compute, result = compute_dtype(input1.dtype, input2.dtype, weight.dtype)
        x1, x2, w = (a.astype(compute, copy=False) for a in (input1, input2, weight))
        out = _forms(x1, x2, w)
        if bias is not None:
            out = out + bias.astype(compute, copy=False)
        return out.astype(result, copy=False)

    def extra_repr(self) -> str:
        """The sizes, and whether there is a bias."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


def _forms(x1: Array, x2: Array, weight: Array) -> Array:
    """x1 W_o x2 for each o: (*B, out) of (*B, in1), (*B, in2) and (out, in1, in2)."""
    if not is_traced(x1, x2, weight):
        # (out, in1, in2) x (*B, 1, in2, 1) -> (*B, out, in1), then the product with x1
        mixed = np.matmul(weight, x2[..., None, :, None])[..., 0]
        return np.matmul(mixed, x1[..., None])[..., 0]
    a, b, w = value_of(x1), value_of(x2), value_of(weight)
    outputs, first, second = w.shape

    def pairs(g: Array, x: Array) -> Array:
        """Products of each number of a row of g with each of a row of x, (rows, outputs * size)."""
        g, x = _rows(g), _rows(x)
        return (g[:, :, None] * x[:, None, :]).reshape(g.shape[0], outputs * x.shape[1])

    def for_first(g: Array) -> Array:
        return np.matmul(pairs(g, b), w.swapaxes(1, 2).reshape(outputs * second, first)).reshape(a.shape)

    def for_second(g: Array) -> Array:
        return np.matmul(pairs(g, a), w.reshape(outputs * first, second)).reshape(b.shape)

    def for_weight(g: Array) -> Array:
        return np.matmul(pairs(g, a).T, _rows(b)).reshape(w.shape)

    return with_node(_forms(a, b, w), (x1, for_first), (x2, for_second), (weight, for_weight))


belong_to("lite.nn", Bilinear, LazyLinear, Linear)
