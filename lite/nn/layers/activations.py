"""Modules of one array without parameters: elementwise functions, Softmax and LogSoftmax.

Results have the dtype of the input; integers become the default float dtype. Half-precision floats compute
in float32.

Past 600 lines because it is one family, most of it what each takes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite._arrays import formulas
from lite._arrays.caller import warn
from lite._arrays.dtypes import floats
from lite._arrays.public import belong_to
from lite._arrays.types import Array, ArrayHolder, HostArray
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.tape import value_of, with_node
from lite.nn._modules.module import Module
from lite.nn.layers.large_arrays import log_softmax, pointwise, softmax, softmax_shares

_INVERSE_ROOT_2PI = 1 / math.sqrt(2 * math.pi)
_ROOT_2_OVER_PI = math.sqrt(2 / math.pi)
_CUBIC = 0.044715  # of the formula with tanh


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

    def forward(self, input: Array) -> Array:
        """Return the input."""
        return input


_BLOCK = 1 << 15  # numbers
_MANY = 1 << 9  # numbers, from which on an array of zeros pays
# Which NumPy takes in half of the time of a Python number.
_ZERO: dict[Any, Any] = {np.dtype(kind): np.zeros((), kind) for kind in "fd"}


@functools.lru_cache(256)
def _zeros(dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    zeros = np.zeros(_BLOCK, dtype) if shape == (_BLOCK,) else _zeros(dtype, (_BLOCK,))[: math.prod(shape)]
    zeros.flags.writeable = False
    return zeros.reshape(shape)


def rectified(x: Array, out: Array | None = None) -> Array:
    """max(x, 0), written to `out` if given.

    NumPy has vector instructions for the maximum of two arrays, and none for that of an array and a number.
    """
    if type(x) is not np.ndarray:
        return np.maximum(x, 0) if out is None else np.maximum(x, 0, out=out)
    zero = _ZERO.get(x.dtype, 0)
    if x.size < _MANY or type(zero) is int or not x.flags.c_contiguous:
        return np.maximum(x, zero, out=out)
    if x.size <= _BLOCK:
        return np.maximum(x, _zeros(x.dtype.char, x.shape), out=out)
    zeros = _zeros(x.dtype.char, (_BLOCK,))
    result = np.empty_like(x) if out is None else out
    source, target = x.reshape(-1), result.reshape(-1)
    for start in range(0, x.size, _BLOCK):
        block = source[start : start + _BLOCK]
        np.maximum(block, zeros[: block.size], out=target[start : start + _BLOCK])
    return result


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

    def forward(self, input: Array) -> Array:
        """Apply max(x, 0)."""
        if type(input) is np.ndarray:
            return rectified(input, input if self.inplace else None)
        if isinstance(input, ArrayHolder):  # a parameter
            input = input.computing()
        if isinstance(input, TracedArray):
            return self._recorded(input)
        if self.inplace:
            return rectified(input, input)
        if isinstance(input, HostArray) and input.layered:
            return input.elementwise(self.forward)
        return rectified(input)

    def _recorded(self, input: Array) -> Array:
        out = rectified(value_of(input))
        # The derivative at 0 is 0, as in torch; that of np.maximum, where both are equal, would be a half.
        result = with_node(out, (input, lambda g: g * (out > 0)))
        if self.inplace:
            input[...] = result
            return input
        return result

    def extra_repr(self) -> str:
        """`inplace=True` if set."""
        return "inplace=True" if self.inplace else ""


class _Pointwise(Module):
    """A function of floats, computed by `_compute` in at least float32, with the derivative `_derivative`.

    Large arrays go to compiled code where there is some, under the name `_compiled`.
    """

    _compiled: str | None = None
    inplace = False  # for those that have no such argument

    def _compute(self, x: Array) -> Array:
        raise NotImplementedError

    def _derivative(self, x: Array, out: Array) -> Array:
        """The derivative at x, where the function is `out`."""
        raise NotImplementedError

    def forward(self, input: Array) -> Array:
        """Apply the function elementwise."""
        out = pointwise(self._compute, input, self._compiled, self._derivative)
        if self.inplace:
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

    def _compute(self, x: Array) -> Array:
        return np.tanh(x)

    def _derivative(self, x: Array, out: Array) -> Array:
        return 1 - out * out


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

    def _compute(self, x: Array) -> Array:
        return formulas.sigmoid(x)

    def _derivative(self, x: Array, out: Array) -> Array:
        return out * (1 - out)


class _InPlace(_Pointwise):
    """A function that may write into its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        """`inplace=True` if set."""
        return "inplace=True" if self.inplace else ""


class SiLU(_InPlace):
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

    _compiled = "silu"

    def _compute(self, x: Array) -> Array:
        return formulas.silu(x)

    def _derivative(self, x: Array, out: Array) -> Array:
        share = formulas.sigmoid(x)
        return share * (1 + x * (1 - share))


class Mish(_InPlace):
    """x times tanh(log(1 + exp(x))) elementwise.

    Args:
        inplace: write the result into the input array.

    Shapes:
        any; the output has that of the input.

    Dtypes:
        the input's; integers become the default float dtype.

    Raises:
        ValueError: `inplace` and an input that cannot be written to.

    Source:
        Misra (2020), Mish: a self regularized non-monotonic activation function (arXiv:1908.08681).

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.Mish()(np.array([-1.0, 0.0, 1.0])).round(4)
        array([-0.3034,  0.    ,  0.8651])
    """

    def _compute(self, x: Array) -> Array:
        return x * np.tanh(formulas.softplus(x))

    def _derivative(self, x: Array, out: Array) -> Array:
        share = np.tanh(formulas.softplus(x))
        return share + x * formulas.sigmoid(x) * (1 - share * share)


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

    def _compute(self, x: Array) -> Array:
        scaled = x * self.negative_slope
        if 0 < self.negative_slope <= 1:  # as nearly always: a third of the time that choosing takes
            return np.maximum(x, scaled)
        return np.where(x > 0, x, scaled)

    def _derivative(self, x: Array, out: Array) -> Array:
        return np.where(x > 0, x.dtype.type(1), x.dtype.type(self.negative_slope))

    def extra_repr(self) -> str:
        """`negative_slope`, and `inplace=True` if set."""
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

    @property
    def _rates(self) -> tuple[float, float]:
        """Factors of the result, and of x in the exponent."""
        return 1.0, 1.0

    def _compute(self, x: Array) -> Array:
        scale, rate = self._rates
        out = np.expm1(np.minimum(x, 0) * rate if rate != 1 else np.minimum(x, 0))
        out *= self.alpha
        out += np.maximum(x, 0)
        return out * scale if scale != 1 else out

    def _derivative(self, x: Array, out: Array) -> Array:
        scale, rate = self._rates
        below = scale * self.alpha * rate * np.exp(np.minimum(x, 0) * rate)
        return np.where(x > 0, x.dtype.type(scale), below)

    def extra_repr(self) -> str:
        """alpha, and `inplace=True` if set."""
        return f"alpha={self.alpha}{', inplace=True' if self.inplace else ''}"


class CELU(ELU):
    """x where it is positive, else `alpha` (exp(x / `alpha`) - 1); arguments, shapes and dtypes as `ELU`'s.

    Source:
        Barron (2017), Continuously differentiable exponential linear units (arXiv:1704.07483).

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.CELU(0.5)(np.array([-1.0, 2.0])).round(4)
        array([-0.4323,  2.    ])
    """

    @property
    def _rates(self) -> tuple[float, float]:
        return 1.0, 1 / self.alpha


class SELU(ELU):
    """`ELU` whose alpha and scale keep mean 0 and variance 1 from layer to layer.

    Args:
        inplace: write the result into the input array.

    Source:
        Klambauer et al. (2017), Self-normalizing neural networks (arXiv:1706.02515).

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.SELU()(np.array([-1.0, 2.0])).round(4)
        array([-1.1113,  2.1014])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(1.6732632423543772, inplace)

    @property
    def _rates(self) -> tuple[float, float]:
        return 1.0507009873554805, 1.0

    def extra_repr(self) -> str:
        """`inplace=True` if set."""
        return "inplace=True" if self.inplace else ""


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

    def _compute(self, x: Array) -> Array:
        scaled = x * self.beta
        return np.where(scaled > self.threshold, x, formulas.softplus(scaled) / self.beta)

    def _derivative(self, x: Array, out: Array) -> Array:
        scaled = x * self.beta
        return np.where(scaled > self.threshold, x.dtype.type(1), formulas.sigmoid(scaled))

    def extra_repr(self) -> str:
        """beta and threshold."""
        return f"beta={self.beta}, threshold={self.threshold}"


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

    def forward(self, input: Array) -> Array:
        """Apply the function elementwise."""
        return gelu(input, self.approximate)

    def extra_repr(self) -> str:
        """The formula."""
        return f"approximate={self.approximate!r}"


def gelu(x: Array, approximate: str = "none") -> Array:
    """GELU of an array of any dtype; see `GELU`."""
    formula = _FORMULAS.get(approximate)
    if formula is None:
        raise RuntimeError(f"approximate must be 'none' or 'tanh', got {approximate!r}")
    with np.errstate(over="ignore", invalid="ignore"):  # where x / inf is correct
        name = "gelu_by_tanh" if approximate == "tanh" else "gelu"
        return pointwise(formula, x, name, _DERIVATIVES[approximate])


def _exact(x: Array) -> Array:
    if x.dtype != np.float32:
        return x * formulas.normal_cdf(x)
    from lite.kernels.cpu.vectors.gelu import END, EXACT  # lite.kernels loads on use

    return _by_odds(x, EXACT, np.minimum(x * x, x.dtype.type(END)))


def _by_tanh(x: Array) -> Array:
    from lite.kernels.cpu.vectors.gelu import BY_TANH

    return _by_odds(x, BY_TANH, x * x)


def _by_odds(x: Array, coefficients: tuple[float, ...], square: Array) -> Array:
    """x / (1 + exp(x p(square)))."""
    odds = formulas.horner(coefficients, square)
    odds *= x
    odds = np.exp(odds)
    odds += x.dtype.type(1)
    return x / odds


def _exact_derivative(x: Array, out: Array) -> Array:
    return formulas.normal_cdf(x) + x * np.exp(-0.5 * x * x) * _INVERSE_ROOT_2PI


def _derivative_by_tanh(x: Array, out: Array) -> Array:
    share = formulas.sigmoid(2 * _ROOT_2_OVER_PI * (x + _CUBIC * x * x * x))
    inner = 2 * _ROOT_2_OVER_PI * (1 + 3 * _CUBIC * x * x)
    return share + x * share * (1 - share) * inner


_FORMULAS = {"none": _exact, "tanh": _by_tanh}
_DERIVATIVES = {"none": _exact_derivative, "tanh": _derivative_by_tanh}


def log_softmax_shares(g: Array, out: Array, axis: int) -> Array:
    """The gradient of the input of log_softmax from that of its result `out`."""
    return g - np.exp(out) * g.sum(axis, keepdims=True)


class _AlongDim(Module):
    """A function along one dimension, NaN without a warning where there is nothing to normalise."""

    _function: Callable[[Any, int], Any]
    _shares: Callable[[Any, Any, int], Any]  # the gradient of the input, given the result

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Array) -> Array:
        """Apply the function along `dim`."""
        x, dtype = floats(input)
        with np.errstate(invalid="ignore", over="ignore"):  # rows of infinities; log-probs beyond float16
            out = _along(self._applied, x, self.dim, type(self).__name__)
            return out.astype(dtype, copy=False)

    def _applied(self, x: Array, axis: int) -> Array:
        if not isinstance(x, TracedArray):
            return self._function(x, axis)
        out = self._function(value_of(x), axis)
        return with_node(out, (x, lambda g: self._shares(g, out, axis)))

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

    _function = staticmethod(softmax)
    _shares = staticmethod(softmax_shares)


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

    _function = staticmethod(log_softmax)
    _shares = staticmethod(log_softmax_shares)


def _along(function: Any, x: Array, dim: int | None, name: str) -> Array:
    if dim is None:
        dim = 0 if x.ndim in (0, 1, 3) else 1
        warn(
            f"{name} without dim takes dimension {dim} of an input of {x.ndim}; pass dim to say which.",
            UserWarning,
        )
    if x.ndim == 0:
        if dim not in (0, -1):
            raise IndexError(f"dim must be 0 or -1 for an input without dimensions, got {dim}")
        return function(x.reshape(1), 0).reshape(())
    if not -x.ndim <= dim < x.ndim:
        raise IndexError(f"dim must be in [{-x.ndim}, {x.ndim - 1}], got {dim}")
    return function(x, dim)


belong_to(
    "lite.nn",
    CELU,
    ELU,
    GELU,
    Identity,
    LeakyReLU,
    LogSoftmax,
    Mish,
    ReLU,
    SELU,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Tanh,
)
