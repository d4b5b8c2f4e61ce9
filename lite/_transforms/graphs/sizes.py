"""Numbers that stand for a dynamic dimension while a function is traced."""

from __future__ import annotations

import operator
import sys
import threading
from collections.abc import Collection, Iterator
from types import FrameType
from typing import Any, NamedTuple, NoReturn

import numpy as np

from lite._arrays.types import is_symbolic


class Comparison(NamedTuple):
    """The result of comparing a dynamic size: the graph is for sizes that give the same result.

    Attributes:
        size: the size, by the prime that stands for it.
        operator: "<", "<=", ">", ">=" or "==".
        other: a plain number, or another size, by its prime.
        answer: True or False.
    """

    size: int
    operator: str
    other: float
    answer: bool

    def holds(self, size: int, other: float | None = None) -> bool:
        """Whether a size gives the same answer, beside the `other` size of a call where there is one."""
        return _OPERATORS[self.operator](size, self.other if other is None else other) is self.answer


MOVED = 64  # the largest constant beside a multiple of a dynamic size, as in 2 * n + 1
_REAL = (int, float, np.integer, np.floating)
_OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq}


class _Comparisons(threading.local):
    """Comparisons of dynamic sizes by the function that this thread traces.

    Attributes:
        found: each comparison, and whether the function's own code makes it; None if none are recorded.
        dimensions: the primes of dynamic dimensions.
        computed: the primes of sizes that only a run of the graph knows.
        refuses: whether an operation whose result depends on the number raises an error.
        refused: that error, as the function may have caught it.
    """

    def __init__(self) -> None:
        self.found: dict[Comparison, bool] | None = None
        self.dimensions: Collection[int] = ()
        self.computed: set[int] = set()
        self.refuses = False
        self.refused: Exception | None = None


comparisons = _Comparisons()


def _noted(size: Size, name: str, other: Any, answer: Any) -> Any:
    if isinstance(other, float | np.floating | np.integer):
        other = int(other) if isinstance(other, np.integer) else float(other)
        answer = _OPERATORS[name](int(size), other)
    if comparisons.found is not None and isinstance(answer, bool):
        own = _is_asked_by_caller(3)
        if type(other) is Size and (not own or not comparisons.refuses or int(size) == int(other)):
            return answer
        if any(int(size) % prime == 0 for prime in comparisons.computed):
            if own:
                raise NotImplementedError(
                    "cannot be traced: the function asks how many elements were chosen (by a mask, or "
                    "nonzero), which no call knows before: use np.where on sums over them."
                )
            return answer  # rules are for all sizes
        kept = other if isinstance(other, float | Size) else int(other)
        asked = Comparison(int(size), name, kept, answer)
        comparisons.found[asked] = comparisons.found.get(asked, False) or own
    return answer


def asked_of(primes: Collection[int]) -> frozenset[Comparison]:
    """The comparisons of dynamic sizes that were made, by their primes.

    A size such as 2 * n + 1 is not found again in a call: what is asked of it fits no call then. Whether it
    is 0, which rules ask of nearly every size, is taken for answered.
    """
    asked: set[Comparison] = set()
    for one, own in (comparisons.found or {}).items():
        near = min(primes, key=lambda prime: abs(one.size - prime), default=0)
        rest = one.size - near
        # Of n + 1 what that says of n. Of three sizes, one may be near a sum of the others.
        if type(one.other) is int and 0 < abs(rest) <= MOVED and len(primes) < 3:
            asked.add(one._replace(size=near, other=one.other - rest))
        elif own or abs(one.other) > 1 or any(one.size % prime == 0 for prime in primes):
            asked.add(one)
    return frozenset(asked)


def _is_asked_by_caller(depth: int = 2) -> bool:
    """Whether `lite.jit` traces, and code outside of this package calls the method that calls this.

    Rules compare sizes with others all the time, and are written for all sizes. What NumPy and the standard
    library ask is asked by whoever calls them; but `np.tile` takes what it tiles once for 1 to spare a copy.
    """
    if comparisons.found is None:
        return False
    frame = sys._getframe(depth)
    while (top := _package(frame)) == "numpy" or top in sys.stdlib_module_names:
        if frame.f_back is None or frame.f_code.co_name == "tile":
            return False
        frame = frame.f_back
    return top != "lite"


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


class Size(int):
    """The size of a dynamic dimension in this trace; what is computed from one is one.

    Each dynamic dimension has a prime as its size that no other size has, so two sizes are the same
    dimension if they are the same number. Functions of NumPy may give the number as a plain int; the graph
    finds it again by its factors.
    """

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        return _sized(int.__add__(self, other), other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return _sized(int.__sub__(self, other), other)

    def __rsub__(self, other: Any) -> Any:
        return _sized(int.__rsub__(self, other), other)

    def __mul__(self, other: Any) -> Any:
        return _sized(int.__mul__(self, other), other)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        answer = int.__floordiv__(self, other)
        exact = type(other) is Size and not int.__mod__(self, other)
        if exact and all(answer % prime for prime in (*comparisons.dimensions, *comparisons.computed)):
            return answer  # how often a dimension has another: a number
        return _sized(answer, other)

    def __neg__(self) -> Any:
        return _sized(int.__neg__(self))

    def as_length(self) -> int:
        """The number that `len` gives, whose uses cannot be traced.

        Raises:
            NotImplementedError: while `lite.jit` traces a function.
        """
        if comparisons.refuses:
            raise NotImplementedError(
                "cannot be traced: the len of a TensorDict of dynamic batch size; use td.batch_size[0]."
            )
        return int(self)

    def __lt__(self, other: Any) -> Any:
        return _noted(self, "<", other, int.__lt__(self, other))

    def __le__(self, other: Any) -> Any:
        return _noted(self, "<=", other, int.__le__(self, other))

    def __gt__(self, other: Any) -> Any:
        return _noted(self, ">", other, int.__gt__(self, other))

    def __ge__(self, other: Any) -> Any:
        return _noted(self, ">=", other, int.__ge__(self, other))

    def __eq__(self, other: object) -> Any:
        answer = int.__eq__(self, other)
        if isinstance(other, _REAL) and _is_asked_by_caller():
            return _noted(self, "==", other, answer)
        return answer

    def __ne__(self, other: object) -> Any:
        if isinstance(other, _REAL) and _is_asked_by_caller():
            return not _noted(self, "==", other, int.__eq__(self, other))
        return int.__ne__(self, other)

    def __bool__(self) -> bool:
        answer = int.__bool__(self)
        if _is_asked_by_caller():
            _noted(self, "==", 0, not answer)
        return answer

    __hash__ = int.__hash__  # and more, below

    def __abs__(self) -> Any:
        return _sized(int.__abs__(self))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """A function of a size and of arrays that have numbers, as in `np.arange(10) < x.shape[0]`."""
        if any(hasattr(x, "__array_ufunc__") and not isinstance(x, Size | np.ndarray) for x in inputs):
            return NotImplemented
        if comparisons.refuses and _is_asked_by_caller():
            _refuse(f"np.{ufunc.__name__}")
        return getattr(ufunc, method)(*[int(x) if type(x) is Size else x for x in inputs], **kwargs)

    def __rtruediv__(self, other: Any) -> Any:
        return Quotient(other, self) if isinstance(other, int | float) else NotImplemented


def _refuse(name: str) -> NoReturn:
    of = "traced: the function" if comparisons.refuses else "exported: the module"
    comparisons.refused = NotImplementedError(
        f"cannot be {of} takes {name} of a dynamic size, a number of this "
        "call: sizes can be compared, and added, subtracted and multiplied with numbers."
    )
    raise comparisons.refused


def _refusing(name: str, kind: type = int) -> Any:
    """A method of a number whose result could be asked for anything without being noticed."""
    method = getattr(kind, name)

    def call(self: Any, *args: Any) -> Any:
        refuses = comparisons.refuses or name in _SAME or kind is float
        if refuses and _is_asked_by_caller() and not any(map(is_symbolic, args)):
            _refuse(name.strip("_"))
        return method(self, *args)

    return call


_REFUSED = """
    hash int float round trunc floor ceil pow rpow truediv rfloordiv mod rmod divmod rdivmod
    and rand or ror xor rxor lshift rlshift rshift rrshift invert
"""
# Refused for `to_onnx`, too: two traces may give the same result, as both primes are odd, and so hide it.
_SAME = ("__hash__", "__and__", "__mod__", "__rmod__", "__divmod__", "__rfloordiv__")
for _name in _REFUSED.split():
    setattr(Size, f"__{_name}__", _refusing(f"__{_name}__"))


class Quotient(float):
    """A number over a dynamic size, such as what a mean multiplies by; the graph divides again in each run.

    Args:
        number: a plain number.
        size: a dynamic size.
    """

    __slots__ = ("number", "size")
    number: float
    size: Size

    def __new__(cls, number: float, size: Size) -> Quotient:
        self = super().__new__(cls, number / int(size))
        self.number, self.size = number, size
        return self

    def __mul__(self, other: Any) -> Any:
        return Quotient(self.number * other, self.size) if type(other) in (int, float) else NotImplemented

    __rmul__ = __mul__

    def __neg__(self) -> Quotient:
        return Quotient(-self.number, self.size)


_REFUSED = """
    lt le gt ge eq ne hash bool int round trunc floor ceil add radd sub rsub truediv rtruediv abs
    pow rpow floordiv rfloordiv mod rmod divmod rdivmod
"""
for _name in _REFUSED.split():
    setattr(Quotient, f"__{_name}__", _refusing(f"__{_name}__", float))


def _sized(value: object, other: object = None) -> Any:
    if isinstance(other, float) and comparisons.refuses and _is_asked_by_caller(3):
        _refuse("a float")
    return Size(value) if type(value) is int else value


def primes(above: int) -> Iterator[int]:
    """The primes from a number on."""
    n = above
    while True:
        if n > 1 and all(n % d for d in range(2, int(n**0.5) + 1)):
            yield n
        n += 1
