"""Modules that make the location and the scale of a normal distribution."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from lite._arrays.types import raw
from lite.nn._modules.initial import empty_array, fill
from lite.nn._modules.module import Module
from lite.nn._modules.parameter import Parameter
from lite.nn.layers.mappings import mappings


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

    def forward(self, tensor: Any, *others: Any) -> tuple[Any, ...]:
        """Return (loc, scale, *others).

        Raises:
            ValueError: the last axis is too short to be split.
            RuntimeError: there is no last axis.
        """
        if tensor.ndim == 0:
            raise RuntimeError("NormalParamExtractor needs an array with at least one dimension, got none.")
        size = tensor.shape[-1]
        if size < 2:
            raise ValueError(
                f"NormalParamExtractor needs a last axis of at least 2, got shape {tensor.shape}."
            )
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
        device: Any = None,
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

    def forward(self, loc: Any, *others: Any) -> tuple[Any, ...]:
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
        scale = np.maximum(mappings(self.scale_mapping)(raw(self.state_independent_scale)), self.scale_lb)
        return (loc, scale + np.zeros(shape, scale.dtype), *others)
