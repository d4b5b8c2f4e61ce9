"""Arguments and results taken apart into arrays, and put together again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lite._arrays.dtypes import get_default_dtype, is_floating
from lite._arrays.types import Array, HostArray, computed, refuse_masked, without_number
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.tape import Node, outer_value
from lite._transforms.vmap.trees import flatten, unflatten
from lite._tree.collection import Entry
from lite._tree.unbatched import UnbatchedTensor


class Structure:
    """Nested lists, tuples, dicts and TensorDicts, and a walk over their arrays."""

    __slots__ = ("_items", "_plan")

    def __init__(self, value: object) -> None:
        self._items, self._plan = flatten(value)

    def map(self, fn: Callable[[Any], Any], entries: Callable[[Any], Any] | None = None) -> Any:
        """The structure with `fn(leaf)` in place of each leaf; `entries(leaf)` for leaves of TensorDicts."""
        inner = entries or fn
        items = [item._map_leaves(inner) if isinstance(item, Entry) else fn(item) for item in self._items]
        return unflatten(items, self._plan)

    def leaves(self) -> list[Any]:
        """All leaves in order."""
        found: list[Any] = []

        def look(leaf: object) -> Any:
            found.append(leaf)
            return leaf

        self.map(look)
        return found


class Leaves:
    """The arrays of an argument that is differentiated by.

    Args:
        arg: the argument.
        name: its name in errors.
        level: the number of the transformation.

    Attributes:
        inside: the argument with traced arrays in place of its arrays.

    Raises:
        TypeError: there is no array of floats in it, or one of complex numbers, or one that is not NumPy's.
        RuntimeError: it was left behind by a gradient that has ended.
    """

    __slots__ = ("_found", "_structure", "inside")

    def __init__(self, arg: Any, name: str, level: int) -> None:
        self._structure = Structure(arg)
        self._found: list[tuple[Node | None, Any]] = []

        def trace(leaf: object) -> Any:
            value, noted = _floats(leaf, name)
            if type(value) is TracedArray:
                value = outer_value(value)
            if not noted:
                self._found.append((None, value))
                return leaf
            node = Node((), None, value)
            self._found.append((node, value))
            return TracedArray(value, node, level)

        self.inside = self._structure.map(trace)
        if all(node is None for node, _ in self._found):
            raise TypeError(f"{name} has no array of floats to differentiate by, got {_outline(arg)}.")

    def gather(self, shares: dict[Any, Any], taken: set[int]) -> Any:
        """The derivatives in the structure of the argument; zeros where there are none.

        Args:
            shares: derivatives by node.
            taken: ids of arrays that are results already, to which new results are added: each result has
                memory of its own, and can be written to.
        """
        queue = iter(self._found)

        def share(leaf: object) -> Any:
            node, value = next(queue)
            found = None if node is None else shares.get(node)
            if found is not None:
                return _own(found, value, taken)
            return np.zeros_like(value) if hasattr(value, "dtype") and value.dtype.kind != "O" else None

        return self._structure.map(share)


def _own(share: Array, value: object, taken: set[int]) -> Array:
    """A derivative by a value, as an array with memory of its own."""
    if isinstance(share, HostArray):
        return share.copy()
    if isinstance(share, np.generic):
        return share if isinstance(value, np.generic) else np.asarray(share)
    if share.base is not None or not share.flags.writeable or id(share) in taken:
        share = share.copy()
    taken.add(id(share))
    return share[()] if isinstance(value, np.generic) else share


def _floats(leaf: object, name: str) -> tuple[Any, bool]:
    """The value of a leaf that is computed with, and whether its dtype is a floating one."""
    value: Any = computed(leaf)  # of a Parameter, what an outer `enable_grad` differentiates by
    if type(value) is np.ndarray and value.dtype.kind == "f":
        return value, True
    if type(value) is float:
        value = np.asarray(value, get_default_dtype())
    refuse_masked(value)
    if isinstance(value, UnbatchedTensor) or not hasattr(value, "dtype"):
        return value, False
    dtype = value.dtype
    if not isinstance(value, np.ndarray | np.generic | HostArray):
        raise TypeError(f"{name} must hold arrays of NumPy, got a {type(value).__name__}.")
    if dtype.kind == "c":
        raise TypeError(f"{name} is complex ({dtype}): there are no derivatives by complex numbers.")
    if isinstance(value, np.ndarray) and type(value) is not np.ndarray:
        value = value.view(np.ndarray)
    return value, is_floating(dtype)


def _outline(arg: Any) -> str:
    dtype = getattr(arg, "dtype", None)
    return type(arg).__name__ if dtype is None else f"an array of {dtype}"


def plain(value: object) -> Any:
    """A result with values in place of traced arrays."""
    return Structure(value).map(_value, _entry)


def _value(leaf: Any) -> Any:
    return leaf.value if type(leaf) is TracedArray else leaf


def _entry(leaf: object) -> Any:
    """The value of an entry; a NumPy scalar becomes an array."""
    return without_number(_value(leaf))
