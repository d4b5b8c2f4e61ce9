"""Initial values: functions that fill a Parameter, or an array, in place and return it.

They have the names and arguments of torch.nn.init. `generator` is a `numpy.random.Generator`, a seed, or None
for fresh entropy. A Parameter without data, on the device "meta", stays as it is.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np

from lite._arrays.formulas import normal_cdf, normal_quantile
from lite.nn._modules.initial import Rng
from lite.nn._modules.meta import MetaArray
from lite.nn._modules.parameter import Parameter

__all__ = [
    "calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_", "normal_",
    "ones_", "orthogonal_", "sparse_", "trunc_normal_", "uniform_", "xavier_normal_", "xavier_uniform_",
    "zeros_"
]  # fmt: skip

T = TypeVar("T")

_GAINS = {"sigmoid": 1.0, "tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}
_LINEAR = ("linear", *(f"conv{turned}{n}d" for turned in ("", "_transpose") for n in (1, 2, 3)))


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """By how much the layer before a nonlinearity is to be larger, so that the spread stays the same.

    Args:
        nonlinearity: "linear", "conv1d" and its like, "sigmoid", "tanh", "relu", "leaky_relu" or "selu".
        param: the negative slope of "leaky_relu"; 0.01 by default.

    Raises:
        ValueError: another nonlinearity, or a slope that is not a number.

    Source:
        torch.nn.init.calculate_gain.

    Example:
        >>> from lite import nn
        >>> nn.init.calculate_gain("relu") ** 2
        2.0000000000000004
    """
    if nonlinearity in _LINEAR:
        return 1.0
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, int | float):
            raise ValueError(f"param must be a negative slope, a number, got {param!r}.")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        known = [*_LINEAR, "leaky_relu", *_GAINS]
        raise ValueError(f"nonlinearity must be one of {known}, got {nonlinearity!r}.")
    return _GAINS[nonlinearity]


def uniform_(tensor: T, a: float = 0.0, b: float = 1.0, generator: Rng = None) -> T:
    """Draw from U(a, b).

    Raises:
        RuntimeError: `a` is above `b`.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.init.uniform_(np.zeros(3), -1.0, 1.0, generator=0).round(2)
        array([ 0.27, -0.46, -0.92])
    """
    if a > b:
        raise RuntimeError(f"a must not be above b, got a={a} and b={b}.")
    return _filled(tensor, lambda shape: np.random.default_rng(generator).uniform(a, b, shape))


def normal_(tensor: T, mean: float = 0.0, std: float = 1.0, generator: Rng = None) -> T:
    """Draw from the normal distribution.

    Raises:
        RuntimeError: `std` is negative.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.init.normal_(np.zeros(2), std=0.1, generator=0).round(3)
        array([ 0.013, -0.013])
    """
    if std < 0:
        raise RuntimeError(f"std must not be negative, got {std}.")
    return _filled(tensor, lambda shape: np.random.default_rng(generator).normal(mean, std, shape))


def trunc_normal_(
    tensor: T, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Rng = None
) -> T:
    """Draw from the normal distribution between `a` and `b`.

    Raises:
        RuntimeError: `a` is above `b`.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> float(abs(nn.init.trunc_normal_(np.zeros(999), a=-0.5, b=0.5)).max()) <= 0.5
        True
    """
    if a > b:
        raise RuntimeError(f"a must not be above b, got a={a} and b={b}.")

    def drawn(shape: tuple[int, ...]) -> Any:
        low, high = (normal_cdf(np.asarray((bound - mean) / std, np.float64)) for bound in (a, b))
        part = np.random.default_rng(generator).uniform(low, high, shape)
        return np.clip(mean + std * normal_quantile(part), a, b)

    return _filled(tensor, drawn)


def constant_(tensor: T, val: float) -> T:
    """Set all numbers to `val`.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.init.constant_(np.zeros(2), 3.0)
        array([3., 3.])
    """
    return _filled(tensor, lambda shape: val)


def ones_(tensor: T) -> T:
    """Set all numbers to 1.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.init.ones_(nn.Parameter(np.zeros(2))).data
        array([1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: T) -> T:
    """Set all numbers to 0.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.init.zeros_(np.ones(2))
        array([0., 0.])
    """
    return constant_(tensor, 0.0)


def eye_(tensor: T) -> T:
    """Write ones on the diagonal of a matrix, and zeros elsewhere.

    Raises:
        ValueError: other than two dimensions.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.init.eye_(np.zeros((2, 3)))
        array([[1., 0., 0.],
               [0., 1., 0.]])
    """
    _require_dims("eye_", tensor, 2, 2)
    return _filled(tensor, lambda shape: np.eye(*shape))


def dirac_(tensor: T, groups: int = 1) -> T:
    """Make a convolution the identity on as many channels as it can: ones at the middle of the window.

    Args:
        tensor: a weight (out_channels, in_channels, *window) of one to three dimensions of the window.
        groups: number of groups of channels, each of which is kept.

    Raises:
        ValueError: another number of dimensions, or channels that groups do not divide.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> layer = nn.Conv1d(2, 2, 3, padding=1, bias=False)
        >>> _ = nn.init.dirac_(layer.weight)
        >>> layer(np.array([[1.0, 2.0], [3.0, 4.0]]))
        array([[1., 2.],
               [3., 4.]])
    """
    _require_dims("dirac_", tensor, 3, 5)
    out, inputs, *window = _shape(tensor)
    if out % groups:
        raise ValueError(f"groups must divide the {out} output channels, got {groups}.")

    def made(shape: tuple[int, ...]) -> Any:
        weight = np.zeros(shape)
        middle = tuple(size // 2 for size in window)
        per_group = out // groups
        for channel in range(out):
            if channel % per_group < inputs:
                weight[(channel, channel % per_group, *middle)] = 1.0
        return weight

    return _filled(tensor, made)


def xavier_uniform_(tensor: T, gain: float = 1.0, generator: Rng = None) -> T:
    """Draw from U(-c, c) with c = gain sqrt(6 / (inputs + outputs)).

    Raises:
        ValueError: fewer than two dimensions.

    Source:
        Glorot and Bengio (2010), Understanding the difficulty of training deep feedforward neural networks.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> bool(abs(nn.init.xavier_uniform_(np.zeros((3, 3)))).max() <= 1.0)
        True
    """
    bound = gain * math.sqrt(6.0 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: T, gain: float = 1.0, generator: Rng = None) -> T:
    """Draw from the normal distribution with the deviation gain sqrt(2 / (inputs + outputs)).

    Raises:
        ValueError: fewer than two dimensions.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.init.xavier_normal_(np.zeros((1, 1)), generator=0).round(3)
        array([[0.126]])
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_fans(tensor))), generator)


def kaiming_uniform_(
    tensor: T, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Rng = None
) -> T:
    """Draw from U(-c, c) with c = gain sqrt(3 / fan).

    Args:
        a: the negative slope of "leaky_relu".
        mode: "fan_in" for the number of inputs, "fan_out" for that of outputs.
        nonlinearity: whose gain is taken, see `calculate_gain`.
        generator: what draws.

    Raises:
        ValueError: fewer than two dimensions, another mode or nonlinearity.

    Source:
        He et al. (2015), Delving deep into rectifiers (arXiv:1502.01852).

    Example:
        >>> from lite import nn
        >>> layer = nn.Linear(3, 2)
        >>> nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu", generator=0) is layer.weight
        True
    """
    bound = math.sqrt(3.0) * _kaiming(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: T, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Rng = None
) -> T:
    """Draw from the normal distribution with the deviation gain / sqrt(fan); see `kaiming_uniform_`.

    Example:
        >>> from lite import nn
        >>> layer = nn.Linear(3, 2)
        >>> nn.init.kaiming_normal_(layer.weight, mode="fan_out", generator=0) is layer.weight
        True
    """
    return normal_(tensor, 0.0, _kaiming(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: T, gain: float = 1, generator: Rng = None) -> T:
    """Draw a matrix with orthogonal rows, or columns if these are fewer, of length `gain`.

    Dimensions after the first count as columns.

    Raises:
        ValueError: fewer than two dimensions.

    Source:
        Saxe et al. (2013), Exact solutions to the nonlinear dynamics of learning (arXiv:1312.6120).

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> w = nn.init.orthogonal_(np.zeros((2, 5)))
        >>> (w @ w.T).round(6) + 0.0
        array([[1., 0.],
               [0., 1.]])
    """
    _require_dims("orthogonal_", tensor, 2)

    def made(shape: tuple[int, ...]) -> Any:
        if not math.prod(shape):
            return 0.0
        rows, columns = shape[0], math.prod(shape[1:])
        drawn = np.random.default_rng(generator).standard_normal((max(rows, columns), min(rows, columns)))
        q, r = np.linalg.qr(drawn)
        q *= np.sign(np.diag(r))  # so that all orthogonal matrices are as likely
        return gain * (q if rows >= columns else q.T).reshape(shape)

    return _filled(tensor, made)


def sparse_(tensor: T, sparsity: float, std: float = 0.01, generator: Rng = None) -> T:
    """Draw a matrix from the normal distribution, and set a part of each column to 0.

    Args:
        sparsity: the part of each column that is 0, rounded up.
        std: standard deviation of the others.
        generator: what draws.

    Raises:
        ValueError: other than two dimensions.

    Source:
        Martens (2010), Deep learning via Hessian-free optimization.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> int((nn.init.sparse_(np.zeros((4, 1)), 0.5) == 0).sum())
        2
    """
    _require_dims("sparse_", tensor, 2, 2)

    def made(shape: tuple[int, ...]) -> Any:
        rng = np.random.default_rng(generator)
        drawn = rng.normal(0.0, std, shape)
        zeros = np.tile((np.arange(shape[0]) < math.ceil(sparsity * shape[0]))[:, None], (1, shape[1]))
        return np.where(rng.permuted(zeros, axis=0), 0.0, drawn)

    return _filled(tensor, made)


def _array(tensor: Any) -> Any:
    return tensor.data if isinstance(tensor, Parameter) else tensor


def _shape(tensor: Any) -> tuple[int, ...]:
    return tuple(_array(tensor).shape)


def _filled(tensor: T, values: Any) -> T:
    """The object, filled with `values(shape)`."""
    array = _array(tensor)
    if not isinstance(array, MetaArray):
        array[...] = values(_shape(tensor))
    return tensor


def _require_dims(name: str, tensor: Any, least: int, most: int | None = None) -> None:
    shape = _shape(tensor)
    if len(shape) < least or (most is not None and len(shape) > most):
        wanted = f"{least}" if least == most else f"{least} to {most}" if most else f"at least {least}"
        raise ValueError(f"{name} needs {wanted} dimensions, got shape {shape}.")


def _fans(tensor: Any) -> tuple[int, int]:
    """Numbers of inputs and of outputs of each number of a weight."""
    _require_dims("the initialisation", tensor, 2)
    outputs, inputs, *window = _shape(tensor)
    return inputs * math.prod(window), outputs * math.prod(window)


def _kaiming(tensor: Any, a: float, mode: str, nonlinearity: str) -> float:
    """The standard deviation that keeps the spread."""
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"mode must be 'fan_in' or 'fan_out', got {mode!r}.")
    fan = _fans(tensor)[mode == "fan_out"]
    gain = calculate_gain(nonlinearity, a)
    return gain / math.sqrt(fan) if fan else 0.0
