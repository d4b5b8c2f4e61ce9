"""Equality within a tolerance."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from lite._arrays.types import Path
from lite._ops.pointwise import run
from lite._tree.keys import NestedKey
from lite._tree.nontensor import NonTensorBase, equal_objects
from lite._tree.numpy_protocol import implements, implements_with
from lite._tree.protocol import Container, T
from lite._tree.walks import leaves


def isclose(td: T, other: object, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> T:
    """Per element, whether `|self - other| <= atol + rtol * |other|`; as bool arrays.

    Example:
        >>> from lite import TensorDict
        >>> TensorDict(a=[1.0, 2.0]).isclose(TensorDict(a=[1.0, 3.0]))["a"]
        array([ True, False])
    """
    fn = partial(np.isclose, rtol=rtol, atol=atol, equal_nan=equal_nan)
    return run(td, "isclose", fn, other)


def allclose(
    td: Container, other: object, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether `isclose` holds everywhere."""
    return all(bool(np.all(leaf)) for leaf in leaves(td.isclose(other, rtol, atol, equal_nan)))


implements_with(np.isclose, "isclose")
implements_with(np.allclose, "allclose")


@implements(np.array_equal)
def _numpy_array_equal(a1: Any, a2: Any) -> bool:
    """Whether batch size, keys and all values are equal."""
    if np.shape(a1) != np.shape(a2) or set(a1.keys(True)) != set(a2.keys(True)):
        return False
    # `==` of an object and an array has no elements, and all() of none would be True.
    objects = [{key for key, _ in td.non_tensor_items(True)} for td in (a1, a2)]
    return objects[0] == objects[1] and bool((a1 == a2).all())


def assert_close(
    actual: object,
    expected: object,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    intersection: bool = False,
    msg: str = "",
    prefix: NestedKey = (),
) -> bool:
    """Raise unless two TensorDicts have the same keys and, within a tolerance, the same values.

    Args:
        actual: a TensorDict.
        expected: a TensorDict.
        rtol: relative tolerance (0 unless given).
        atol: absolute tolerance (1e-5 unless one of the tolerances is given).
        equal_nan: count NaNs as equal.
        intersection: compare only keys that both have.
        msg: put before the message of a failure.
        prefix: put before the keys in it.

    Returns:
        True.

    Raises:
        KeyError: the key sets differ.
        AssertionError: values, shapes or objects differ; the message names the key.

    Example:
        >>> import lite
        >>> lite.assert_close(lite.TensorDict(a=1.0), lite.TensorDict(a=1.0 + 1e-7))
        True
    """
    if rtol is None and atol is None:
        atol = 1e-5

    def close(a: Any, b: Any) -> bool:
        return np.allclose(a, b, rtol=rtol or 0.0, atol=atol or 0.0, equal_nan=equal_nan)

    start = (prefix,) if isinstance(prefix, str) else tuple(prefix)
    _assert_close(actual, expected, close, intersection, msg, start)
    return True


assert_allclose_td = assert_close


def _assert_close(
    actual: Any, expected: Any, close: Callable[[Any, Any], bool], common: bool, msg: str, path: Path
) -> None:
    """Compare two nodes. The traversal is separate, as messages name the path and no tree is built."""
    first, second = actual._parts(), expected._parts()
    if first is not None and second is not None and first[1] == second[1] and len(first[0]) == len(second[0]):
        for mine, theirs in zip(first[0], second[0], strict=True):
            _assert_close(mine, theirs, close, common, msg, path)
        return
    mine, theirs = set(actual._keys()), set(expected._keys())
    if mine != theirs and not common:
        raise KeyError(
            f"{msg}keys differ at {path}: only in actual {sorted(mine - theirs)}, "
            f"only in expected {sorted(theirs - mine)}."
        )
    for key in [key for key in actual._keys() if key in theirs]:
        where = (*path, key)
        a, b = actual._get_entry(key), expected._get_entry(key)
        node, other = actual._as_node(a), actual._as_node(b)
        if node is not None and other is not None:
            _assert_close(node, other, close, common, msg, where)
            continue
        got = ""
        if isinstance(a, NonTensorBase) or isinstance(b, NonTensorBase) or node is not other:
            objects = isinstance(a, NonTensorBase) and isinstance(b, NonTensorBase)
            pairs = np.broadcast(a._objects(), b._objects()) if objects else ()
            if not objects or not all(x is y or equal_objects(x, y) for x, y in pairs):
                got = f"{a!r} and {b!r}."
        elif a.shape != b.shape:
            got = f"shapes {a.shape} and {b.shape}."
        elif not close(a, b):
            gap = np.subtract(a, b, dtype=np.result_type(a, b, np.float64))
            got = f"mse = {float(np.mean(np.abs(gap) ** 2)):4.4f}"
        if got:
            raise AssertionError(f"{msg}key {where} does not match, got {got}")
