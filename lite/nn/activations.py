"""Modules without parameters: Identity, ReLU, Tanh."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._defaults import get_default_dtype
from lite.nn.module import Module


class Identity(Module):
    """Return the input; any constructor arguments are ignored.

    Example:
        >>> from lite import nn
        >>> nn.Identity(54, unused=True)(3)
        3
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        """Return the input."""
        return input


class ReLU(Module):
    """max(x, 0) elementwise, in the dtype of the input; NaN stays NaN.

    Args:
        inplace: write the result into the input array.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.ReLU()(np.array([-1.0, 2.0]))
        array([0., 2.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        """Apply max(x, 0)."""
        if self.inplace:
            return np.maximum(input, 0, out=input)
        return np.maximum(input, 0)

    def extra_repr(self) -> str:
        """`inplace=True` if set."""
        return "inplace=True" if self.inplace else ""


class Tanh(Module):
    """tanh(x) elementwise; integers become the default float dtype.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.Tanh()(np.array([0.0, 1.0])).round(4)
        array([0.    , 0.7616])
    """

    def forward(self, input: Any) -> Any:
        """Apply tanh."""
        if input.dtype.kind in "biu":
            return np.tanh(input, dtype=get_default_dtype())
        return np.tanh(input)
