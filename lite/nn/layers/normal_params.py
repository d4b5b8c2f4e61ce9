"""Location and scale of a normal distribution, made of a network's output by mappings to positive numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, overload

import numpy as np

from lite._arrays.formulas import sigmoid, softplus
from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite._transforms.grad.tape import value_of, with_node
from lite.nn._modules.initial import empty_array, fill
from lite.nn._modules.meta import Device
from lite.nn._modules.module import Module
from lite.nn._modules.parameter import Parameter
from lite.nn.layers.activations import ReLU
from lite.nn.layers.large_arrays import pointwise

Mapping = Callable[[Any], Any]


@overload
def inv_softplus(bias: float) -> float: ...
@overload
def inv_softplus(bias: Array) -> Array: ...
def inv_softplus(bias: Array | float) -> Array | float:
    """The number whose softplus is `bias`: log(exp(bias) - 1), where exp(bias) - 1 is at least 1e-6.

    Args:
        bias: a number, or an array.

    Example:
        >>> from lite.nn import inv_softplus
        >>> round(inv_softplus(1.0), 4)
        0.5413
    """
    if isinstance(bias, int | float) and not isinstance(bias, np.generic):
        return math.log(max(math.expm1(bias), 1e-6))
    return np.log(np.maximum(np.expm1(bias), 1e-6))


class biased_softplus(Module):
    """softplus, shifted so that it has a given value at 0 and stays above a minimum.

    Args:
        bias: value at 0.
        min_val: value at -inf.

    Example:
        >>> import numpy as np
        >>> from lite.nn import biased_softplus
        >>> biased_softplus(1.0)(np.array([-2.0, 0.0, 2.0])).round(4)
        array([0.2161, 1.    , 2.6124])

    Source:
        tensordict.nn.biased_softplus.
    """

    def __init__(self, bias: float, min_val: float = 0.01) -> None:
        super().__init__()
        self.bias = inv_softplus(bias - min_val)
        self.min_val = min_val

    def forward(self, x: Array) -> Array:
        """softplus(x + shift) + min_val."""
        return _softplus(x + self.bias) + self.min_val


def _softplus(x: Array) -> Array:
    return pointwise(softplus, x, derivative=lambda x, out: sigmoid(x))


def expln(x: Array) -> Array:
    """exp(x) up to 0, and 1 + log(1 + x) above, where it grows slowly.

    Example:
        >>> import numpy as np
        >>> from lite.nn import expln
        >>> expln(np.array([-1.0, 0.0, 1.0])).round(4)
        array([0.3679, 1.    , 1.6931])

    Source:
        Rückstieß et al. (2008), State-Dependent Exploration for Policy Gradient Methods.
    """
    inside = value_of(x)
    above = np.maximum(inside, 0)
    out = np.where(inside <= 0, np.exp(np.minimum(inside, 0)), 1 + np.log1p(above))
    return with_node(out, (x, lambda g: g * np.where(inside <= 0, out, 1 / (1 + above))))


def _relu(x: Array) -> Array:
    return ReLU()(x)


def _none(x: Array) -> Array:
    return x


_MAPPINGS: dict[str, Mapping] = {
    "softplus": _softplus, "exp": np.exp, "relu": _relu, "biased_softplus": biased_softplus(1.0),
    "none": _none, "expln": expln,
}  # fmt: skip


def mappings(key: str) -> Mapping:
    """The mapping of a name.

    Args:
        key: "softplus", "exp", "relu", "expln", "none", "biased_softplus", a name that was added, or
            "biased_softplus_<bias>" or "biased_softplus_<bias>_<min_val>" (see `biased_softplus`).

    Raises:
        ValueError: "biased_softplus" with more than two numbers.
        NotImplementedError: the name of a mapping is unknown.

    Example:
        >>> import numpy as np
        >>> from lite.nn import mappings
        >>> mappings("biased_softplus_1.0_0.1")(np.zeros(1))
        array([1.])
    """
    found = _MAPPINGS.get(key)
    if found is not None:
        return found
    if not key.startswith("biased_softplus"):
        raise NotImplementedError(f"Unknown mapping {key!r}, there are {sorted(_MAPPINGS)}")
    numbers = key.split("_")[2:]
    if not 1 <= len(numbers) <= 2:
        raise ValueError(f"Invalid number of args in {key!r}: expected biased_softplus_<bias>[_<min_val>]")
    return biased_softplus(*map(float, numbers))


def add_custom_mapping(name: str, mapping: Mapping) -> None:
    """Give a mapping a name that `mappings`, and the modules that take such names, know.

    Args:
        name: the name.
        mapping: a function from an array to an array of the same shape.

    Example:
        >>> import numpy as np
        >>> from lite.nn import NormalParamExtractor, add_custom_mapping
        >>> add_custom_mapping("square", np.square)
        >>> NormalParamExtractor("square")(np.array([1.0, 3.0]))
        (array([1.]), array([9.]))
    """
    _MAPPINGS[name] = mapping


class NormalParamExtractor(Module):
    """Split an array in two along its last axis: a location, and a scale that is mapped to positive numbers.

    More inputs are appended to the outputs as they are.

    Args:
        scale_mapping: name of a mapping, see `mappings`.
        scale_lb: least scale.

    Shapes:
        input (*B, n), n at least 2; loc (*B, n - n // 2) and scale (*B, n // 2), both of the input's dtype.

    Raises:
        ValueError: a last axis of less than 2.
        RuntimeError: an input without dimensions.
        NotImplementedError: an unknown mapping.

    Example:
        >>> import numpy as np
        >>> from lite.nn import NormalParamExtractor
        >>> NormalParamExtractor()(np.zeros(4))
        (array([0., 0.]), array([1., 1.]))

    Source:
        tensordict.nn.NormalParamExtractor.
    """

    def __init__(self, scale_mapping: str = "biased_softplus_1.0", scale_lb: float = 1e-4) -> None:
        super().__init__()
        self.scale_mapping = mappings(scale_mapping)
        self.scale_lb = scale_lb

    def forward(self, tensor: Array, *others: Any) -> tuple[Any, ...]:
        """Return (loc, scale, *others).

        Raises:
            ValueError: the last axis is too short to be split.
            RuntimeError: there is no last axis.
        """
        if tensor.ndim == 0:
            raise RuntimeError("NormalParamExtractor needs an array with at least one dimension, got none.")
        size = tensor.shape[-1]
        if size < 2:
            raise ValueError(f"NormalParamExtractor needs a last axis of 2 or more, got {tensor.shape}.")
        half = (size + 1) // 2
        scale = self.scale_mapping(tensor[..., half:])
        return (tensor[..., :half], np.maximum(scale, self.scale_lb), *others)


class AddStateIndependentNormalScale(Module):
    """Add a scale that is a parameter of its own, whatever the input.

    Args:
        scale_shape: shape of the scale: the last dimensions of the locations.
        scale_mapping: name of a mapping to positive numbers, see `mappings`.
        scale_lb: least scale.
        device: None, "cpu" or "meta".
        make_param: whether the scale is a parameter; otherwise it is a buffer.
        init_value: the parameter's first value, before the mapping.

    Shapes:
        loc (*B, *scale_shape), scale the same; `state_independent_scale` `scale_shape`.

    Raises:
        RuntimeError: the last dimensions of loc are not `scale_shape`.
        NotImplementedError: an unknown mapping.

    Example:
        >>> import numpy as np
        >>> from lite.nn import AddStateIndependentNormalScale
        >>> loc, scale = AddStateIndependentNormalScale(2)(np.zeros((3, 2), np.float32))
        >>> scale.shape, float(scale[0, 0])
        ((3, 2), 1.0)

    Source:
        tensordict.nn.AddStateIndependentNormalScale.
    """

    def __init__(
        self,
        scale_shape: int | Iterable[int] | None = None,
        *,
        scale_mapping: str = "exp",
        scale_lb: float = 1e-4,
        device: Device | None = None,
        make_param: bool = True,
        init_value: float = 0.0,
    ) -> None:
        super().__init__()
        if scale_shape is None:
            scale_shape = ()
        self.scale_shape = (scale_shape,) if isinstance(scale_shape, int) else tuple(scale_shape)
        self.scale_mapping = scale_mapping
        self.scale_lb = scale_lb
        values = empty_array(self.scale_shape, device)
        fill(values, init_value)
        if make_param:
            self.state_independent_scale = Parameter(values)
        else:
            self.register_buffer("state_independent_scale", values)

    def forward(self, loc: Array, *others: Any) -> tuple[Any, ...]:
        """Return (loc, scale, *others), where scale has the shape of loc.

        Raises:
            RuntimeError: the last dimensions of `loc` are not `scale_shape`.
        """
        shape = tuple(loc.shape)
        if self.scale_shape != shape[len(shape) - len(self.scale_shape) :]:
            raise RuntimeError(
                f"the last dimensions of loc, of shape {shape}, do not match the shape of the scale, "
                f"{self.scale_shape}."
            )
        scale = np.maximum(
            mappings(self.scale_mapping)(self._tensor("state_independent_scale")), self.scale_lb
        )
        return (loc, scale + np.zeros(shape, scale.dtype), *others)


belong_to("lite.nn", AddStateIndependentNormalScale, NormalParamExtractor, biased_softplus)
