"""Operators that compute each number by itself: arithmetic, comparisons, functions, activations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from lite._arrays import formulas
from lite._arrays.types import Array
from lite.nn import functional
from lite.nn._import.operators import MICROSOFT, Run, Spec, Unsupported, operator, rule_of, simple
from lite.nn.layers.activations import ReLU, Sigmoid, gelu


def is_sizes(x: Any) -> bool:
    """Whether an array holds sizes of a graph that is being traced, instead of numbers or texts."""
    return isinstance(x, np.ndarray) and x.dtype == object and x.size > 0 and type(x.flat[0]) is not str


# -- arithmetic --------------------------------------------------------------------------------------------


def _divide(a: Array, b: Array) -> Array:
    """The quotient; of integers the part before the point, as in C."""
    if a.dtype.kind not in "iu":
        return a // b if is_sizes(a) or is_sizes(b) else np.divide(a, b)
    down = np.floor_divide(a, b)
    if a.dtype.kind == "u":
        return down
    return down + ((down < 0) & (down * b != a)).astype(a.dtype)


def _power(base: Array, exponent: Array) -> Array:
    if isinstance(exponent, np.ndarray | np.generic) and exponent.size == 1 and base.dtype.kind == "f":
        short = _POWERS.get(exponent.item())
        if short is not None and exponent.ndim <= base.ndim:
            return short(base)
    if base.dtype.kind in "iu" and exponent.dtype.kind == "i":  # of negative exponents NumPy has none
        return np.power(base.astype(np.float64), exponent.astype(np.float64)).astype(base.dtype)
    return np.power(base, exponent).astype(base.dtype, copy=False)


_POWERS: dict[float, Callable[[Array], Array]] = {
    0.5: np.sqrt,
    1.0: lambda x: x,
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
}


def _folded(function: Callable[[Any, Any], Any]) -> Run:
    """A function of any number of arrays."""
    return lambda *arrays: functools.reduce(function, arrays)


def _mean(*arrays: Array) -> Array:
    return _folded(np.add)(*arrays) / np.asarray(len(arrays), arrays[0].dtype)


simple(np.add, "Add")
simple(np.subtract, "Sub")
simple(np.multiply, "Mul")
simple(_divide, "Div")
simple(_power, "Pow")
simple(_folded(np.maximum), "Max")
simple(_folded(np.minimum), "Min")
simple(_folded(np.add), "Sum")
simple(_mean, "Mean")
simple(np.logical_and, "And")
simple(np.logical_or, "Or")
simple(np.logical_xor, "Xor")
simple(np.logical_not, "Not")
simple(np.equal, "Equal")
simple(np.greater, "Greater")
simple(np.greater_equal, "GreaterOrEqual")
simple(np.less, "Less")
simple(np.less_equal, "LessOrEqual")
simple(np.bitwise_and, "BitwiseAnd")
simple(np.bitwise_or, "BitwiseOr")
simple(np.bitwise_xor, "BitwiseXor")
simple(np.invert, "BitwiseNot")


@operator("Mod")
def _mod(spec: Spec) -> Run:
    return np.fmod if spec.get("fmod", 0) else np.mod


@operator("BitShift")
def _bit_shift(spec: Spec) -> Run:
    return np.left_shift if spec.get("direction") == "LEFT" else np.right_shift


# -- functions ---------------------------------------------------------------------------------------------

simple(np.abs, "Abs")
simple(np.negative, "Neg")
simple(np.sign, "Sign")
simple(np.floor, "Floor")
simple(np.ceil, "Ceil")
simple(np.round, "Round")
simple(np.sqrt, "Sqrt")
simple(np.exp, "Exp")
simple(np.log, "Log")
simple(np.sin, "Sin")
simple(np.cos, "Cos")
simple(np.tan, "Tan")
simple(np.arcsin, "Asin")
simple(np.arccos, "Acos")
simple(np.arctan, "Atan")
simple(np.sinh, "Sinh")
simple(np.cosh, "Cosh")
simple(np.arcsinh, "Asinh")
simple(np.arccosh, "Acosh")
simple(np.arctanh, "Atanh")
simple(np.isnan, "IsNaN")
simple(lambda x: x, "Identity")
simple(lambda x: 1 / x, "Reciprocal")
simple(formulas.of_numbers(formulas.erf), "Erf")


@operator("IsInf")
def _is_inf(spec: Spec) -> Run:
    above, below = spec.get("detect_positive", 1), spec.get("detect_negative", 1)
    return lambda x: ((x == np.inf) & bool(above)) | ((x == -np.inf) & bool(below))


def _where(condition: Array, a: Array, b: Array) -> Array:
    if is_sizes(a) or is_sizes(b):
        return np.where(np.asarray(condition, bool), a, b)
    return np.where(condition, a, b)


simple(_where, "Where")


@operator("Clip")
def _clip(spec: Spec) -> Run:
    least, most = spec.get("min"), spec.get("max")  # attributes before version 11

    def run(x: Array, low: Any = None, high: Any = None) -> Array:
        low, high = least if low is None else low, most if high is None else high
        if low is not None:
            x = np.maximum(x, low)
        if high is not None:
            x = np.minimum(x, high)
        return x

    return run


@operator("Cast")
def _cast(spec: Spec) -> Run:
    target = spec.dtype(spec.get("to"))
    return lambda x: cast(x, target)


@operator("CastLike")
def _cast_like(spec: Spec) -> Run:
    return lambda x, like: cast(x, like.dtype)


@operator("BitCast")
def _bit_cast(spec: Spec) -> Run:
    target = spec.dtype(spec.get("to"))
    return lambda x: np.ascontiguousarray(x).view(target).reshape(x.shape)


def cast(x: Any, target: np.dtype[Any]) -> Any:
    """An array in another dtype; sizes of a trace stay what they are, as integers."""
    if is_sizes(x):
        if target.kind in "iu":
            return x
        if x.size == 1 and target.kind == "f":
            return x.reshape(()).item() if not x.ndim else x.reshape(()).item() * np.ones(x.shape, target)
    if x.dtype == target:
        return x
    if target.kind == "O":
        raise NotImplementedError(f"Cast of {x.dtype} to texts")
    if target.kind in "iu" and x.dtype.kind == "f" and isinstance(x, np.ndarray):
        with np.errstate(invalid="ignore"):
            return x.astype(target)
    return x.astype(target)


@operator("Dropout")
def _dropout(spec: Spec) -> Run:
    masked = spec.uses_output(1)

    def run(x: Array, ratio: Any = None, training: Any = None) -> Any:
        if training is not None and bool(training) and (ratio is None or float(ratio) > 0):
            raise NotImplementedError("Dropout in training mode: export the model in evaluation mode")
        return (x, np.ones_like(x, dtype=np.bool_)) if masked else x

    return run


# -- activations -------------------------------------------------------------------------------------------

simple(ReLU().forward, "Relu")
simple(np.tanh, "Tanh")
simple(Sigmoid().forward, "Sigmoid")
simple(functional.softplus, "Softplus")
simple(lambda x: x / (1 + np.abs(x)), "Softsign")
simple(functional.mish, "Mish")
simple(lambda x: x * np.clip(x / 6 + np.asarray(0.5, x.dtype), 0, 1), "HardSwish")
simple(lambda x, slope: np.where(x < 0, x * slope, x), "PRelu")


def _of_alpha(function: Callable[..., Array], kind: str, alpha: float, domain: str = "") -> None:
    """An operator of arrays and a number, its attribute alpha; `alpha` is what it is unless given."""

    @operator(kind, domain=domain)
    def read(spec: Spec) -> Run:
        given = spec.get("alpha", alpha)
        return lambda *arrays: function(*arrays, given)


def _celu(x: Array, alpha: float) -> Array:
    return np.maximum(x, 0) + alpha * np.expm1(np.minimum(x, 0) / alpha)


def _swish(x: Array, alpha: float) -> Array:
    return functional.silu(x) if alpha == 1.0 else x * functional.sigmoid(x * alpha)


_of_alpha(functional.leaky_relu, "LeakyRelu", 0.01)
_of_alpha(functional.elu, "Elu", 1.0)
_of_alpha(_celu, "Celu", 1.0)
_of_alpha(_swish, "Swish", 1.0)
_of_alpha(_swish, "QuickGelu", 1.702, MICROSOFT)
_of_alpha(lambda a, b, alpha: a * functional.sigmoid(a * alpha) * b, "SwiGLU", 1.0)
_of_alpha(lambda x, alpha: np.where(x > alpha, x, 0).astype(x.dtype, copy=False), "ThresholdedRelu", 1.0)


@operator("Selu")
def _selu(spec: Spec) -> Run:
    alpha, gamma = spec.get("alpha", 1.6732632423543772), spec.get("gamma", 1.0507009873554805)
    return lambda x: gamma * functional.elu(x, alpha)


@operator("HardSigmoid")
def _hard_sigmoid(spec: Spec) -> Run:
    alpha, beta = spec.get("alpha", 0.2), spec.get("beta", 0.5)
    return lambda x: np.clip(x * alpha + beta, 0, 1)


@operator("Shrink")
def _shrink(spec: Spec) -> Run:
    limit, bias = spec.get("lambd", 0.5), spec.get("bias", 0.0)

    def run(x: Array) -> Array:
        shrunk = np.where(x < -limit, x + bias, np.where(x > limit, x - bias, 0))
        return shrunk.astype(x.dtype, copy=False)

    return run


@operator("Gelu")
def _gelu(spec: Spec) -> Run:
    approximate = spec.get("approximate", "none")
    return lambda x: gelu(x, approximate)


@operator("FastGelu", domain=MICROSOFT)
def _fast_gelu(spec: Spec) -> Run:
    return lambda x, bias=None: gelu(x if bias is None else x + bias, "tanh")


simple(lambda x, bias: gelu(x + bias), "BiasGelu", domain=MICROSOFT)
simple(gelu, "Gelu", domain=MICROSOFT)


# Activations that are attributes of other nodes, by their names in lower case, which have other cases there.
_NAMED = {
    name.lower(): name
    for name in ("Elu", "HardSigmoid", "LeakyRelu", "Relu", "Sigmoid", "Softplus", "Softsign", "Tanh")
}


def activation(name: str, alpha: float | None = None, beta: float | None = None) -> Callable[[Array], Array]:
    """The activation that an attribute of another node names, with its numbers as far as they are given.

    Raises:
        Unsupported: another name.
    """
    kind = name.lower()
    if kind == "affine":
        return lambda x: x * (1.0 if alpha is None else alpha) + (0.0 if beta is None else beta)
    if kind == "clip":
        return lambda x: np.clip(x, alpha, beta)
    build = rule_of("", _NAMED.get(kind, ""))
    if build is None:
        raise Unsupported(f"the activation {name!r}")
    given = {key: number for key, number in (("alpha", alpha), ("beta", beta)) if number is not None}
    return build(Spec(_NAMED[kind], "", name, 0, given, (True,), (True,)))


# -- losses ------------------------------------------------------------------------------------------------


def _reduced(loss: Array, weights: Array | None, how: str) -> Array:
    if how == "none":
        return loss
    if how == "sum":
        return loss.sum()
    return loss.mean() if weights is None else loss.sum() / weights.sum()


def _negative_log_likelihood(spec: Spec, log_probs: Array, target: Array, weight: Array | None) -> Array:
    ignored, how = spec.get("ignore_index"), spec.get("reduction", "mean")
    chosen = target if ignored is None else np.where(target == ignored, 0, target)
    picked = -np.take_along_axis(log_probs, np.expand_dims(chosen, 1), 1)
    picked = np.squeeze(picked, 1)
    weights = None
    if weight is not None or ignored is not None:
        weights = np.ones(chosen.shape, picked.dtype) if weight is None else weight[chosen]
        if ignored is not None:
            weights = np.where(target == ignored, 0, weights).astype(picked.dtype)
        picked = picked * weights
    return _reduced(picked, weights, how)


@operator("NegativeLogLikelihoodLoss")
def _nll_loss(spec: Spec) -> Run:
    return lambda x, target, weight=None: _negative_log_likelihood(spec, x, target, weight)


@operator("SoftmaxCrossEntropyLoss")
def _cross_entropy(spec: Spec) -> Run:
    both = spec.uses_output(1)

    def run(scores: Array, target: Array, weight: Array | None = None) -> Any:
        log_probs = functional.log_softmax(scores, 1)
        loss = _negative_log_likelihood(spec, log_probs, target, weight)
        return (loss, log_probs) if both else loss

    return run
