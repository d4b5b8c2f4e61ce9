"""The state of a lazy stack, and reads of its entries: each is found in all parts, and then stacked.

Most parts are TensorDicts of arrays and TensorDicts, whose dicts are read directly. Other parts are read by
their methods, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import MappingProxyType, NoneType
from typing import Any, NamedTuple, Self

from numpy import ndarray

from lite._arrays.types import Array, Names, Path, Shape
from lite._containers.joining import JoinFunctions, join_column
from lite._containers.ragged import stack_arrays, stack_objects
from lite._tree.collection import Entry
from lite._tree.entry_errors import entry_error, prefix_error_path
from lite._tree.nontensor import NonTensorBase
from lite._tree.protocol import Container, class_registry
from lite._tree.walks import keys_differ

_new = object.__new__


class Stack(Container):
    """A container of parts, and the dimension that they are stacked along."""

    __slots__ = ("_dim_name", "_empty_device", "_empty_size", "stack_dim", "tensordicts")
    _data: Any = MappingProxyType({})  # the entries are in the parts
    tensordicts: list[Any]
    stack_dim: int
    _dim_name: str | None
    _empty_size: Shape
    _empty_device: str | None  # only set for a stack without parts

    @classmethod
    def _make(cls, parts: list[Any], dim: int, name: str | None = None, empty_size: Shape = ()) -> Self:
        """The constructor without checks; `empty_size` is the batch size of a part if there are no parts."""
        self = _new(cls)
        self.tensordicts = parts
        self.stack_dim = dim
        self._dim_name = name
        self._empty_size = empty_size
        self._locked = False
        self._lock_parents = ()
        return self

    def _like(
        self, parts: Sequence[Any], dim: int, name: str | None = None, inner: Shape | None = None
    ) -> Self:
        return self._make(list(parts), dim, name, self._empty_size if inner is None else inner)

    def _parts(self) -> tuple[Sequence[Any], int]:
        return self.tensordicts, self.stack_dim

    def _from_parts(self, parts: Sequence[Any]) -> Self:
        return self._like(parts, self.stack_dim, self._dim_name)

    def _pieces(self, entry: Entry | Array) -> Sequence[Any]:
        """The pieces of an entry of the whole stack, one per part."""
        return pieces_along(entry, self.stack_dim)

    def _part_size(self) -> Shape:
        """The batch size of the parts, with -1 where they differ."""
        try:
            sizes = distinct([part._batch_size for part in self.tensordicts])
        except AttributeError:
            sizes = {part.batch_size for part in self.tensordicts}
        if len(sizes) == 1:
            return sizes.pop()
        if not sizes:
            return self._empty_size
        if len({len(size) for size in sizes}) > 1:
            raise RuntimeError(
                f"the parts of a lazy stack have different numbers of batch dimensions: {sorted(sizes)}. "
                "They were changed after they had been stacked."
            )
        return tuple(n[0] if len(set(n)) == 1 else -1 for n in zip(*sizes, strict=True))

    # -- names of the dimensions: those of the parts, asked each time as they can be renamed alone ---

    def _found_names(self) -> set[tuple[str | None, ...] | None]:
        return {None if part._names is None else tuple(part._names) for part in self.tensordicts}

    @property
    def _names(self) -> Names:
        """The names of results: dimensions that the parts name differently have no name."""
        found = self._found_names()
        own, dim = self._dim_name, self.stack_dim
        if found and None not in found:
            columns = zip(*found, strict=True)
            inner = [names[0] if len(set(names)) == 1 else None for names in columns]
        elif own is None:
            return None
        else:
            inner = [None] * len(self._part_size())
        if own is None and not any(inner):
            return None
        # A part can be renamed without a check by the stack.
        inner = [None if name == own else name for name in inner]
        return [*inner[:dim], own, *inner[dim:]]

    @_names.setter
    def _names(self, names: Names) -> None:
        self._dim_name = None if names is None else names[self.stack_dim]


def distinct(values: list[Any]) -> set[Any]:
    """The distinct values. `list.count` detects the frequent case of one value faster than a set."""
    return {values[0]} if values and values.count(values[0]) == len(values) else set(values)


def pieces_along(entry: Entry | Array, dim: int) -> Sequence[Any]:
    """The pieces of an array or a collection along a dimension."""
    if isinstance(entry, Entry):
        return entry.unbind(dim)
    at: tuple[Any, ...] = (slice(None),) * dim
    return [entry[(*at, i, ...)] for i in range(entry.shape[dim])] if entry.ndim > dim else []


_ARRAYS = {ndarray}


def _dicts(stack: Stack) -> list[dict[str, Any]] | None:
    """The dicts of entries of all parts; None if one is empty, as that of a lazy stack is."""
    dicts = [part._data for part in stack.tensordicts]
    return dicts if all(dicts) else None  # a lazy stack has none, and an empty one is rare


def keys(stack: Stack) -> Iterable[str]:
    return _shared_keys(stack, _dicts(stack))


def _shared_keys(stack: Stack, dicts: list[dict[str, Any]] | None) -> list[str]:
    if not stack.tensordicts:
        return []
    first, *others = [part._keys() for part in stack.tensordicts] if dicts is None else dicts
    return sorted(set(first).intersection(*others))


def get_entry(stack: Stack, key: str | Path) -> Any:
    path = (key,) if isinstance(key, str) else key
    entries = _part_entries(stack.tensordicts, path)
    if entries is None:
        try:
            entries = _until_missing(stack.tensordicts, lambda part: part._get_entry(path))
        except RuntimeError:  # a part is ragged at a nested key, which matters only if all parts have it
            if stack._peek_entry(path) is None:
                return None
            raise
    return stacked(stack, path, entries)


def stacked(stack: Stack, path: Path, entries: list[Any]) -> Any:
    """The stack of the entries of the parts at a path; None if a part has none."""
    if not entries:
        return None
    try:
        out = join_column(entries, READ, stack.stack_dim)
    except RuntimeError as error:
        prefix_error_path(error, *path)
        raise
    if stack._dim_name is not None and (node := stack._as_node(out)) is not None:
        node._dim_name = stack._dim_name
    return out


def _lazy_stack(nodes: list[Any], dim: int, name: str | None = None) -> Any:
    """A lazy stack of containers. Their batch sizes may differ, but not their numbers of dimensions."""
    try:
        sizes = [node._batch_size for node in nodes]  # takes a third of the time of the property
    except AttributeError:
        sizes = [node.batch_size for node in nodes]
    if sizes.count(sizes[0]) < len(sizes) and len(set(map(len, sizes))) > 1:
        raise entry_error(RuntimeError, f"the entries{{at}} of a lazy stack are of different kinds: {sizes}.")
    return class_registry.lazy._make(nodes, dim, name)


READ = JoinFunctions("read from a lazy stack", stack_arrays, stack_objects, _lazy_stack)


def peek_entry(stack: Stack, key: str | Path) -> Any:
    """The stack of nested containers at a path, or the leaf of one part."""
    path = (key,) if isinstance(key, str) else key
    entries = _part_entries(stack.tensordicts, path)
    if entries is None:
        entries = _until_missing(stack.tensordicts, lambda part: part._peek_entry(path))
    return _peeked(stack, path, entries)


def _peeked(stack: Stack, path: Path, entries: list[Any]) -> Any:
    found = set(map(type, entries))
    if not entries or NoneType in found:
        return None
    if type(entries[0]) is ndarray:
        return entries[0]
    if found == {class_registry.dense}:
        try:
            return _lazy_stack(entries, stack.stack_dim, stack._dim_name)
        except RuntimeError as error:
            prefix_error_path(error, *path)
            raise
    leaf = next((entry for entry in entries if stack._as_node(entry) is None), None)
    return stacked(stack, path, entries) if leaf is None else leaf


def items(stack: Stack, peek: bool = False) -> Iterable[tuple[str, Any]]:
    dicts = _dicts(stack)
    shared = _shared_keys(stack, dicts)
    if not dicts:
        read = stack._peek_entry if peek else stack._get_entry
        return ((key, read(key)) for key in shared)
    one = _peeked if peek else stacked
    return ((key, one(stack, (key,), [entries.get(key) for entries in dicts])) for key in shared)


def node_at(stack: Stack, path: Path) -> Any:
    """The lazy stack of the nodes at a path through dense TensorDicts; None if one of them is not dense."""
    nodes = _part_entries(stack.tensordicts, path)
    if nodes and set(map(type, nodes)) == {class_registry.dense}:
        return _peeked(stack, path, nodes)
    return None


def _part_entries(parts: Sequence[Any], path: Path) -> list[Any] | None:
    """The entry of each part at a path through TensorDicts; None if the path leads through anything else."""
    found = []
    dense = class_registry.dense
    try:
        for node in parts:
            for name in path:
                if type(node) is not dense:
                    return None
                node = node._data[name]
            found.append(node)
    except KeyError:
        return [None]  # a stack lacks an entry that one part lacks
    return found


def _until_missing(parts: Sequence[Any], read: Callable[[Any], Any]) -> list[Any]:
    """`read(part)` for each part, up to the first None."""
    found = []
    for part in parts:
        found.append(read(part))
        if found[-1] is None:
            break
    return found


def is_stackable(stack: Stack) -> bool:
    """Whether all entries can be stacked: parts have one batch size and the same keys, leaves one shape.

    Shapes are compared, nothing is stacked.
    """
    if -1 in stack.batch_size or keys_differ(stack.tensordicts):
        return False
    forms = [_form(stack, key) for key in stack._keys()]
    return all(form is not None and (form.node is None or is_stackable(form.node)) for form in forms)


class _Form(NamedTuple):
    """The properties of an entry that decide whether it can be stacked with others."""

    kind: type
    shape: Shape
    node: Any = None  # the container, whose entries have not been read


def _form(td: Container, key: str) -> _Form | None:
    """The `_Form` of an entry; None if it cannot be read."""
    stacked = td._parts()
    if stacked is None:
        entry = td._get_entry(key)
        node = td._as_node(entry)
        if node is not None:
            return _Form(Container, node.batch_size, node)
        return _Form(NonTensorBase if isinstance(entry, NonTensorBase) else ndarray, tuple(entry.shape))
    parts, dim = stacked
    forms = [form for part in parts if (form := _form(part, key)) is not None]
    shapes = [form.shape for form in forms]
    if len(forms) < len(parts) or len({(form.kind, len(form.shape)) for form in forms}) > 1:
        return None
    kind, shape, node = forms[0]
    if node is not None:
        node = class_registry.lazy._make([form.node for form in forms], dim)
    elif len(set(shapes)) > 1:
        ragged = next(i for i, sizes in enumerate(zip(*shapes, strict=True)) if len(set(sizes)) > 1)
        if kind is ndarray or ragged < dim:
            return None
        shape = shape[:ragged]  # objects along later dimensions become lists
    return _Form(kind, (*shape[:dim], len(parts), *shape[dim:]), node)


def has_node(td: Container, path: Path) -> bool:
    """Whether at least one part has a node at a path."""
    if td._as_node(td._peek_entry(path)) is not None:
        return True
    parts = td._parts()
    return parts is not None and any(has_node(part, path) for part in parts[0])
