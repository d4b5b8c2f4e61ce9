"""Arguments and results as lists of arrays and a structure, which is hashable and puts them together again.

A structure is nested tuples. The first item of each says what it is:

    ("array",)            an array
    ("number",)           a float of Python
    ("size",)             a dynamic size in a result, an int
    ("generator",)        a numpy.random.Generator
    ("given", i)          the i-th container among the arguments, itself
    ("static", type, x)   any other value, which is part of the structure
    ("list", ...), ("tuple", ...), ("named", type, ...), ("dict", keys, ...)
    ("data", type, names, ...)  a dataclass
    ("td", ...)           a TensorDict, or a tensorclass around it; see `_Node`
    ("stack", ...)        a lazy stack
    ("object", x)         an entry that is not an array
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

from lite._arrays.device import is_device_leaf
from lite._arrays.types import ArrayHolder, HostArray, Shape, raw
from lite._transforms.graphs.sizes import Quotient, Size
from lite._tree.collection import TensorCollection
from lite._tree.nontensor import NonTensorBase, NonTensorData, same_object
from lite._tree.protocol import Container, class_registry
from lite._tree.unbatched import UnbatchedTensor

Structure = tuple[Any, ...]
ARRAY, NUMBER, SIZE, GENERATOR = "array", "number", "size", "generator"
_ARRAY = (ARRAY,)
_ARRAYS = (HostArray, np.ndarray, np.generic, ArrayHolder)
DONATED = -1  # in place of a number of batch axes
ENTRY, DIRECT, NESTED = 0, 1, 2  # arrays in TensorDicts, arguments themselves, and those in lists and dicts


def _is_no_array(kind: type) -> bool:
    """Whether values of a class are masked arrays or matrices; `np.ma` is not imported to ask that."""
    return any(
        base.__name__ in ("MaskedArray", "matrix") and base.__module__.startswith("numpy")
        for base in kind.__mro__
    )


class Held:
    """An object in a TensorDict, compared by its value, so that structures with equal objects are equal."""

    __slots__ = ("entry",)

    def __init__(self, entry: Any) -> None:
        self.entry = entry

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Held):
            return False
        one, two = self.entry, other.entry
        if isinstance(one, NonTensorData) and isinstance(two, NonTensorData):  # of any batch size
            return bool(same_object(one.data, two.data))
        return bool(same_object(one, two))

    def __hash__(self) -> int:
        return hash(type(self.entry))


class _Node(NamedTuple):
    """The head of a TensorDict's structure; the structures of its entries follow it.

    Attributes:
        tag: "td".
        wrapper: the tensorclass around it, or None.
        dims: the number of batch dimensions.
        sizes: the batch size where no array tells it; else None.
        names: names of the dimensions.
        device: device of the container.
        locked: whether it is locked.
        keys: keys of the entries.
    """

    tag: str
    wrapper: Any
    dims: int
    sizes: Shape | None
    names: tuple[str | None, ...] | None
    device: str | None
    locked: bool
    keys: tuple[str, ...]


class Flattener:
    """Takes values apart.

    Args:
        given: containers that stand for themselves, by their identity: those among the arguments.
        without: structures of entries that are passed over, by the number of the container and the key.

    Attributes:
        leaves: the arrays, numbers and generators, in order.
        places: for each leaf that is an entry the number of its container, and its key; else None.
        batches: for each leaf how many of its first axes are those of a batch, or names of axes, and which
            kind of array it is: `ENTRY`, `DIRECT` or `NESTED`.
        containers: the TensorDicts, in order.
    """

    def __init__(
        self, given: dict[int, int] | None = None, without: Mapping[tuple[int, str], Structure] | None = None
    ) -> None:
        self.leaves: list[Any] = []
        self.places: list[tuple[int, str] | None] = []
        self.batches: list[tuple[Any, int]] = []
        self.containers: list[Any] = []
        self._given = given or {}
        self._without = without

    def add(self, other: Any) -> None:
        """Add what another one found."""
        start = len(self.containers)
        self.leaves += other.leaves
        self.places += [None if place is None else (place[0] + start, place[1]) for place in other.places]
        self.batches += other.batches
        self.containers += other.containers

    def _leaf(self, leaf: Any, place: tuple[int, str] | None, batch: int, kind: int) -> None:
        self.leaves.append(leaf)
        self.places.append(place)
        self.batches.append((batch, kind))

    def structure(self, value: Any, name: str, kind_of_array: int = 1) -> Structure:
        """The structure of a value, whose leaves are added to `leaves`.

        Args:
            value: any value.
            name: its name in errors.
            kind_of_array: the kind of an array in place of the value.

        Raises:
            TypeError: a value is neither an array nor hashable.
        """
        kind = type(value)
        if isinstance(value, TensorCollection) and (node := Container._as_node(value)) is not None:
            found = self._given.get(id(value), self._given.get(id(node)))
            if found is not None:
                return ("given", found)
            return self._container(value, node, name)
        if kind is np.ndarray or isinstance(value, _ARRAYS) or is_device_leaf(value):
            if kind is not np.ndarray and _is_no_array(kind):
                raise TypeError(
                    f"{name} is a {kind.__name__}, which a graph would take for an ndarray: pass one."
                )
            self._leaf(value, None, 1, kind_of_array)
            return (ARRAY,)
        if kind is float or kind is Quotient or kind is Size:
            self._leaf(value, None, 0, NESTED)
            return (SIZE,) if kind is Size else (NUMBER,)
        if kind is list or kind is tuple:
            items = [self.structure(item, f"{name}[{i}]", NESTED) for i, item in enumerate(value)]
            return (kind.__name__, *items)
        if kind is dict:
            keys = tuple(value)
            return ("dict", keys, *[self.structure(value[key], f"{name}[{key!r}]", NESTED) for key in keys])
        if isinstance(value, NonTensorBase | UnbatchedTensor):
            return ("object", Held(value))
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return (
                "named",
                kind,
                *[self.structure(item, f"{name}[{i}]", NESTED) for i, item in enumerate(value)],
            )
        if hasattr(value, "bit_generator"):
            self._leaf(value, None, 0, NESTED)
            return (GENERATOR,)
        try:
            hash(value)
        except TypeError:
            if is_dataclass(kind):
                names = tuple([one.name for one in fields(kind) if hasattr(value, one.name)])
                items = [self.structure(getattr(value, key), f"{name}.{key}", NESTED) for key in names]
                return ("data", kind, names, *items)
            raise TypeError(
                f"{name} must be made of arrays, numbers and what can be hashed, got a {kind.__name__}."
            ) from None
        return ("static", kind, value)

    def _container(self, value: Any, node: Any, name: str) -> Structure:
        place = len(self.containers)
        self.containers.append(node)
        wrapper = None if value is node else type(value)
        stacked = node._parts()
        if stacked is not None:
            parts, dim = stacked
            inner = [
                self._container(part, Container._as_node(part), f"{name}[{i}]")
                for i, part in enumerate(parts)
            ]
            return ("stack", wrapper, dim, node._dim_name, node.is_locked, node._empty_size, *inner)
        dims = len(node._batch_size)
        items, told = [], False  # whether an entry tells the batch size
        entries = node._data
        if self._without:
            entries = {
                key: entry for key, entry in entries.items() if not self._passes(entry, dims, key, place)
            }
        for key, entry in entries.items():
            if type(entry) is np.ndarray:
                self._leaf(entry, (place, key), dims, ENTRY)
                items.append(_ARRAY)
                told = True
            else:
                item = self._entry(entry, dims, name, key, place)
                items.append(item)
                told = told or item[0] == ARRAY or (item[0] == "td" and item[3] is None)
        names = None if node._names is None else tuple(node._names)
        sizes = None if told and dims else tuple(node._batch_size)
        # The fields of `_Node`, which would take twice as long to make.
        return ("td", wrapper, dims, sizes, names, node._device, node._locked, tuple(entries), *items)

    def _passes(self, entry: Any, dims: int, key: str, place: int) -> bool:
        form = (self._without or {}).get((place, key))
        return form is not None and Flattener()._entry(entry, dims, "", key, 0) == form

    def _entry(self, entry: Any, dims: int, name: str, key: str, place: int) -> Structure:
        held = isinstance(entry, HostArray | ArrayHolder | np.ndarray) or is_device_leaf(entry)
        if held and not isinstance(entry, UnbatchedTensor):
            self._leaf(entry, (place, key), dims, ENTRY)
            return (ARRAY,)
        node = Container._as_node(entry)
        if isinstance(entry, NonTensorBase | UnbatchedTensor):
            return ("object", Held(entry))
        if node is None:
            raise TypeError(f"{name}[{key!r}] must be an array of NumPy, got a {type(entry).__name__}.")
        return self._container(entry, node, f"{name}[{key!r}]")


_COUNT, _KEYS = len(_Node._fields), _Node._fields.index("keys")


class Builder:
    """Puts values together again.

    Args:
        leaves: in the order in which they were found.
        given: the containers that stand for themselves.

    Attributes:
        containers: the TensorDicts that were made, in order.
        others: the lists, dicts and dataclasses that were made.
    """

    def __init__(self, leaves: Iterator[Any], given: list[Any] | None = None) -> None:
        self._leaves = leaves
        self._given = given or []
        self.containers: list[Any] = []
        self.others: list[Any] = []

    def build(self, structure: Structure) -> Any:
        """The value of a structure."""
        tag = structure[0]
        if tag in (ARRAY, NUMBER, GENERATOR):
            leaf = next(self._leaves)
            # Of an array without dimensions NumPy's functions give a number.
            return leaf[()] if type(leaf) is np.ndarray and not leaf.ndim else leaf
        if tag == SIZE:
            return int(next(self._leaves))
        if tag == "static":
            return structure[2]
        if tag == "object":
            return structure[1].entry
        if tag == "tuple":
            return tuple([self.build(item) for item in structure[1:]])
        if tag in ("list", "dict", "data"):
            items = [self.build(item) for item in structure[_ITEMS[tag] :]]
            out: Any = items
            if tag == "dict":
                out = dict(zip(structure[1], items, strict=True))
            elif tag == "data":
                out = object.__new__(structure[1])
                for key, item in zip(structure[2], items, strict=True):
                    object.__setattr__(out, key, item)  # of a frozen one, too
            self.others.append(out)
            return out
        if tag == "named":
            return structure[1](*[self.build(item) for item in structure[2:]])
        if tag == "given":
            return self._given[structure[1]]
        return self._container(structure)

    def _container(self, structure: Structure) -> Any:
        place = len(self.containers)
        self.containers.append(None)
        if structure[0] == "stack":
            _, wrapper, dim, name, locked, empty, *inner = structure
            parts = [self._container(item) for item in inner]
            out: Any = class_registry.lazy._make(parts, dim, name, empty)
        else:
            node = _Node(*structure[:_COUNT])
            data: dict[str, Any] = {}
            objects: list[str] = []
            sizes: Any = node.sizes
            for key, item in zip(node.keys, structure[_COUNT:], strict=True):
                tag = item[0]
                if tag == ARRAY:
                    entry = data[key] = next(self._leaves)
                    if sizes is None:
                        sizes = tuple(raw(entry).shape[: node.dims])
                elif tag == "td" or tag == "stack":
                    entry = data[key] = self._container(item)
                    if sizes is None:
                        sizes = tuple(entry.batch_size[: node.dims])
                else:
                    data[key] = item[1].entry
                    objects.append(key)
            for key in objects:
                entry = data[key]
                if isinstance(entry, NonTensorData) and entry.batch_size != sizes:
                    data[key] = entry._rebatch(sizes)
            names = None if node.names is None else list(node.names)
            out = class_registry.dense._make(data, sizes, node.device, names)
            locked, wrapper = node.locked, node.wrapper
        self.containers[place] = out
        if locked:
            out.lock_()
        return (
            out
            if wrapper is None or not hasattr(wrapper, "_wrap_tensordict")
            else wrapper._wrap_tensordict(out)
        )


# Where the structures of the items begin.
_ITEMS = {"list": 1, "tuple": 1, "dict": 2, "named": 2, "data": 3, "td": _COUNT, "stack": 6}


def leaf_count(structure: Structure) -> int:
    """How many leaves a structure has."""
    tag = structure[0]
    if tag in (ARRAY, NUMBER, SIZE, GENERATOR):
        return 1
    if tag in ("static", "given", "object"):
        return 0
    return sum(map(leaf_count, structure[_ITEMS[tag] :]))


def plain_part(structure: Structure) -> Any:
    """A structure with types in place of objects: what two traces of one function have in common."""
    tag = structure[0]
    if tag == "static":
        plain = issubclass(structure[1], int | float | str | bytes | type(None))
        return structure if plain else structure[:2]
    if tag == "object":
        return tag
    first = _ITEMS.get(tag, len(structure))
    return (*structure[:first], *map(plain_part, structure[first:]))


def containers_of(structure: Structure) -> Iterator[tuple[str, ...]]:
    """The keys of each container in a structure, in order; none of a lazy stack."""
    tag = structure[0]
    if tag == "td":
        yield structure[_KEYS]
    elif tag == "stack":
        yield ()
    for item in structure[_ITEMS.get(tag, len(structure)) :]:
        yield from containers_of(item)


def memory_of(array: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """What two arrays have in common that are one."""
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.str


FIXED = 3  # the level at which no size is dynamic


def dynamic_shapes(flat: Flattener, level: int) -> tuple[Any, ...]:
    """The shape of each leaf, with names or -1, -2, ... in place of dynamic sizes; equal sizes are one.

    Dynamic are the batch axes of entries, at levels up to 1 those of arguments that are arrays, too, and at
    level 0 those of all arrays.
    """
    numbers: dict[int, int] = {}
    named: dict[str, int] = {}
    out = []
    for leaf, (count, kind) in zip(flat.leaves, flat.batches, strict=True):
        shape = getattr(leaf, "shape", ())
        if type(count) is dict:
            for axis, label in count.items():
                if axis < len(shape) and named.setdefault(label, shape[axis]) != shape[axis]:
                    raise ValueError(
                        f"the dynamic size {label!r} is {named[label]} and {shape[axis]} in one call: give "
                        "different sizes different names."
                    )
            shape = tuple([count.get(axis, n) for axis, n in enumerate(shape)])
        elif count > 0 and kind + level < FIXED:
            shape = tuple(
                [
                    numbers.setdefault(n, -1 - len(numbers)) if axis < count and n > 1 else n
                    for axis, n in enumerate(shape)
                ]
            )
        out.append(shape)
    return tuple(out)
