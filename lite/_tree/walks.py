"""Traversals of a tree of containers, which call the operation's functions on every leaf or node.

    leaves     every array                                          sizes, addresses, writes of one value
    nodes      every container, parents first                       devices, locks
    map_tree   the same tree with other leaves                      casts, reductions, new arrays
    zip_tree   several trees, matched by key                        comparisons
    lifted     the method on every part of a lazy stack             changes to the set of keys

Only these functions handle tensorclasses and entries that are not arrays. A lazy stack is visited part by
part, as ragged entries and entries of one part cannot be stacked. `key_views.walk` has the public order of
keys. Any other traversal says in its docstring why it is separate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, Protocol

from numpy import ndarray

from lite._arrays.types import Array, is_array
from lite._tree.nontensor import NonTensorBase
from lite._tree.protocol import Container, T, class_registry
from lite._tree.unbatched import UnbatchedTensor
from lite._tree.writes import Writes


def leaves(td: Container) -> Iterator[Any]:
    """Every array at any depth; for a lazy stack, the arrays of its parts."""
    stacked = td._parts()
    if stacked is not None:
        for part in stacked[0]:
            yield from leaves(part)
        return
    for _, entry in td._items():
        if is_array(entry):
            yield entry
        else:
            node = td._as_node(entry)
            if node is not None:
                yield from leaves(node)


def nodes(td: Container) -> Iterator[Any]:
    """The container and all nested ones, parents first; a lazy stack before its parts."""
    yield td
    stacked = td._parts()
    for entry in td._data.values() if stacked is None else stacked[0]:
        if type(entry) is not ndarray and (node := td._as_node(entry)) is not None:
            yield from nodes(node)


def deep_copy(td: T, memo: dict[int, Any]) -> T:
    """`copy.deepcopy`: a clone that shares arrays and nodes with other copies, as the originals do."""
    out: T = td._clone(True)
    memo[id(td)] = out
    _share_copies(td, out, memo)
    return out


def _share_copies(td: Container, out: Container, memo: dict[int, Any]) -> None:
    stacked = td._parts()
    if stacked is not None:
        for part, copied in zip(stacked[0], out._parts()[0], strict=True):  # type: ignore[index]
            _share_copies(part, copied, memo)
        return
    for key, entry in td._data.items():
        copied = out._data[key]
        node = None if is_array(entry) else td._as_node(entry)
        if node is None and not is_array(entry):
            continue
        found = memo.setdefault(id(entry), copied)
        if found is not copied and type(found) is type(copied):
            out._data[key] = found
        elif node is not None:
            _share_copies(node, out._as_node(copied), memo)


def map_kept(td: T, fn: Callable[[Array], Any]) -> T:
    """Replace every array; keep batch size, device, names, non-tensor data and the lock."""
    out: T = td._map_leaves(fn)
    if td.is_locked:
        out.lock_()
    return out


def keep_objects(entry: NonTensorBase, node: Container) -> Any:
    """For `map_tree`: a shallow copy of a non-tensor entry."""
    return entry._shallow_copy()


def like_leaf(entry: object, result: object) -> Any:
    """An array computed from a leaf, as an UnbatchedTensor if the leaf is one."""
    return entry._like(result) if isinstance(entry, UnbatchedTensor) and result is not None else result


def keep(entry: object, node: Container) -> Any:
    """For `map_tree`: the entry itself."""
    return entry


def _like(node: Container, entries: dict[str, Any]) -> Any:
    return node._with(entries)


def map_tree(
    td: Container,
    array: Callable[[Any, Container], Any],
    payload: Callable[[NonTensorBase, Container], Any] = keep_objects,
    node: Callable[[Any, dict[str, Any]], Any] = _like,
    dense: Callable[[Container], Container] | None = None,
) -> Any:
    """A tree of the same containers with other leaves, unlocked.

    Args:
        td: the tree.
        array: `array(leaf, container)` returns the new leaf; None leaves it out.
        payload: the same for non-tensor entries, which are kept by default.
        node: `node(container, entries)` returns the new container; by default one like the old.
        dense: converts a lazy stack to the container that is visited instead of its parts.
    """
    stacked = td._parts()
    if stacked is not None:
        if dense is None:
            return td._from_parts([map_tree(part, array, payload, node) for part in stacked[0]])
        td = dense(td)
        if td._parts() is not None:
            return td
    entries: dict[str, Any] = {}
    for key, entry in td._items():
        if type(entry) is ndarray:
            new = array(entry, td)
        elif is_array(entry):
            new = like_leaf(entry, array(entry, td))
        elif isinstance(entry, Container):
            new = map_tree(entry, array, payload, node, dense)
        elif isinstance(entry, NonTensorBase):
            new = payload(entry, td)
        else:  # a tensorclass
            new = td._rewrap(entry, map_tree(td._as_node(entry), array, payload, node, dense))
        if new is not None:
            entries[key] = new
    return node(td, entries)


class Counterpart(Protocol):
    """The operand that `zip_tree` matches with a container: another tree, or one value for all entries."""

    def leaf(self, key: str, entry: object) -> Any:
        """The operand for an entry that is not a container; None if there is none."""

    def child(self, key: str) -> Any:
        """The operand for a nested container."""

    def parts(self, count: int, dim: int) -> Sequence[Any]:
        """The operands for the parts of a lazy stack along `dim`."""


def zip_tree(
    td: Container,
    others: Sequence[Counterpart],
    leaf: Callable[[Container, str, Any, Sequence[Any]], Any],
    payload: Callable[[Container, str, Any, Sequence[Any]], Any],
    check: Callable[[Container, Sequence[Any]], None],
    finish: Callable[[Container, dict[str, Any], Sequence[Any]], Any],
    whole: Callable[[Container, Sequence[Any]], Any] | None = None,
) -> Any:
    """A tree computed from several: `leaf` and `payload` combine the entries of equal keys; unlocked.

    Args:
        td: the first tree, which decides the order of keys.
        others: a `Counterpart` for each of the other trees.
        leaf: `leaf(container, key, array, counterparts)` returns the new entry; None leaves it out.
        payload: the same for non-tensor entries.
        check: called with each container and its counterparts before its entries are visited.
        finish: `finish(container, entries, counterparts)` returns the new container.
        whole: called with each container, and each stack of them, and its counterparts before all others;
            what it returns is the new container, unless it is None.
    """
    if whole is not None:
        found = whole(td, others)
        if found is not None:
            return found
    stacked = td._parts()
    if stacked is not None:
        parts, dim = stacked
        columns = [other.parts(len(parts), dim) for other in others]
        return td._from_parts(
            [
                zip_tree(part, [column[i] for column in columns], leaf, payload, check, finish, whole)
                for i, part in enumerate(parts)
            ]
        )
    check(td, others)
    entries: dict[str, Any] = {}
    for key, entry in td._items():
        if type(entry) is ndarray:
            new = leaf(td, key, entry, others)
        elif is_array(entry):
            new = like_leaf(entry, leaf(td, key, entry, others))
        elif isinstance(entry, NonTensorBase):
            new = payload(td, key, entry, others)
        else:
            children = [other.child(key) for other in others]
            node = zip_tree(td._as_node(entry), children, leaf, payload, check, finish, whole)
            new = td._rewrap(entry, node)
        if new is not None:
            entries[key] = new
    return finish(td, entries, others)


def lifted(op: Callable[..., Any], inplace: bool = False) -> Callable[..., Any]:
    """An operation for lazy stacks, which calls its method on every part and stacks the results.

    In place, the parts change and the stack is returned. If the method raises for one part, no part changes.

    Args: op: the operation, which the parts have as a method of the same name. inplace: whether it always
        works in place. Names that end in "_" do; others take an argument `inplace`.
    """
    name = op.__name__
    always = inplace or name.endswith("_")

    @wraps(op)
    def on_parts(td: Any, *args: Any, **kwargs: Any) -> Any:
        changes = always or kwargs.get("inplace", False)
        return each_part(td, lambda part: getattr(part, name)(*args, **kwargs), changes)

    return on_parts


def each_part(td: Any, fn: Callable[[Any], Any], inplace: bool = False) -> Any:
    """`fn` of every part, stacked; in place, the stack after `fn` changed all parts or, on an error, none."""
    if not inplace:
        return td._from_parts([fn(part) for part in td.tensordicts])
    change_parts(td, td.tensordicts, fn)
    return td


def change_parts(td: Container, parts: Sequence[Any], fn: Callable[[Any], Any]) -> None:
    """Change parts of a stack by `fn`, each once even if it is repeated; on an error, none changes."""
    with Writes() as writes:
        writes.keep(td)  # fn may raise for one part after it changed others
        for part in {id(part): part for part in parts}.values():
            fn(part)


def require_shared(stack: Container, method: str) -> None:
    """Raise RuntimeError if a part has a key, at any depth, that another part lacks."""
    stacked = stack._parts()
    if stacked is not None and keys_differ(stacked[0]):
        raise RuntimeError(f"the method {method} cannot complete when there are exclusive keys.")


def keys_differ(entries: Sequence[Any]) -> bool:
    """Whether one of some containers has a key, at any depth, that another lacks.

    Parts of lazy stacks count as containers of their own, and leaves as containers without keys. All are
    compared node by node, so no paths are built.
    """
    kinds = set(map(type, entries))
    if kinds == {ndarray}:
        return False
    if kinds == {class_registry.dense}:
        dicts = [entry._data for entry in entries]
    else:
        dicts = [found for entry in entries for found in _all_dicts(entry)]
    if not dicts:
        return False
    if not all(map(dicts[0].keys().__eq__, map(dict.keys, dicts))):
        return True
    return any(keys_differ([found[key] for found in dicts]) for key in dicts[0])


def _all_dicts(entry: object) -> list[dict[str, Any]]:
    """The entries of a container, or of each dense one in a lazy stack."""
    node = Container._as_node(entry)
    parts = None if node is None else node._parts()
    if parts is None:
        return [{} if node is None else node._data]
    return [found for part in parts[0] for found in _all_dicts(part)] or [{}]
