"""Arithmetic, comparison and logic: operators, named methods, and NumPy's ufuncs on a TensorDict.

Nothing is written twice: `_ufuncs` says which function a name stands for, the factories below make
the method, its in-place form, and the operators, and `_elementwise` runs all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.formulas import BINARY, PREDICATES, UNARY, Pointwise, swapped
from lite._ops.elementwise import elementwise
from lite._ops.elementwise_inplace import elementwise_
from lite._ops.methods import AnyMethod, ArgsMethod, SelfMethod, described
from lite._tree.protocol import MISSING, TensorDictCore


def required(result: Any, name: str, *others: Any) -> Any:
    """Turn a foreign operand into the TypeError that a named method owes."""
    if result is NotImplemented:
        kinds = ", ".join(type(other).__name__ for other in others)
        raise TypeError(f"{name}: operands must be numbers, arrays, TensorDicts or mappings, got {kinds}.")
    return result


def _unary(name: str) -> tuple[SelfMethod, SelfMethod]:
    fn = UNARY[name]

    def method(self: Any) -> Any:
        return elementwise(self, fn, ())

    def method_(self: Any) -> Any:
        return elementwise_(self, fn, ())

    return (
        described(method, name, f"`{name}` of every array; non-tensor data is kept."),
        described(method_, f"{name}_", f"`{name}` of every array, in place; returns self."),
    )


def _predicate(name: str) -> SelfMethod:
    fn = PREDICATES[name]

    def method(self: Any) -> Any:
        return elementwise(self, fn, ())

    out: SelfMethod = described(method, name, f"`{name}` of every array, as bool arrays.")
    return out


def _binary(name: str) -> tuple[ArgsMethod, ArgsMethod]:
    fn = BINARY[name]

    def method(self: Any, other: Any, default: Any = None) -> Any:
        result = elementwise(self, fn, (other,), MISSING if default is None else default)
        return required(result, name, other)

    def method_(self: Any, other: Any) -> Any:
        return required(elementwise_(self, fn, (other,)), f"{name}_", other)

    return (
        described(method, name, f"`{name}` of every array with `other`.\n\n{_OPERANDS}"),
        described(method_, f"{name}_", f"`{name}` of every array with `other`, in place; returns self."),
    )


_OPERANDS = """        Args:
            other: a number; an array, broadcast against the batch size; a TensorDict or mapping,
                matched by key.
            default: value of leaves that one side lacks, or "intersection" to leave them out.

        Raises:
            KeyError: the key sets differ and there is no `default`.
        """


def _scaled(name: str) -> tuple[ArgsMethod, ArgsMethod]:
    """`add` and `sub`, whose operand may be scaled by `alpha`."""
    fn = BINARY[name]

    def chosen(alpha: Any) -> Pointwise:
        return fn if alpha is None else lambda a, b: fn(a, alpha * b)

    def method(self: Any, other: Any, *, alpha: Any = None, default: Any = None) -> Any:
        result = elementwise(self, chosen(alpha), (other,), MISSING if default is None else default)
        return required(result, name, other)

    def method_(self: Any, other: Any, alpha: Any = None) -> Any:
        return required(elementwise_(self, chosen(alpha), (other,)), f"{name}_", other)

    doc = f"`{name}` of every array and `other`, the latter times `alpha` if given."
    return (
        described(method, name, f"{doc}\n\n{_OPERANDS}"),
        described(method_, f"{name}_", f"{doc} In place; returns self."),
    )


def _operators(symbol: str, fn: Pointwise) -> tuple[AnyMethod, AnyMethod, AnyMethod]:
    """`a + b`, `b + a` and `a += b` for one ufunc."""
    reflected = swapped(fn)

    def forward(self: Any, other: Any) -> Any:
        return elementwise(self, fn, (other,))

    def backward(self: Any, other: Any) -> Any:
        return elementwise(self, reflected, (other,))

    def inplace(self: Any, other: Any) -> Any:
        return elementwise_(self, fn, (other,))

    return (
        described(forward, fn.__name__, f"`self {symbol} other`"),
        described(backward, f"r{fn.__name__}", f"`other {symbol} self`"),
        described(inplace, f"i{fn.__name__}", f"`self {symbol}= other`"),
    )


def _comparison(symbol: str, fn: Pointwise) -> AnyMethod:
    def method(self: Any, other: Any) -> Any:
        return elementwise(self, fn, (other,))

    out: AnyMethod = described(
        method,
        fn.__name__,
        f"`self {symbol} other` as a TensorDict of bool arrays, without names and unlocked.",
    )
    return out


def _unary_operator(symbol: str, fn: Pointwise) -> AnyMethod:
    def method(self: Any) -> Any:
        return elementwise(self, fn, ())

    out: AnyMethod = described(method, fn.__name__, f"`{symbol}self`")
    return out


class PointwiseMixin(TensorDictCore):
    """Pointwise functions and operators.

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

    __slots__ = ()

    abs, abs_ = _unary("abs")
    neg, neg_ = _unary("neg")
    exp, exp_ = _unary("exp")
    expm1, expm1_ = _unary("expm1")
    log, log_ = _unary("log")
    log10, log10_ = _unary("log10")
    log1p, log1p_ = _unary("log1p")
    log2, log2_ = _unary("log2")
    sqrt, sqrt_ = _unary("sqrt")
    square, square_ = _unary("square")
    rsqrt, rsqrt_ = _unary("rsqrt")
    reciprocal, reciprocal_ = _unary("reciprocal")
    sigmoid, sigmoid_ = _unary("sigmoid")
    relu, relu_ = _unary("relu")
    sign, sign_ = _unary("sign")
    sin, sin_ = _unary("sin")
    cos, cos_ = _unary("cos")
    tan, tan_ = _unary("tan")
    sinh, sinh_ = _unary("sinh")
    cosh, cosh_ = _unary("cosh")
    tanh, tanh_ = _unary("tanh")
    asin, asin_ = _unary("asin")
    acos, acos_ = _unary("acos")
    atan, atan_ = _unary("atan")
    asinh, asinh_ = _unary("asinh")
    acosh, acosh_ = _unary("acosh")
    atanh, atanh_ = _unary("atanh")
    ceil, ceil_ = _unary("ceil")
    floor, floor_ = _unary("floor")
    round, round_ = _unary("round")
    trunc, trunc_ = _unary("trunc")
    frac, frac_ = _unary("frac")
    erf, erf_ = _unary("erf")
    erfc, erfc_ = _unary("erfc")
    lgamma, lgamma_ = _unary("lgamma")
    logical_not, logical_not_ = _unary("logical_not")
    bitwise_not, bitwise_not_ = _unary("bitwise_not")

    isfinite = _predicate("isfinite")
    isinf = _predicate("isinf")
    isnan = _predicate("isnan")
    isneginf = _predicate("isneginf")
    isposinf = _predicate("isposinf")
    isreal = _predicate("isreal")

    add, add_ = _scaled("add")
    sub, sub_ = _scaled("sub")
    mul, mul_ = _binary("mul")
    div, div_ = _binary("div")
    floor_divide, floor_divide_ = _binary("floor_divide")
    remainder, remainder_ = _binary("remainder")
    mod, mod_ = _binary("mod")
    pow, pow_ = _binary("pow")
    maximum, maximum_ = _binary("maximum")
    minimum, minimum_ = _binary("minimum")
    clamp_min, clamp_min_ = _binary("clamp_min")
    clamp_max, clamp_max_ = _binary("clamp_max")
    atan2, atan2_ = _binary("atan2")
    bitwise_and, bitwise_and_ = _binary("bitwise_and")
    bitwise_or, bitwise_or_ = _binary("bitwise_or")
    bitwise_xor, bitwise_xor_ = _binary("bitwise_xor")
    logical_and, logical_and_ = _binary("logical_and")
    logical_or, logical_or_ = _binary("logical_or")
    logical_xor, logical_xor_ = _binary("logical_xor")

    __add__, __radd__, __iadd__ = _operators("+", np.add)
    __sub__, __rsub__, __isub__ = _operators("-", np.subtract)
    __mul__, __rmul__, __imul__ = _operators("*", np.multiply)
    __truediv__, __rtruediv__, __itruediv__ = _operators("/", np.true_divide)
    __floordiv__, __rfloordiv__, __ifloordiv__ = _operators("//", np.floor_divide)
    __mod__, __rmod__, __imod__ = _operators("%", np.remainder)
    __pow__, __rpow__, __ipow__ = _operators("**", np.power)
    __and__, __rand__, __iand__ = _operators("&", np.bitwise_and)
    __or__, __ror__, __ior__ = _operators("|", np.bitwise_or)
    __xor__, __rxor__, __ixor__ = _operators("^", np.bitwise_xor)

    __lt__ = _comparison("<", np.less)
    __le__ = _comparison("<=", np.less_equal)
    __gt__ = _comparison(">", np.greater)
    __ge__ = _comparison(">=", np.greater_equal)

    __neg__ = _unary_operator("-", np.negative)
    __pos__ = _unary_operator("+", np.positive)
    __abs__ = _unary_operator("abs ", np.absolute)
    __invert__ = _unary_operator("~", np.invert)

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> Any:
        result = elementwise(self, np.equal, (other,))
        return False if result is NotImplemented else result

    def __ne__(self, other: object) -> Any:
        result = elementwise(self, np.not_equal, (other,))
        return True if result is NotImplemented else result
