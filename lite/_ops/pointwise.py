"""Arithmetic, comparisons and logic, element by element: one row per operation.

A row defines the method, its in-place form, and the operators with their reflections; the facade lists them
by name. `elementwise` computes all of them, and also NumPy's ufuncs, so `np.exp(td)` equals `td.exp()`.
Operations with other arguments are functions after the table.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from lite._arrays import formulas
from lite._arrays.formulas import Pointwise, for_bools, swapped
from lite._arrays.types import as_array, has_namespace
from lite._ops.elementwise import Objects, Whole, elementwise, elementwise_
from lite._ops.operands import Const
from lite._ops.out import write_out
from lite._tree.methods import ArgsMethod, SelfMethod, described
from lite._tree.numpy_protocol import implements_with
from lite._tree.protocol import MISSING, Container, T
from lite._tree.values import fit_leaf


class Op(NamedTuple):
    """One operation of the table.

    Attributes:
        fn: the function of arrays; if it is a ufunc, `fn(td)` is the operation, too.
        doc: the docstring of the method.
        operands: the number of arguments beside the array.
        inplace: whether there is an in-place method.
        symbol: the operator, if there is one.
        numpy: the NumPy function that it implements, if `fn` is not a ufunc.
    """

    fn: Pointwise
    doc: str
    operands: int = 0
    inplace: bool = True
    symbol: str = ""
    numpy: Callable[..., Any] | None = None


OPS: dict[str, Op] = {
    "abs": Op(np.absolute, "absolute value", symbol="abs "),
    "neg": Op(np.negative, "negative", symbol="-"),
    "exp": Op(np.exp, "e ** x"),
    "expm1": Op(np.expm1, "e ** x - 1"),
    "log": Op(np.log, "natural logarithm"),
    "log10": Op(np.log10, "logarithm to base 10"),
    "log1p": Op(np.log1p, "log(1 + x)"),
    "log2": Op(np.log2, "logarithm to base 2"),
    "sqrt": Op(np.sqrt, "square root"),
    "square": Op(np.square, "x * x"),
    "rsqrt": Op(formulas.rsqrt, "1 / sqrt(x)"),
    "reciprocal": Op(formulas.reciprocal, "1 / x"),
    "sigmoid": Op(formulas.of_numbers(formulas.sigmoid), "1 / (1 + e ** -x)"),
    "relu": Op(formulas.relu, "max(x, 0)"),
    "sign": Op(np.sign, "-1, 0 or 1"),
    "sin": Op(np.sin, "sine"),
    "cos": Op(np.cos, "cosine"),
    "tan": Op(np.tan, "tangent"),
    "sinh": Op(np.sinh, "hyperbolic sine"),
    "cosh": Op(np.cosh, "hyperbolic cosine"),
    "tanh": Op(np.tanh, "hyperbolic tangent"),
    "asin": Op(np.arcsin, "inverse sine"),
    "acos": Op(np.arccos, "inverse cosine"),
    "atan": Op(np.arctan, "inverse tangent"),
    "asinh": Op(np.arcsinh, "inverse hyperbolic sine"),
    "acosh": Op(np.arccosh, "inverse hyperbolic cosine"),
    "atanh": Op(np.arctanh, "inverse hyperbolic tangent"),
    "ceil": Op(np.ceil, "smallest integer not below x"),
    "floor": Op(np.floor, "largest integer not above x"),
    "round": Op(formulas.nearest, "nearest integer", numpy=np.round),
    "trunc": Op(np.trunc, "x without its fraction"),
    "frac": Op(formulas.frac, "x - trunc(x)"),
    "erf": Op(formulas.of_numbers(formulas.erf), "error function"),
    "erfc": Op(formulas.of_numbers(formulas.erfc, np.dtype(np.float64)), "1 - erf(x)"),
    "lgamma": Op(formulas.of_numbers(formulas.log_gamma, np.dtype(np.float64)), "log(|gamma(x)|)"),
    "logical_not": Op(np.logical_not, "not x"),
    "bitwise_not": Op(np.invert, "~x", symbol="~"),
    "positive": Op(np.positive, "x", inplace=False, symbol="+"),
    "isfinite": Op(np.isfinite, "whether neither infinite nor NaN", inplace=False),
    "isinf": Op(np.isinf, "whether infinite", inplace=False),
    "isnan": Op(np.isnan, "whether NaN", inplace=False),
    "isneginf": Op(np.isneginf, "whether -inf", inplace=False),
    "isposinf": Op(np.isposinf, "whether +inf", inplace=False),
    "isreal": Op(np.isreal, "whether without an imaginary part", inplace=False),
    "add": Op(np.add, "x + other", 1, symbol="+"),
    "sub": Op(np.subtract, "x - other", 1, symbol="-"),
    "mul": Op(np.multiply, "x * other", 1, symbol="*"),
    "div": Op(np.true_divide, "x / other", 1, symbol="/"),
    "floor_divide": Op(np.floor_divide, "x // other", 1, symbol="//"),
    "remainder": Op(np.remainder, "x % other", 1, symbol="%"),
    "mod": Op(np.remainder, "x % other", 1),
    "pow": Op(np.power, "x ** other", 1, symbol="**"),
    "maximum": Op(np.maximum, "the larger of x and other", 1),
    "minimum": Op(np.minimum, "the smaller of x and other", 1),
    "clamp_min": Op(np.maximum, "the larger of x and other", 1),
    "clamp_max": Op(np.minimum, "the smaller of x and other", 1),
    "clamp": Op(np.clip, "x within two bounds", 2, numpy=np.clip),
    "atan2": Op(np.arctan2, "angle of the point (other, x)", 1),
    "bitwise_and": Op(np.bitwise_and, "x & other", 1, symbol="&"),
    "bitwise_or": Op(np.bitwise_or, "x | other", 1, symbol="|"),
    "bitwise_xor": Op(np.bitwise_xor, "x ^ other", 1, symbol="^"),
    "logical_and": Op(np.logical_and, "x and other", 1),
    "logical_or": Op(np.logical_or, "x or other", 1),
    "logical_xor": Op(np.logical_xor, "whether one of both", 1),
    "eq": Op(np.equal, "x == other", 1, inplace=False, symbol="=="),
    "ne": Op(np.not_equal, "x != other", 1, inplace=False, symbol="!="),
    "lt": Op(np.less, "x < other", 1, inplace=False, symbol="<"),
    "le": Op(np.less_equal, "x <= other", 1, inplace=False, symbol="<="),
    "gt": Op(np.greater, "x > other", 1, inplace=False, symbol=">"),
    "ge": Op(np.greater_equal, "x >= other", 1, inplace=False, symbol=">="),
    "lerp": Op(formulas.lerp, "x + weight * (end - x)", 2),
}
for _name, _op in OPS.items():
    if _op.numpy is not None:
        implements_with(_op.numpy, _name)

_OPERANDS = """        Args:
            other: a number; an array, broadcast against the batch size; a TensorDict or mapping,
                matched by key.
            default: value of leaves that one side lacks, or "intersection" to leave them out.

        Raises:
            KeyError: the key sets differ and there is no `default`.
        """


def run(
    td: Container, name: str, fn: Pointwise, *others: object, default: object = None,
    objects: Objects | None = None, whole: Whole | None = None,
) -> Any:  # fmt: skip
    """The result of a method. Raises TypeError if an operand's type is not supported."""
    wanted = MISSING if default is None else default
    return _accepted(elementwise(td, fn, others, wanted, objects, whole), name, others)


def run_(td: Container, name: str, fn: Pointwise, *others: object) -> Any:
    """The result of an in-place method. Raises TypeError if an operand's type is not supported."""
    return _accepted(elementwise_(td, fn, others), name, others)


def _accepted(result: object, name: str, others: tuple[Any, ...]) -> Any:
    if result is NotImplemented:
        kinds = ", ".join(type(other).__name__ for other in others)
        raise TypeError(f"{name}: operands must be numbers, arrays, TensorDicts or mappings, got {kinds}.")
    return result


# -- from a row to methods ----------------------------------------------------------------------------


def unary(name: str) -> tuple[SelfMethod, SelfMethod]:
    """The method of a function of one array, and its in-place form."""
    fn = OPS[name].fn

    def method_(self: Any) -> Any:
        return elementwise_(self, fn, ())

    doc = f"`{name}` of every array, in place; returns self."
    return predicate(name), described(method_, f"{name}_", doc)


def predicate(name: str) -> SelfMethod:
    """The method of a function of one array that has no in-place form."""
    op = OPS[name]
    fn = op.fn

    def method(self: Any) -> Any:
        return elementwise(self, fn, ())

    return described(method, name, f"`{name}` of every array ({op.doc}); non-tensor data is kept.")


def binary(name: str) -> tuple[ArgsMethod, ArgsMethod]:
    """The method of a function with an operand, and its in-place form.

    Operands are numbers, arrays (broadcast against the batch size, feature dimensions follow), or
    TensorDicts and mappings (matched by key). Non-tensor entries are kept as they are.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> td = TensorDict({"a": np.ones((2, 3)), "s": "x"}, batch_size=[2])
        >>> (td + [10, 20])["a"]
        array([[11., 11., 11.],
               [21., 21., 21.]])
        >>> (2 ** td == np.exp2(td)).all()
        True
        >>> td.mul_(3).sub(td, alpha=2)["a"][0]
        array([-3., -3., -3.])
    """
    op = OPS[name]
    fn = op.fn

    def method(self: Any, other: object, default: object = None) -> Any:
        return run(self, name, fn, other, default=default)

    def method_(self: Any, other: object) -> Any:
        return run_(self, f"{name}_", fn, other)

    doc = f"`{name}` of every array with `other`: `{op.doc}`."
    return (
        described(method, name, f"{doc}\n\n{_OPERANDS}"),
        described(method_, f"{name}_", f"`{name}` of every array with `other`, in place; returns self."),
    )


def scaled(name: str) -> tuple[ArgsMethod, ArgsMethod]:
    """`add` and `sub`, whose operand may be scaled by `alpha`."""
    fn = OPS[name].fn

    def chosen(alpha: object) -> Pointwise:
        return fn if alpha is None else lambda a, b: fn(a, alpha * b)

    def method(self: Any, other: object, *, alpha: object = None, default: object = None) -> Any:
        return run(self, name, chosen(alpha), other, default=default)

    def method_(self: Any, other: object, alpha: object = None) -> Any:
        return run_(self, f"{name}_", chosen(alpha), other)

    doc = f"`{name}` of every array and `other`, the latter times `alpha` if given."
    return (
        described(method, name, f"{doc}\n\n{_OPERANDS}"),
        described(method_, f"{name}_", f"{doc} In place; returns self."),
    )


def operators(name: str) -> tuple[ArgsMethod, ArgsMethod, ArgsMethod]:
    """`a + b`, `b + a` and `a += b`."""
    op = OPS[name]
    fn, reflected = op.fn, swapped(op.fn)

    def backward(self: Any, other: object) -> Any:
        return elementwise(self, reflected, (other,))

    def inplace(self: Any, other: object) -> Any:
        return elementwise_(self, fn, (other,))

    return (
        operator(name),
        described(backward, f"r{name}", f"`other {op.symbol} self`"),
        described(inplace, f"i{name}", f"`self {op.symbol}= other`"),
    )


def operator(name: str) -> ArgsMethod:
    """`a + b` or `-a`; comparisons give bool arrays, without names and unlocked."""
    op = OPS[name]
    fn = op.fn

    def one(self: Any) -> Any:
        return elementwise(self, fn, ())

    def two(self: Any, other: object) -> Any:
        return elementwise(self, fn, (other,))

    doc = f"`self {op.symbol} other`" if op.operands else f"`{op.symbol}self`"
    return described(two if op.operands else one, name, doc)


def eq(td: Container, other: object) -> Any:
    """`self == other` as bool arrays; False if there is nothing to compare with."""
    result = elementwise(td, np.equal, (other,))
    return False if result is NotImplemented else result


def ne(td: Container, other: object) -> Any:
    """`self != other` as bool arrays; True if there is nothing to compare with."""
    result = elementwise(td, np.not_equal, (other,))
    return True if result is NotImplemented else result


# -- with arguments of their own ----------------------------------------------------------------------


def rsub(td: T, other: object, *, alpha: object = None, default: object = None) -> T:
    """`other - alpha * self`, with `alpha` 1 unless given, as `torch.rsub`.

    Args:
        other: a number; an array, broadcast against the batch size; a TensorDict or mapping,
            matched by key.
        alpha: factor of self.
        default: value of leaves that one side lacks, or "intersection" to leave them out.

    Example:
        >>> from lite import TensorDict
        >>> TensorDict(a=1.0).rsub(5.0, alpha=2)["a"]
        array(3., dtype=float32)
    """
    fn = swapped(np.subtract) if alpha is None else lambda a, b: b - alpha * a
    return run(td, "rsub", fn, other, default=default)


def lerp(td: T, end: object, weight: object) -> T:
    """`self + weight * (end - self)`; TensorDict operands are matched by key.

    Example:
        >>> from lite import TensorDict
        >>> TensorDict(a=0.0).lerp(TensorDict(a=10.0), 0.25)["a"]
        array(2.5, dtype=float32)
    """
    return run(td, "lerp", OPS["lerp"].fn, end, weight)


def lerp_(td: T, end: object, weight: object) -> T:
    """`lerp` in place; returns self."""
    return run_(td, "lerp_", OPS["lerp"].fn, end, weight)


def addcmul(td: T, other1: object, other2: object, *, value: object = 1) -> T:
    """`self + value * other1 * other2`; TensorDict operands are matched by key."""
    return run(td, "addcmul", _addcmul(value), other1, other2)


def addcmul_(td: T, other1: object, other2: object, *, value: object = 1) -> T:
    """`addcmul` in place; returns self."""
    return run_(td, "addcmul_", _addcmul(value), other1, other2)


def addcdiv(td: T, other1: object, other2: object, value: object = 1) -> T:
    """`self + value * other1 / other2`; TensorDict operands are matched by key."""
    return run(td, "addcdiv", _addcdiv(value), other1, other2)


def addcdiv_(td: T, other1: object, other2: object, *, value: object = 1) -> T:
    """`addcdiv` in place; returns self."""
    return run_(td, "addcdiv_", _addcdiv(value), other1, other2)


def clamp(td: Container, min: object = None, max: object = None, *, out: object = None) -> Any:
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
    result = run(td, "clamp", fn, *bounds)
    return result if out is None else write_out(out, result, "clamp")


def clamp_(td: T, min: object = None, max: object = None) -> T:
    """`clamp` in place; returns self."""
    fn, bounds = _clamp(min, max)
    return run_(td, "clamp_", fn, *bounds)


def clip(td: Container, min: object = None, max: object = None, out: object = None) -> Any:
    """Same as `clamp`."""
    return td.clamp(min, max, out=out)


def divmod(td: Container, other: Any) -> Any:
    quotient = elementwise(td, np.floor_divide, (other,))
    return NotImplemented if quotient is NotImplemented else (quotient, td % other)


def rdivmod(td: Container, other: Any) -> Any:
    quotient = elementwise(td, swapped(np.floor_divide), (other,))
    return NotImplemented if quotient is NotImplemented else (quotient, other % td)


def matmul(td: Container, other: object) -> Any:
    return _matmul(td, np.matmul, other)


def rmatmul(td: Container, other: object) -> Any:
    return _matmul(td, swapped(np.matmul), other)


def _matmul(td: Container, fn: Pointwise, other: object) -> Any:
    """Matrix product per leaf; an array operand multiplies the features of every leaf as it is."""
    if isinstance(other, np.ndarray) or has_namespace(other):
        other = Const(other)
    stacked = td._parts()
    if stacked is not None and isinstance(other, Const):
        return td._from_parts([_matmul(part, fn, other) for part in stacked[0]])
    size = td.batch_size

    def product(a: object, b: object) -> Any:
        out = as_array(fn(a, b))
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
        return result if out is None or result is NotImplemented else write_out(out[0], result, "matmul")
    fn = _with_leaf_at(ufunc, at, kwargs)
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
    casting = kwargs.get("casting", "same_kind")
    written = tuple(
        r if target is None else write_out(target, r, ufunc.__name__, casting)
        for target, r in zip(out, results, strict=True)
    )
    return written if ufunc.nout > 1 else written[0]


def _with_leaf_at(ufunc: np.ufunc, at: int, kwargs: dict[str, Any]) -> Pointwise:
    """The ufunc as a function whose first argument, the leaf, is argument `at` of the ufunc."""
    if at == 0:
        return partial(ufunc, **kwargs) if kwargs else ufunc
    fn = for_bools(ufunc) if not kwargs else ufunc

    def call(leaf: object, *others: object) -> Any:
        return fn(*others[:at], leaf, *others[at:], **kwargs)

    return call


def _output(fn: Pointwise, i: int) -> Pointwise:
    fn = for_bools(fn)
    return lambda *args: fn(*args)[i]


def _addcmul(value: object) -> Pointwise:
    return lambda x, a, b: x + value * a * b


def _addcdiv(value: object) -> Pointwise:
    return lambda x, a, b: x + value * a / b


def _clamp(low: object, high: object) -> tuple[Pointwise, tuple[Any, ...]]:
    if low is None and high is None:
        raise ValueError("clamp needs a bound, got min=None and max=None.")
    if high is None:
        return np.maximum, (low,)
    if low is None:
        return np.minimum, (high,)
    return OPS["clamp"].fn, (low, high)
