"""Losses, activations, `one_hot` and `normalize` as functions of arrays and of TensorDicts, named as torch's.

A function of TensorDicts is applied to the arrays under each key and returns a TensorDict; `linear_log_probs`
is of arrays alone. All run under `grad`, `enable_grad` and `vmap`.

Losses take `input`, the output of a network, and `target`, of the same shape unless documented otherwise.
`reduction` is "mean", "sum", or "none" for a loss of that shape. torch's `size_average` and `reduce` are
deprecated there, and not taken.

Past 600 lines because it is one namespace of torch's, most of it what each function takes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from lite._arrays import formulas
from lite._arrays.caller import warn
from lite._arrays.device import unwrap, wrap
from lite._arrays.dtypes import as_dtype, floats
from lite._arrays.types import Array, HostArray, as_array, computed
from lite._transforms.grad.tape import is_traced, value_of, with_node
from lite._transforms.vmap.running import require_ids
from lite._tree.collection import TensorCollection
from lite.nn.layers import activations
from lite.nn.layers.large_arrays import pointwise
from lite.nn.layers.linear_log_probs import linear_log_probs

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def mse_loss(input: Any, target: Any, *, reduction: str = "mean", weight: Array | None = None) -> Any:
    """Squares of differences.

    Args:
        input: array or TensorDict.
        target: the same. Arrays of another shape are broadcast, with a warning.
        reduction: "mean", "sum" or "none".
        weight: array of the shape of `input`, a factor of each element; a mean is divided by their sum (in
            `huber_loss` by their number).

    Raises:
        ValueError: another `reduction`, or weights of another shape.

    Source:
        torch.nn.functional.mse_loss.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.nn import functional as F
        >>> float(F.mse_loss(np.array([1.0, 3.0]), np.array([1.0, 1.0])))
        2.0
        >>> F.mse_loss(TensorDict(a=np.ones(2)), TensorDict(a=np.zeros(2)))["a"]
        array(1.)
    """
    return _distance(lambda d: d * d, input, target, reduction, weight)


def l1_loss(input: Any, target: Any, *, reduction: str = "mean", weight: Array | None = None) -> Any:
    """Absolute values of differences; see `mse_loss`.

    Source:
        torch.nn.functional.l1_loss.

    Example:
        >>> import numpy as np
        >>> from lite.nn import functional as F
        >>> F.l1_loss(np.array([1.0, -2.0]), np.zeros(2), reduction="none")
        array([1., 2.])
    """
    return _distance(np.abs, input, target, reduction, weight)


def smooth_l1_loss(input: Any, target: Any, *, reduction: str = "mean", beta: float = 1.0) -> Any:
    """Half the squares of differences up to `beta`, divided by it, and from there on a line; see `mse_loss`.

    Args:
        input: array or TensorDict.
        target: the same.
        reduction: "mean", "sum" or "none".
        beta: where the loss becomes straight; 0 is `l1_loss`.

    Raises:
        ValueError: `beta` is negative.

    Source:
        torch.nn.functional.smooth_l1_loss.

    Example:
        >>> import numpy as np
        >>> from lite.nn import functional as F
        >>> F.smooth_l1_loss(np.array([0.5, 3.0]), np.zeros(2), reduction="none")
        array([0.125, 2.5  ])
    """
    if not beta >= 0:
        raise ValueError(f"beta must not be negative, got {beta}.")
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    return _distance(lambda d: formulas.smooth_l1(d, beta), input, target, reduction)


def huber_loss(
    input: Any, target: Any, *, reduction: str = "mean", delta: float = 1.0, weight: Array | None = None
) -> Any:
    """`delta` times the `smooth_l1_loss` with that `beta`: half the squares up to `delta`; see `mse_loss`.

    Raises:
        ValueError: `delta` is not positive.

    Source:
        torch.nn.functional.huber_loss.

    Example:
        >>> import numpy as np
        >>> from lite.nn import functional as F
        >>> F.huber_loss(np.array([0.5, 3.0]), np.zeros(2), reduction="none", delta=2.0)
        array([0.125, 4.   ])
    """
    if not delta > 0:
        raise ValueError(f"delta must be positive, got {delta}.")
    formula = lambda d: delta * formulas.smooth_l1(d, delta)  # noqa: E731
    return _distance(formula, input, target, reduction, weight, by_weight=False)


def _distance(
    formula: Callable[[Any], Any], input: Any, target: Any, reduction: str, weight: Array | None = None,
    by_weight: bool = True,
) -> Any:  # fmt: skip
    def loss(x: Array, y: Array) -> Array:
        if x.shape != y.shape:
            warn(
                f"input and target have the shapes {tuple(x.shape)} and {tuple(y.shape)}, which are "
                "broadcast: each element of one meets several of the other.",
                UserWarning,
            )
        out = formula(x - y)
        if weight is None:
            return _reduced(out, reduction)
        if weight.shape != x.shape:
            raise ValueError(f"weight must have input's shape {tuple(x.shape)}, got {tuple(weight.shape)}.")
        return _reduced(out * weight, reduction, weight.sum() if by_weight else None)

    return _of_leaves(loss, reduction, input, target)


def cross_entropy(
    input: Any,
    target: Any,
    weight: Array | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """Minus the log-probs that scores give to classes.

    Args:
        input: scores of C classes, (C,) or (N, C, *d); or a TensorDict.
        target: ids of classes, integers () or (N, *d); or probabilities, floats of the shape of `input`.
        weight: a factor for each class, (C,). With ids, a mean is divided by the sum of those that occur.
        ignore_index: an id that does not count.
        reduction: "mean", "sum" or "none".
        label_smoothing: how much of the target is spread evenly over all classes, from 0 to 1.

    Raises:
        ValueError: shapes that do not fit, or `label_smoothing` out of range.
        IndexError: ids out of range.

    Source:
        torch.nn.functional.cross_entropy.

    Example:
        >>> import numpy as np
        >>> from lite.nn import functional as F
        >>> scores = np.log(np.array([[0.25, 0.75], [0.5, 0.5]]))
        >>> F.cross_entropy(scores, np.array([1, 0]), reduction="none").round(4)
        array([0.2877, 0.6931])
        >>> float(F.cross_entropy(scores, np.array([[0.0, 1.0], [0.5, 0.5]])).round(4))
        0.4904
    """
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"label_smoothing must be from 0 to 1, got {label_smoothing}.")

    def loss(scores: Array, wanted: Array) -> Array:
        axis = _class_axis(scores)
        log_probs = activations.LogSoftmax(axis).forward(scores)
        factors = None if weight is None else _along(weight, log_probs, axis)
        spread = label_smoothing / max(scores.shape[axis], 1)
        weighted = log_probs if factors is None else log_probs * factors
        if wanted.dtype.kind in "iub":
            picked, counted = _picked(log_probs, wanted, weight, ignore_index, axis)
            if label_smoothing:
                even = np.where(wanted != ignore_index, -weighted.sum(axis), scores.dtype.type(0))
                picked = (1 - label_smoothing) * picked + spread * even
            return _reduced(picked, reduction, counted.sum())
        if wanted.shape != scores.shape:
            raise ValueError(
                f"probabilities of classes must have the shape of input {tuple(scores.shape)}, got "
                f"{tuple(wanted.shape)}; ids of classes are integers."
            )
        if label_smoothing:
            wanted = wanted * (1 - label_smoothing) + spread
        return _reduced(-(weighted * wanted).sum(axis), reduction)

    return _of_leaves(loss, reduction, input, target)


def nll_loss(
    input: Any, target: Any, weight: Array | None = None, *, ignore_index: int = -100, reduction: str = "mean"
) -> Any:
    """Minus the log-probs of classes, as `cross_entropy` of ids, from log-probs instead of scores.

    Source:
        torch.nn.functional.nll_loss.

    Example:
        >>> import numpy as np
        >>> from lite.nn import functional as F
        >>> log_probs = np.log(np.array([[0.25, 0.75], [0.5, 0.5]]))
        >>> F.nll_loss(log_probs, np.array([1, -100]), reduction="none").round(4)
        array([0.2877, 0.    ])
    """

    def loss(log_probs: Array, ids: Array) -> Array:
        picked, counted = _picked(log_probs, ids, weight, ignore_index, _class_axis(log_probs))
        return _reduced(picked, reduction, counted.sum())

    return _of_leaves(loss, reduction, input, target)


def _class_axis(scores: Array) -> int:
    if not scores.ndim:
        raise ValueError("input must have a dimension of classes, got an array without dimensions.")
    return min(scores.ndim - 1, 1)


def _along(weight: Array, scores: Array, axis: int) -> Array:
    """Factors of classes, to be multiplied with scores."""
    if weight.shape != (scores.shape[axis],):
        raise ValueError(f"weight must have the shape ({scores.shape[axis]},), got {tuple(weight.shape)}.")
    return weight.reshape(-1, *(1,) * (scores.ndim - axis - 1))


def _picked(
    log_probs: Array, ids: Array, weight: Array | None, ignore_index: int, axis: int
) -> tuple[Any, Any]:
    """Minus the log-probs at ids, times their factors; and these, 0 where the id does not count."""
    classes, lead = log_probs.shape[axis], (*log_probs.shape[:axis], *log_probs.shape[axis + 1 :])
    if ids.shape != lead or ids.dtype.kind not in "iub":
        raise ValueError(
            f"ids of classes must be integers of the shape {tuple(lead)}, got {ids.dtype} of "
            f"{tuple(ids.shape)}."
        )
    counts = ids != ignore_index
    ids = np.where(counts, ids, 0)
    require_ids(ids, classes, "target")
    picked = np.take_along_axis(log_probs, np.expand_dims(ids, axis), axis).squeeze(axis)
    none = log_probs.dtype.type(0)
    picked = np.where(counts, -picked, none)
    if weight is None:
        return picked, counts
    _along(weight, log_probs, axis)
    factors = np.where(counts, weight[ids], none)
    return picked * factors, factors


def binary_cross_entropy(
    input: Any, target: Any, weight: Array | None = None, *, reduction: str = "mean"
) -> Any:
    """Minus the log-probs of yes and no, which `target` has in parts, by probabilities of yes.

    Args:
        input: array or TensorDict of probabilities. Their logarithms count as -100 at least.
        target: the same, of the same shapes: 1 is yes, 0 is no.
        weight: a factor of each element, to be broadcast.
        reduction: "mean", "sum" or "none".

    Raises:
        ValueError: shapes that differ, or numbers of `input` outside of 0 to 1.

    Source:
        torch.nn.functional.binary_cross_entropy.

    Example:
        >>> import numpy as np
        >>> from lite.nn import functional as F
        >>> F.binary_cross_entropy(np.array([0.25, 0.0]), np.array([1.0, 1.0]), reduction="none").round(4)
        array([  1.3863, 100.    ])
    """

    def loss(p: Array, y: Array) -> Array:
        _require_one_shape(p, y)
        if type(p) is np.ndarray and not ((p >= 0) & (p <= 1)).all():
            raise ValueError(f"input must be from 0 to 1, got {p[~((p >= 0) & (p <= 1))].flat[0]}.")
        out = _entropy_of(p, y)
        return _reduced(out if weight is None else out * weight, reduction)

    return _of_leaves(loss, reduction, input, target)


def _entropy_of(p: Array, y: Array) -> Array:
    if isinstance(p, HostArray) and is_traced(p, y):
        a, b = value_of(p), value_of(y)
        return with_node(
            _entropy_of(a, b),
            (p, lambda g: g * (a - b) / np.maximum(a * (1 - a), 1e-12)),
            (y, lambda g: g * (np.log(1 - a) - np.log(a))),
        )
    with np.errstate(divide="ignore"):
        return -(y * np.maximum(np.log(p), -100) + (1 - y) * np.maximum(np.log(1 - p), -100))


def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Array | None = None,
    *,
    reduction: str = "mean",
    pos_weight: Array | None = None,
) -> Any:
    """`binary_cross_entropy` of the sigmoid of scores, without its rounding.

    Args:
        input: array or TensorDict of scores.
        target: the same, of the same shapes: 1 is yes, 0 is no.
        weight: a factor of each element, to be broadcast.
        reduction: "mean", "sum" or "none".
        pos_weight: a factor of the part that is yes, to be broadcast.

    Raises:
        ValueError: shapes that differ.

    Source:
        torch.nn.functional.binary_cross_entropy_with_logits.

    Example:
        >>> import numpy as np
        >>> from lite.nn import functional as F
        >>> F.binary_cross_entropy_with_logits(np.array([0.0, 200.0]), np.zeros(2), reduction="none").round(4)
        array([  0.6931, 200.    ])
    """

    def loss(x: Array, y: Array) -> Array:
        _require_one_shape(x, y)
        minus_log = pointwise(formulas.softplus, -x, None, lambda x, out: formulas.sigmoid(x))
        out = (1 - y) * x + (minus_log if pos_weight is None else ((pos_weight - 1) * y + 1) * minus_log)
        return _reduced(out if weight is None else out * weight, reduction)

    return _of_leaves(loss, reduction, input, target)


def _require_one_shape(x: Array, y: Array) -> None:
    if x.shape != y.shape:
        raise ValueError(f"target must have the shape of input {tuple(x.shape)}, got {tuple(y.shape)}.")


def kl_div(input: Any, target: Any, *, reduction: str = "mean", log_target: bool = False) -> Any:
    """The divergence of `input` from `target`: target (log target - input), element by element.

    Args:
        input: array or TensorDict of log-probs.
        target: the same, of probabilities.
        reduction: "mean", "sum", "none", or "batchmean", the sum divided by the first dimension: the mean of
            divergences of distributions, which "mean" is not.
        log_target: whether `target` has log-probs, too.

    Source:
        torch.nn.functional.kl_div.

    Example:
        >>> import numpy as np
        >>> from lite.nn import functional as F
        >>> p, q = np.array([[0.5, 0.5]]), np.array([[0.25, 0.75]])
        >>> float(F.kl_div(np.log(q), p, reduction="batchmean").round(4))
        0.1438
    """

    def loss(x: Array, y: Array) -> Array:
        if log_target:
            out = np.exp(y) * (y - x)
        else:
            out = y * np.log(np.where(y == 0, y.dtype.type(1), y)) - y * x
        if reduction == "batchmean":
            return out.sum() / max(x.shape[0] if x.ndim else 1, 1)
        return _reduced(out, reduction)

    return _of_leaves(loss, reduction, input, target, allowed=("mean", "sum", "none", "batchmean"))


def gaussian_nll_loss(
    input: Any, target: Any, var: Any, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Any:
    """Minus the log-density of `target` under normal distributions, without its constant.

    Args:
        input: array or TensorDict of means.
        target: the same.
        var: the same, of variances; a number, or an array that lacks the last dimension or has 1 there.
        full: add the constant, log(2 pi) / 2.
        eps: the least variance that is computed with; derivatives by `var` are as if it were not.
        reduction: "mean", "sum" or "none".

    Raises:
        ValueError: a variance is negative.

    Source:
        torch.nn.functional.gaussian_nll_loss.

    Example:
        >>> import numpy as np
        >>> from lite.nn import functional as F
        >>> float(F.gaussian_nll_loss(np.zeros(2), np.array([1.0, 2.0]), np.ones(2)))
        1.25
    """

    def loss(mean: Array, y: Array, var: Array | float = var) -> Array:
        var = as_array(computed(var)) if hasattr(var, "dtype") else np.asarray(var, mean.dtype)
        if type(var) is np.ndarray and (var < 0).any():
            raise ValueError(f"var must not be negative, got {var[var < 0].flat[0]}.")
        if var.ndim and var.shape == mean.shape[:-1]:
            var = var[..., None]
        lacks = np.maximum(var, eps) - var
        var = var + (lacks.detach() if isinstance(lacks, HostArray) else lacks)
        difference = mean - y
        out = 0.5 * (np.log(var) + difference * difference / var)
        return _reduced(out + _HALF_LOG_2PI if full else out, reduction)

    others = (var,) if isinstance(var, TensorCollection) else ()
    return _of_leaves(loss, reduction, input, target, *others)


def poisson_nll_loss(
    input: Any,
    target: Any,
    *,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Any:
    """Minus the log-probs of counts under Poisson distributions, without the term of the target alone.

    Args:
        input: array or TensorDict of rates, or of their logarithms.
        target: the same, of counts.
        log_input: whether `input` has logarithms.
        full: add Stirling's approximation of that term, for counts above 1.
        eps: added to rates whose logarithm is taken.
        reduction: "mean", "sum" or "none".

    Source:
        torch.nn.functional.poisson_nll_loss.

    Example:
        >>> import numpy as np
        >>> from lite.nn import functional as F
        >>> float(F.poisson_nll_loss(np.log(np.array([2.0])), np.array([3.0])).round(4))
        -0.0794
    """

    def loss(x: Array, y: Array) -> Array:
        out = np.exp(x) - y * x if log_input else x - y * np.log(x + eps)
        if full:
            many = np.where(y > 1, y, 1)
            rest = many * np.log(many) - many + 0.5 * np.log(many) + _HALF_LOG_2PI
            out = out + np.where(y > 1, rest, 0)
        return _reduced(out, reduction)

    return _of_leaves(loss, reduction, input, target)


def _reduced(loss: Array, reduction: str, counted: Array | float | None = None) -> Array:
    """A loss, or one number of it; a mean is divided by `counted`, if that is given. NaN for none."""
    if reduction == "none":
        return loss
    if reduction == "sum":
        return loss.sum()
    with np.errstate(invalid="ignore", divide="ignore"):
        if counted is None:
            return loss.mean() if loss.size else loss.sum() * math.nan
        return (loss.sum() / counted).astype(loss.dtype)


def _of_leaves(
    fn: Callable[..., Any], reduction: str, *items: Any, allowed: tuple[str, ...] = ("mean", "sum", "none")
) -> Any:
    """`fn` of arrays; for TensorDicts, `fn` of the arrays under each key."""
    if reduction not in allowed:
        raise ValueError(f"reduction must be one of {allowed}, got {reduction!r}.")

    def of_arrays(*leaves: Array) -> Array:
        return unwrap(fn(*[as_array(wrap(computed(leaf))) for leaf in leaves]))

    first = items[0]
    if isinstance(first, TensorCollection):
        collection: Any = first
        return collection.apply(of_arrays, *items[1:], batch_size=None if reduction == "none" else ())
    return of_arrays(*items)


# -- activations -------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def _layer(kind: Any, *args: Any) -> Any:
    """A layer, which has nothing but its arguments."""
    return kind(*args)


def _activation(input: Any, kind: Any, *args: Any) -> Any:
    return _of_leaves(_layer(kind, *args).forward, "none", input)


def relu(input: Any, inplace: bool = False) -> Any:
    """max(x, 0) of an array or of the arrays of a TensorDict; see `lite.nn.ReLU`.

    Source:
        torch.nn.functional.relu.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.nn import functional as F
        >>> F.relu(TensorDict(a=np.array([-1.0, 2.0])))["a"]
        array([0., 2.])
    """
    return _activation(input, activations.ReLU, inplace)


def tanh(input: Any) -> Any:
    """The hyperbolic tangent; see `lite.nn.Tanh`.

    Source:
        torch.nn.functional.tanh.
    """
    return _activation(input, activations.Tanh)


def sigmoid(input: Any) -> Any:
    """1 / (1 + exp(-x)); see `lite.nn.Sigmoid`.

    Source:
        torch.nn.functional.sigmoid.
    """
    return _activation(input, activations.Sigmoid)


def silu(input: Any, inplace: bool = False) -> Any:
    """x / (1 + exp(-x)); see `lite.nn.SiLU`.

    Source:
        torch.nn.functional.silu.
    """
    return _activation(input, activations.SiLU, inplace)


def mish(input: Any, inplace: bool = False) -> Any:
    """x times tanh(log(1 + exp(x))); see `lite.nn.Mish`.

    Source:
        torch.nn.functional.mish.
    """
    return _activation(input, activations.Mish, inplace)


def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """x where it is positive, else `negative_slope` times x; see `lite.nn.LeakyReLU`.

    Source:
        torch.nn.functional.leaky_relu.
    """
    return _activation(input, activations.LeakyReLU, negative_slope, inplace)


def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """x where it is positive, else `alpha` (exp(x) - 1); see `lite.nn.ELU`.

    Source:
        torch.nn.functional.elu.
    """
    return _activation(input, activations.ELU, alpha, inplace)


def softplus(input: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """log(1 + exp(beta x)) / beta; see `lite.nn.Softplus`.

    Source:
        torch.nn.functional.softplus.
    """
    return _activation(input, activations.Softplus, beta, threshold)


def gelu(input: Any, approximate: str = "none") -> Any:
    """x times the probability that a standard normal number is below x; see `lite.nn.GELU`.

    Source:
        torch.nn.functional.gelu.
    """
    return _activation(input, activations.GELU, approximate)


def softmax(input: Any, dim: int | None = None, *, dtype: DTypeLike | None = None) -> Any:
    """exp(x) / sum(exp(x)) along a dimension of each array; see `lite.nn.Softmax`.

    Args:
        input: array or TensorDict.
        dim: the dimension, of the arrays, not of a TensorDict's batch.
        dtype: what arrays are cast to before.

    Source:
        torch.nn.functional.softmax.
    """
    return _along_dim(input, activations.Softmax, dim, dtype)


def log_softmax(input: Any, dim: int | None = None, *, dtype: DTypeLike | None = None) -> Any:
    """x - log(sum(exp(x))) along a dimension of each array; see `softmax` and `lite.nn.LogSoftmax`.

    Source:
        torch.nn.functional.log_softmax.
    """
    return _along_dim(input, activations.LogSoftmax, dim, dtype)


def _along_dim(input: Any, kind: Any, dim: int | None, dtype: DTypeLike | None) -> Any:
    forward = _layer(kind, dim).forward
    if dtype is None:
        return _of_leaves(forward, "none", input)
    wanted = as_dtype(dtype)
    return _of_leaves(lambda x: forward(x.astype(wanted)), "none", input)


def one_hot(tensor: Any, num_classes: int = -1) -> Any:
    """A last dimension of `num_classes` integers: 1 at the number that was there, else 0.

    Args:
        tensor: array of integers, or a TensorDict of these.
        num_classes: above the largest number; by default by one. Arrays of `lite.jit` need it.

    Raises:
        TypeError: numbers that are not integers.
        ValueError: numbers below 0 or from `num_classes` on; no numbers and no `num_classes`.

    Source:
        torch.nn.functional.one_hot.

    Example:
        >>> import numpy as np
        >>> from lite.nn import functional as F
        >>> F.one_hot(np.array([0, 2]))
        array([[1, 0, 0],
               [0, 0, 1]])
    """

    def of(ids: Array) -> Array:
        if ids.dtype.kind not in "iu":
            raise TypeError(f"tensor must be of integers, got {ids.dtype}.")
        if num_classes == -1 and not ids.size:
            raise ValueError("num_classes must be given for a tensor without elements.")
        count = num_classes if num_classes != -1 else int(ids.max()) + 1
        if type(ids) is np.ndarray and not ((ids >= 0) & (ids < count)).all():
            got = f"{ids.min()} to {ids.max()}"
            raise ValueError(f"tensor must be from 0 on and below num_classes={count}, got {got}.")
        return (ids[..., None] == np.arange(count)).astype(np.int64)

    return _of_leaves(of, "none", tensor)


def normalize(input: Any, p: float = 2.0, dim: int | tuple[int, ...] = 1, eps: float = 1e-12) -> Any:
    """Vectors of length 1 along a dimension: each is divided by its norm, or by `eps` if that is greater.

    Args:
        input: array or TensorDict.
        p: order of the norm.
        dim: the dimension, or several whose numbers are one vector, of the arrays.
        eps: the least divisor.

    Source:
        torch.nn.functional.normalize.

    Example:
        >>> import numpy as np
        >>> from lite.nn import functional as F
        >>> F.normalize(np.array([3.0, 4.0]), dim=0)
        array([0.6, 0.8])
    """

    def of(x: Array) -> Any:
        x, dtype = floats(x)
        norm = np.linalg.vector_norm(x, axis=dim, keepdims=True, ord=p)
        return (x / np.maximum(norm, eps)).astype(dtype, copy=False)

    return _of_leaves(of, "none", input)


__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "elu", "gaussian_nll_loss",
    "gelu", "huber_loss", "kl_div", "l1_loss", "leaky_relu", "linear_log_probs", "log_softmax", "mish",
    "mse_loss", "nll_loss", "normalize", "one_hot", "poisson_nll_loss", "relu", "sigmoid", "silu",
    "smooth_l1_loss", "softmax", "softplus", "tanh"
]  # fmt: skip


if not TYPE_CHECKING:  # which would take any name for one that is there

    def __getattr__(name: str) -> Any:
        raise AttributeError(
            f"module 'lite.nn.functional' has no attribute {name!r}: it has losses, activations, "
            "normalize and one_hot; all else is a layer of lite.nn, or a formula of NumPy's functions"
        )
