"""The arrays that hold the rows of a storage: made from an example, matched with what is to be stored.

Whatever costs time at every call is looked up once, when the arrays are made: which keys there are, the array
of each, and the shape of one row of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite import NonTensorStack, TensorDict, TensorDictBase
from lite._arrays.types import Array, Path, Shape, host_array
from lite._tree.nontensor import NonTensorBase
from lite._tree.walks import map_tree

Pairs = list[tuple[Array, Any]]
RAGGED = "LazyStackStorage and ListStorage hold rows of different shapes."


class _Column(NamedTuple):
    """One entry of a container: an array of numbers, one of objects, or a container."""

    key: str
    array: Array | None
    row: Shape
    node: _Node | None


class _Node(NamedTuple):
    """A container: its entries in order, batch dimensions after the rows, and what wraps a result."""

    columns: list[_Column]
    batch: Shape
    wrap: Callable[[Any], Any] | None
    numbers: list[tuple[str, Array]] | None  # the columns, where all are arrays of numbers
    names: list[str | None] | None  # of the batch dimensions after the rows


def is_container(data: Any) -> bool:
    """Whether `data` is a TensorDict or a tensorclass."""
    return isinstance(data, TensorDictBase) or hasattr(data, "_tensordict")


def blank(example: Any, rows: int, make: Callable[[Shape, Any], Array] = np.zeros) -> Any:
    """A new table of `rows` rows like those of `example`, whose first dimension is also rows.

    Args:
        example: a container or an array.
        rows: how many.
        make: gives an array of a shape and dtype.

    Raises:
        TypeError: anything else, or an array on a device.
    """
    if isinstance(example, np.ndarray):
        return make((rows, *example.shape[1:]), example.dtype)
    if not is_container(example):
        raise TypeError(
            f"a storage of arrays needs a TensorDict or an array, got {type(example).__name__}; "
            "ListStorage holds any object."
        )
    node = _dense(getattr(example, "_tensordict", example))

    def array(leaf: Any, _: Any) -> Array:
        found = host_array(leaf)
        return make((rows, *found.shape[1:]), found.dtype)

    def objects(entry: NonTensorBase, _: Any) -> Any:
        return NonTensorStack._wrap(np.full((rows, *entry.batch_size[1:]), None, object))

    def container(like: Any, entries: dict[str, Any]) -> Any:
        names = _names_of_rows(like)
        names = names and [None, *names]  # rows of other calls have another name
        return TensorDict._make(entries, (rows, *like.batch_size[1:]), "cpu", names)

    table = map_tree(node, array, objects, container, _dense)
    wrap = getattr(example, "_wrap_tensordict", None)
    return table if wrap is None else wrap(table)


def _dense(td: Any) -> Any:
    parts = td._parts()
    if parts is None:
        return td
    held = [set(part.keys(True, True)) for part in parts[0]]
    if held and (some := set.union(*held) - set.intersection(*held)):
        raise RuntimeError(f"only some rows have the entries {sorted(some, key=str)}. {RAGGED}")
    try:
        return td.contiguous()
    except RuntimeError as error:
        raise RuntimeError(f"{error} {RAGGED}") from error


class Columns:
    """The arrays of a table, which is a container with one row for each place of a storage, or one array."""

    def __init__(self, table: Any) -> None:
        self.table = table
        self.rows: int = table.shape[0]
        if isinstance(table, np.ndarray):
            self._root = None
            self._row: Shape = table.shape[1:]
        else:
            self._root = _plan(getattr(table, "_tensordict", table), table)
        self.arrays: list[Array] = [] if self._root is not None else [table]
        if self._root is not None:
            _gather_arrays(self._root, self.arrays)

    def pairs(self, data: Any, many: bool) -> Pairs:
        """Pairs of an array and the value to write into it; nothing is written yet.

        Args:
            data: entries with the keys of the table.
            many: whether its first dimension is rows; else it is one row.

        Raises:
            KeyError: keys are missing, or are not those of the table.
            RuntimeError: the shape of an entry differs.
            TypeError: another kind of data, or a dtype that does not fit into that of the table.
        """
        if self._root is None:
            value = np.asarray(data)
            _check(value, self.table, self._row, many, ())
            return [(self.table, value)]
        if not is_container(data):
            raise TypeError(f"the storage holds a TensorDict, got {type(data).__name__}.")
        out: Pairs = []
        _collect(self._root, _dense(getattr(data, "_tensordict", data)), many, (), out)
        return out

    def take(self, index: NDArray[np.int64]) -> Any:
        """Copies of the rows at `index`, which are known to be there."""
        if self._root is None:
            return self.table.take(index, 0)
        return _take(self._root, index, index.shape)


def _plan(td: Any, table: Any) -> _Node:
    columns = []
    for key, entry in td._items():
        if isinstance(entry, np.ndarray):
            columns.append(_Column(key, entry, entry.shape[1:], None))
        elif isinstance(entry, NonTensorBase):
            array = entry._objects()
            columns.append(_Column(key, array, array.shape[1:], None))
        else:
            columns.append(_Column(key, None, (), _plan(td._as_node(entry), entry)))
    wrap = None if table is td else table._wrap_tensordict
    arrays = [(key, array) for key, array, _, _ in columns if array is not None and array.dtype != object]
    numbers = arrays if len(arrays) == len(columns) else None
    return _Node(columns, td.batch_size[1:], wrap, numbers, _names_of_rows(td))


def _names_of_rows(td: Any) -> list[str | None] | None:
    """The names of the batch dimensions after the rows; None where there are none."""
    return td._names[1:] if td._names is not None and any(td._names[1:]) else None


def _gather_arrays(node: _Node, out: list[Array]) -> None:
    for column in node.columns:
        if column.node is not None:
            _gather_arrays(column.node, out)
        elif column.array is not None:
            out.append(column.array)


def _collect(node: _Node, td: Any, many: bool, path: Path, out: Pairs) -> None:
    entries = td._data
    if len(entries) != len(node.columns):
        _refuse_keys(node, entries, path)
    for key, array, row, child in node.columns:
        value = entries.get(key)
        if type(value) is np.ndarray and array is not None:
            if value.dtype != array.dtype or (value.shape[1:] if many else value.shape) != row:
                _check(value, array, row, many, (*path, key))
            out.append((array, value))
        elif value is None:
            _refuse_keys(node, entries, path)
        elif child is not None:
            inner = td._as_node(value)
            if inner is None:
                raise TypeError(
                    f"the entry {(*path, key)} is a {type(value).__name__}, expected a TensorDict."
                )
            _collect(child, _dense(inner), many, (*path, key), out)
        else:
            assert array is not None
            value = value._objects() if isinstance(value, NonTensorBase) else host_array(value, key)
            _check(value, array, row, many, (*path, key))
            out.append((array, value))


def _check(value: Array, array: Array, row: Shape, many: bool, path: Path) -> None:
    name = f"the entry {path}" if path else "the data"
    if (value.shape[1:] if many else value.shape) != row or (many and not value.ndim):
        got = value.shape[1:] if many else value.shape
        raise RuntimeError(f"{name} has rows of shape {got}, the storage holds rows of shape {row}; {RAGGED}")
    if (array.dtype == object) != (value.dtype == object) or not np.can_cast(
        value.dtype, array.dtype, "same_kind"
    ):
        raise TypeError(f"{name} is {value.dtype}, which the storage's {array.dtype} cannot hold.")


def _refuse_keys(node: _Node, entries: dict[str, Any], path: Path) -> None:
    expected, got = {column.key for column in node.columns}, set(entries)
    where = f"below {path} " if path else ""
    if expected == got:
        return
    raise KeyError(
        f"the data {where}has other keys than the stored rows: "
        f"missing {sorted(expected - got)}, not known {sorted(got - expected)}."
    )


def _take(node: _Node, index: NDArray[np.int64], size: Shape) -> Any:
    data: dict[str, Any]
    if node.numbers is not None:
        data = {key: array.take(index, 0) for key, array in node.numbers}
    else:
        data = {}
        for key, array, _, child in node.columns:
            if child is not None:
                data[key] = _take(child, index, size)
            elif array is not None:
                found = array.take(index, 0)
                data[key] = found if array.dtype != object else NonTensorStack._wrap(found)
    names = node.names and [*(None,) * len(size), *node.names]
    out = TensorDict._make(data, size + node.batch, "cpu", names)
    return out if node.wrap is None else node.wrap(out)


def reduced(values: Any, count: int, reduction: str) -> Array:
    """One number for each of `count` rows; the median of an even number is the lower one, as torch's."""
    flat = np.asarray(values).reshape(count, -1)
    if reduction == "median":
        return np.sort(flat, 1)[:, (flat.shape[1] - 1) // 2]
    found: Array = getattr(np, reduction)(flat, axis=1)
    return found
