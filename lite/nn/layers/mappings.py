"""Mappings to positive numbers, by name: what makes a scale of a network's output."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, overload

import numpy as np

from lite._arrays.dtypes import floats
from lite._arrays.formulas import softplus
from lite.nn._modules.module import Module

Mapping = Callable[[Any], Any]


@overload
def inv_softplus(bias: float) -> float: ...
@overload
def inv_softplus(bias: Any) -> Any: ...
def inv_softplus(bias: Any) -> Any:
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

    def forward(self, x: Any) -> Any:
        """softplus(x + shift) + min_val."""
        return _softplus(x + self.bias) + self.min_val


def _softplus(x: Any) -> Any:
    values, dtype = floats(x)
    return softplus(values).astype(dtype, copy=False)


def expln(x: Any) -> Any:
    """exp(x) up to 0, and 1 + log(1 + x) above, where it grows slowly.

    Example:
        >>> import numpy as np
        >>> from lite.nn import expln
        >>> expln(np.array([-1.0, 0.0, 1.0])).round(4)
        array([0.3679, 1.    , 1.6931])

    Source:
        Rückstieß et al. (2008), State-Dependent Exploration for Policy Gradient Methods.
    """
    return np.where(x <= 0, np.exp(np.minimum(x, 0)), 1 + np.log1p(np.maximum(x, 0)))


def _relu(x: Any) -> Any:
    return np.maximum(x, 0)


def _none(x: Any) -> Any:
    return x


_MAPPINGS: dict[str, Mapping] = {
    "softplus": _softplus,
    "exp": np.exp,
    "relu": _relu,
    "biased_softplus": biased_softplus(1.0),
    "none": _none,
    "expln": expln,
}


def mappings(key: str) -> Mapping:
    """The mapping of a name.

    Args:
        key: "softplus", "exp", "relu", "expln", "none", "biased_softplus", a name that was added, or
            "biased_softplus_<bias>" or "biased_softplus_<bias>_<min_val>" (see `biased_softplus`).

    Raises:
        ValueError: "biased_softplus" with more than two numbers.
        NotImplementedError: there is no mapping of this name.

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
