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
from lite._tree.protocol import MISSING, Container


def required(result: Any, name: str, *others: Any) -> Any:
    """Turn a foreign operand into the TypeError that a named method owes."""
    if result is NotImplemented:
        kinds = ", ".join(type(other).__name__ for other in others)
        raise TypeError(f"{name}: operands must be numbers, arrays, TensorDicts or mappings, got {kinds}.")
    return result


def unary(name: str) -> tuple[SelfMethod, SelfMethod]:
    fn = UNARY[name]

    def method(self: Any) -> Any:
        return elementwise(self, fn, ())

    def method_(self: Any) -> Any:
        return elementwise_(self, fn, ())

    return (
        described(method, name, f"`{name}` of every array; non-tensor data is kept."),
        described(method_, f"{name}_", f"`{name}` of every array, in place; returns self."),
    )


def predicate(name: str) -> SelfMethod:
    fn = PREDICATES[name]

    def method(self: Any) -> Any:
        return elementwise(self, fn, ())

    out: SelfMethod = described(method, name, f"`{name}` of every array, as bool arrays.")
    return out


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


def scaled(name: str) -> tuple[ArgsMethod, ArgsMethod]:
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


def operators(symbol: str, fn: Pointwise) -> tuple[AnyMethod, AnyMethod, AnyMethod]:
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


def comparison(symbol: str, fn: Pointwise) -> AnyMethod:
    def method(self: Any, other: Any) -> Any:
        return elementwise(self, fn, (other,))

    out: AnyMethod = described(
        method,
        fn.__name__,
        f"`self {symbol} other` as a TensorDict of bool arrays, without names and unlocked.",
    )
    return out


def unary_operator(symbol: str, fn: Pointwise) -> AnyMethod:
    def method(self: Any) -> Any:
        return elementwise(self, fn, ())

    out: AnyMethod = described(method, fn.__name__, f"`{symbol}self`")
    return out


def eq(td: Container, other: object) -> Any:
    result = elementwise(td, np.equal, (other,))
    return False if result is NotImplemented else result


def ne(td: Container, other: object) -> Any:
    result = elementwise(td, np.not_equal, (other,))
    return True if result is NotImplemented else result
