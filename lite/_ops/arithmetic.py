"""Pointwise methods of several operands, matrix products, and NumPy's ufunc protocol."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from lite._arrays import formulas
from lite._arrays.formulas import Pointwise, for_bools, swapped
from lite._ops.elementwise import elementwise
from lite._ops.elementwise_inplace import elementwise_
from lite._ops.operands import Const
from lite._ops.pointwise import required
from lite._tree.protocol import MISSING, Container, T
from lite._tree.values import fit_leaf


def rsub(td: T, other: Any, *, alpha: Any = None, default: Any = None) -> T:
    """`alpha * other - self`, with `alpha` 1 unless given.

    Args:
        other: a number; an array, broadcast against the batch size; a TensorDict or mapping,
            matched by key.
        alpha: factor of `other`.
        default: value of leaves that one side lacks, or "intersection" to leave them out.

    Example:
        >>> from lite import TensorDict
        >>> TensorDict(a=1.0).rsub(5.0, alpha=2)["a"]
        array(9., dtype=float32)
    """
    fn = swapped(np.subtract) if alpha is None else lambda a, b: alpha * b - a
    out = elementwise(td, fn, (other,), MISSING if default is None else default)
    return required(out, "rsub", other)


def lerp(td: T, end: Any, weight: Any) -> T:
    """`self + weight * (end - self)`; TensorDict operands are matched by key.

    Example:
        >>> from lite import TensorDict
        >>> TensorDict(a=0.0).lerp(TensorDict(a=10.0), 0.25)["a"]
        array(2.5, dtype=float32)
    """
    return required(elementwise(td, formulas.lerp, (end, weight)), "lerp", end, weight)


def lerp_(td: T, end: Any, weight: Any) -> T:
    """`lerp` in place; returns self."""
    return required(elementwise_(td, formulas.lerp, (end, weight)), "lerp_", end, weight)


def addcmul(td: T, other1: Any, other2: Any, *, value: Any = 1) -> T:
    """`self + value * other1 * other2`; TensorDict operands are matched by key."""
    out = elementwise(td, _addcmul(value), (other1, other2))
    return required(out, "addcmul", other1, other2)


def addcmul_(td: T, other1: Any, other2: Any, *, value: Any = 1) -> T:
    """`addcmul` in place; returns self."""
    out = elementwise_(td, _addcmul(value), (other1, other2))
    return required(out, "addcmul_", other1, other2)


def addcdiv(td: T, other1: Any, other2: Any, value: Any = 1) -> T:
    """`self + value * other1 / other2`; TensorDict operands are matched by key."""
    out = elementwise(td, _addcdiv(value), (other1, other2))
    return required(out, "addcdiv", other1, other2)


def addcdiv_(td: T, other1: Any, other2: Any, *, value: Any = 1) -> T:
    """`addcdiv` in place; returns self."""
    out = elementwise_(td, _addcdiv(value), (other1, other2))
    return required(out, "addcdiv_", other1, other2)


def clamp(td: Container, min: Any = None, max: Any = None, *, out: Any = None) -> Any:
    """Limit every array to `[min, max]`; either bound may be missing, a number or a TensorDict.

    Args:
        min: lower bound, or None.
        max: upper bound, or None.
        out: TensorDict whose arrays receive the result, and which is returned.

    Raises:
        ValueError: both bounds are None.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> TensorDict(a=np.arange(5)).clamp(1, 3)["a"]
        array([1, 1, 2, 3, 3])
    """
    fn, bounds = _clamp(min, max)
    result = required(elementwise(td, fn, bounds), "clamp", *bounds)
    return result if out is None else out.update_(result)


def clamp_(td: T, min: Any = None, max: Any = None) -> T:
    """`clamp` in place; returns self."""
    fn, bounds = _clamp(min, max)
    return required(elementwise_(td, fn, bounds), "clamp_", *bounds)


def clip(td: Container, min: Any = None, max: Any = None, out: Any = None) -> Any:
    """Same as `clamp`."""
    return td.clamp(min, max, out=out)


def divmod(td: Container, other: Any) -> Any:
    quotient = elementwise(td, np.floor_divide, (other,))
    return NotImplemented if quotient is NotImplemented else (quotient, td % other)


def rdivmod(td: Container, other: Any) -> Any:
    quotient = elementwise(td, swapped(np.floor_divide), (other,))
    return NotImplemented if quotient is NotImplemented else (quotient, other % td)


def matmul(td: Container, other: Any) -> Any:
    return _matmul(td, np.matmul, other)


def rmatmul(td: Container, other: Any) -> Any:
    return _matmul(td, swapped(np.matmul), other)


def _matmul(td: Container, fn: Pointwise, other: Any) -> Any:
    """Matrix product per leaf; an array operand multiplies the features of every leaf as it is."""
    if isinstance(other, np.ndarray):
        other = Const(other)
    size = td.batch_size

    def product(a: Any, b: Any) -> Any:
        out = np.asarray(fn(a, b))
        fit_leaf(out, size)
        return out

    return elementwise(td, product, (other,))


def array_ufunc(td: Container, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """`np.exp(td)`, `np.add(array, td)`, `np.add(td, td, out=td)`: the ufunc on every leaf."""
    out = kwargs.pop("out", None)
    if method != "__call__" or kwargs.keys() - {"dtype", "casting"}:
        return NotImplemented
    at = next((i for i, x in enumerate(inputs) if isinstance(x, Container)), None)
    if at is None:  # only `out` is a TensorDict
        return NotImplemented
    if ufunc is np.matmul:
        left, right = inputs
        result = left @ right if at == 0 else right.__rmatmul__(left)
        return result if out is None else out[0].update_(result)
    fn = _placed(ufunc, at, kwargs)
    others = [x for i, x in enumerate(inputs) if i != at]
    if out is not None and ufunc.nout == 1 and at == 0 and out[0] is inputs[0]:
        return elementwise_(td, fn, others)
    if ufunc.nout == 1:
        result = elementwise(inputs[at], fn, others)
    else:
        result = tuple(elementwise(inputs[at], _output(fn, i), others) for i in range(ufunc.nout))
        result = NotImplemented if NotImplemented in [type(r) and r for r in result] else result
    if result is NotImplemented or out is None:
        return result
    results = result if isinstance(result, tuple) else (result,)
    written = tuple(target.update_(r) for target, r in zip(out, results, strict=True))
    return written if ufunc.nout > 1 else written[0]


def _placed(ufunc: np.ufunc, at: int, kwargs: dict[str, Any]) -> Pointwise:
    """The ufunc with the leaf in position `at`."""
    if at == 0:
        return partial(ufunc, **kwargs) if kwargs else ufunc
    fn = for_bools(ufunc) if not kwargs else ufunc

    def call(leaf: Any, *others: Any) -> Any:
        return fn(*others[:at], leaf, *others[at:], **kwargs)

    return call


def _output(fn: Pointwise, i: int) -> Pointwise:
    fn = for_bools(fn)
    return lambda *args: fn(*args)[i]


def _addcmul(value: Any) -> Pointwise:
    return lambda x, a, b: x + value * a * b


def _addcdiv(value: Any) -> Pointwise:
    return lambda x, a, b: x + value * a / b


def _clamp(low: Any, high: Any) -> tuple[Pointwise, tuple[Any, ...]]:
    if low is None and high is None:
        raise ValueError("clamp needs a bound, got min=None and max=None.")
    if high is None:
        return np.maximum, (low,)
    if low is None:
        return np.minimum, (high,)
    return np.clip, (low, high)
