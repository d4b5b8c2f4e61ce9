"""Elementwise modules without parameters.

Results have the dtype of the input; integers become the default float dtype. Half-precision floats compute
in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays import formulas
from lite.nn._modules.compiled import pointwise
from lite.nn._modules.module import Module


class Identity(Module):
    """Return the input; any constructor arguments are ignored.

    Shapes:
        any; the output has that of the input.

    Source:
        torch.nn.Identity.

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

    Shapes:
        any; the output has that of the input.

    Raises:
        ValueError: `inplace` and an input that cannot be written to.

    Source:
        torch.nn.ReLU.

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


class _Pointwise(Module):
    """A function of floats, computed by `_compute` in at least float32.

    Large arrays go to compiled code where there is some, under the name `_compiled`.
    """

    _compiled: str | None = None

    def _compute(self, x: Any) -> Any:
        raise NotImplementedError

    def forward(self, input: Any) -> Any:
        """Apply the function elementwise."""
        out = pointwise(self._compute, input, self._compiled)
        if getattr(self, "inplace", False):
            input[...] = out
            return input
        return out


class Tanh(_Pointwise):
    """tanh(x) elementwise.

    Shapes:
        any; the output has that of the input.

    Dtypes:
        the input's; integers become the default float dtype.

    Source:
        torch.nn.Tanh.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.Tanh()(np.array([0.0, 1.0])).round(4)
        array([0.    , 0.7616])
    """

    def _compute(self, x: Any) -> Any:
        return np.tanh(x)


class Sigmoid(_Pointwise):
    """1 / (1 + exp(-x)) elementwise.

    Shapes:
        any; the output has that of the input.

    Dtypes:
        the input's; integers become the default float dtype.

    Source:
        torch.nn.Sigmoid.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.Sigmoid()(np.array([0.0, 1.0])).round(4)
        array([0.5   , 0.7311])
    """

    def _compute(self, x: Any) -> Any:
        return formulas.sigmoid(x)


class SiLU(_Pointwise):
    """x / (1 + exp(-x)) elementwise, also known as swish.

    Args:
        inplace: write the result into the input array.

    Shapes:
        any; the output has that of the input.

    Dtypes:
        the input's; integers become the default float dtype.

    Raises:
        ValueError: `inplace` and an input that cannot be written to.

    Source:
        Elfwing et al. (2018), Sigmoid-weighted linear units (arXiv:1702.03118).

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.SiLU()(np.array([0.0, 1.0])).round(4)
        array([0.    , 0.7311])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    _compiled = "silu"

    def _compute(self, x: Any) -> Any:
        return formulas.silu(x)

    def extra_repr(self) -> str:
        """`inplace=True` if set."""
        return "inplace=True" if self.inplace else ""


class LeakyReLU(_Pointwise):
    """x where it is positive, else `negative_slope` times x.

    Args:
        negative_slope: the factor of negative inputs.
        inplace: write the result into the input array.

    Shapes:
        any; the output has that of the input.

    Dtypes:
        the input's; integers become the default float dtype.

    Raises:
        ValueError: `inplace` and an input that cannot be written to.

    Source:
        torch.nn.LeakyReLU.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.LeakyReLU(0.1)(np.array([-1.0, 2.0]))
        array([-0.1,  2. ])
    """

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def _compute(self, x: Any) -> Any:
        scaled = x * self.negative_slope
        if 0 < self.negative_slope <= 1:  # as nearly always: a third of the time that choosing takes
            return np.maximum(x, scaled)
        return np.where(x > 0, x, scaled)

    def extra_repr(self) -> str:
        """The slope, and `inplace=True` if set."""
        return f"negative_slope={self.negative_slope}{', inplace=True' if self.inplace else ''}"


class ELU(_Pointwise):
    """x where it is positive, else `alpha` (exp(x) - 1).

    Args:
        alpha: minus the limit at -infinity.
        inplace: write the result into the input array.

    Shapes:
        any; the output has that of the input.

    Dtypes:
        the input's; integers become the default float dtype.

    Raises:
        ValueError: `inplace` and an input that cannot be written to.

    Source:
        Clevert et al. (2016), Exponential linear units (arXiv:1511.07289).

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.ELU()(np.array([-1.0, 2.0])).round(4)
        array([-0.6321,  2.    ])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def _compute(self, x: Any) -> Any:
        out = np.expm1(np.minimum(x, 0))
        out *= self.alpha
        out += np.maximum(x, 0)
        return out

    def extra_repr(self) -> str:
        """alpha, and `inplace=True` if set."""
        return f"alpha={self.alpha}{', inplace=True' if self.inplace else ''}"


class Softplus(_Pointwise):
    """log(1 + exp(beta x)) / beta; x itself where beta x exceeds `threshold`.

    Args:
        beta: how sharp the bend at 0 is.
        threshold: above which the function is linear.

    Shapes:
        any; the output has that of the input.

    Dtypes:
        the input's; integers become the default float dtype.

    Source:
        torch.nn.Softplus.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.Softplus()(np.array([0.0, 30.0])).round(4)
        array([ 0.6931, 30.    ])
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def _compute(self, x: Any) -> Any:
        scaled = x * self.beta
        return np.where(scaled > self.threshold, x, formulas.softplus(scaled) / self.beta)

    def extra_repr(self) -> str:
        """beta and threshold."""
        return f"beta={self.beta}, threshold={self.threshold}"
