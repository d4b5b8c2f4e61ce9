"""GELU: compiled code for large float32 arrays, NumPy for all others."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays import formulas
from lite.nn._modules.compiled import pointwise
from lite.nn._modules.module import Module


class GELU(Module):
    """x times the probability that a standard normal number is below x.

    Args:
        approximate: "none", or "tanh" for a formula with tanh in place of the error function.

    Shapes:
        any; the output has that of the input.

    Dtypes:
        the input's; integers become the default float dtype.

    Raises:
        RuntimeError: `approximate` is neither, at the call.

    Source:
        Hendrycks and Gimpel (2016), Gaussian error linear units (arXiv:1606.08415).

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.GELU()(np.array([-1.0, 2.0])).round(4)
        array([-0.1587,  1.9545])
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Any) -> Any:
        """Apply the function elementwise."""
        return gelu(input, self.approximate)

    def extra_repr(self) -> str:
        """The formula."""
        return f"approximate={self.approximate!r}"


def gelu(x: Any, approximate: str = "none") -> Any:
    """GELU of an array of any dtype; see `GELU`."""
    formula = _FORMULAS.get(approximate)
    if formula is None:
        raise RuntimeError(f"approximate must be 'none' or 'tanh', got {approximate!r}")
    with np.errstate(over="ignore", invalid="ignore"):  # where x / inf is what it should be
        return pointwise(formula, x, "gelu_by_tanh" if approximate == "tanh" else "gelu")


def _exact(x: Any) -> Any:
    if x.dtype != np.float32:
        return x * formulas.normal_cdf(x)
    from lite.kernels.cpu._gelu import END, EXACT

    return _by_odds(x, EXACT, np.minimum(x * x, x.dtype.type(END)))


def _by_tanh(x: Any) -> Any:
    from lite.kernels.cpu._gelu import BY_TANH

    return _by_odds(x, BY_TANH, x * x)


def _by_odds(x: Any, coefficients: tuple[float, ...], square: Any) -> Any:
    """x / (1 + exp(x p(square)))."""
    odds = formulas.horner(coefficients, square)
    odds *= x
    odds = np.exp(odds)
    odds += x.dtype.type(1)
    return x / odds


_FORMULAS = {"none": _exact, "tanh": _by_tanh}
