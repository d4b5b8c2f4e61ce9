"""Softmax and LogSoftmax.

Results have the dtype of the input; integers become the default float dtype. Half-precision floats compute
in float32.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from lite._arrays import formulas
from lite._arrays.dtypes import floats
from lite.nn._modules.module import Module


class _AlongDim(Module):
    """A function along one dimension, NaN without a warning where there is nothing to normalise."""

    _function: Callable[[Any, int], Any]

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Any:
        """Apply the function along `dim`."""
        x, dtype = floats(input)
        with np.errstate(invalid="ignore", over="ignore"):  # rows of infinities; log-probs beyond float16
            return _along(self._function, x, self.dim, type(self).__name__).astype(dtype, copy=False)

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class Softmax(_AlongDim):
    """exp(x) / sum(exp(x)) along a dimension; NaN for a row of only -inf, or with +inf.

    Args:
        dim: the dimension. None warns, and takes 0 for inputs of 0, 1 or 3 dimensions, else 1.

    Shapes:
        any; the output has that of the input.

    Dtypes:
        the input's; integers become the default float dtype.

    Raises:
        IndexError: the input has no such dimension.

    Source:
        torch.nn.Softmax.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.Softmax(-1)(np.array([[0.0, 0.0], [0.0, np.log(3)]])).round(4)
        array([[0.5 , 0.5 ],
               [0.25, 0.75]])
    """

    _function = staticmethod(formulas.softmax)


class LogSoftmax(_AlongDim):
    """x - log(sum(exp(x))) along a dimension; NaN for a row of only -inf, or with +inf.

    Args:
        dim: the dimension. None warns, and takes 0 for inputs of 0, 1 or 3 dimensions, else 1.

    Shapes:
        any; the output has that of the input.

    Dtypes:
        the input's; integers become the default float dtype.

    Raises:
        IndexError: the input has no such dimension.

    Source:
        torch.nn.LogSoftmax.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.LogSoftmax(-1)(np.array([0.0, 0.0])).round(4)
        array([-0.6931, -0.6931])
    """

    _function = staticmethod(formulas.log_softmax)


def _along(function: Any, x: Any, dim: int | None, name: str) -> Any:
    if dim is None:
        dim = 0 if x.ndim in (0, 1, 3) else 1
        warnings.warn(
            f"{name} without dim takes dimension {dim} of an input of {x.ndim}; pass dim to say which.",
            UserWarning,
            stacklevel=2,
        )
    if x.ndim == 0:
        if dim not in (0, -1):
            raise IndexError(f"dim must be 0 or -1 for an input without dimensions, got {dim}")
        return function(x.reshape(1), 0).reshape(())
    if not -x.ndim <= dim < x.ndim:
        raise IndexError(f"dim must be in [{-x.ndim}, {x.ndim - 1}], got {dim}")
    return function(x, dim)
