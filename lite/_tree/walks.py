"""The walks through a tree of containers: what an operation does to a leaf is given, the way through is here.

    leaves     every array                                          sizes, addresses, writes of one value
    nodes      every container, before those in it                  devices, locks
    map_tree   the same tree with other leaves                      casts, reductions, new arrays
    zip_tree   several trees, matched by key                        comparisons
    lifted     the method on every part of a lazy stack             changes to the set of keys

Only these know how a tensorclass holds its TensorDict, what is no array, and that a lazy stack is walked part
by part, so that ragged and exclusive entries take part. The order of keys that users see is that of
`key_views.walk`; whoever else goes another way says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, Protocol

from numpy import ndarray

from lite._arrays.types import Array, is_array
from lite._tree.nontensor import NonTensorBase
from lite._tree.protocol import Container, T
from lite._tree.unbatched import UnbatchedTensor
from lite._tree.writes import Writes


def leaves(td: Container) -> Iterator[Any]:
    """Every array at any depth; a lazy stack gives those of its parts, which are never stacked."""
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
    """The container and all below it, a parent before its children; a lazy stack before its parts."""
    yield td
    stacked = td._parts()
    for entry in td._values() if stacked is None else stacked[0]:
        if type(entry) is not ndarray and (node := td._as_node(entry)) is not None:
            yield from nodes(node)


def map_kept(td: T, fn: Callable[[Array], Any]) -> T:
    """Replace every array; batch size, device, names, non-tensors and lock state are kept."""
    out: T = td._map_leaves(fn)
    if td.is_locked:
        out.lock_()
    return out


def keep_objects(entry: NonTensorBase, node: Container) -> Any:
    """For `map_tree`: the same objects, in an entry of the result's own."""
    return entry._apart()


def as_of(entry: Any, result: Any) -> Any:
    """What was computed from a leaf, unbatched if that is."""
    return entry._like(result) if isinstance(entry, UnbatchedTensor) and result is not None else result


def keep(entry: Any, node: Container) -> Any:
    """For `map_tree`: the entry stays as it is."""
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
    """The same tree of containers with other leaves, unlocked.

    Args:
        td: the tree.
        array: gives what stands for an array, from it and the container that holds it; None leaves it out.
        payload: the same for non-tensor entries, which are kept unless it is given.
        node: makes a container from the one in its place and its new entries; one like it unless given.
        dense: gives the form of a lazy stack that is walked, instead of its parts; a lazy one is the result.
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
            new = as_of(entry, array(entry, td))
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
    """What goes with the entries of a container: another tree, or a value that is the same everywhere."""

    def leaf(self, key: str, entry: Any) -> Any:
        """What goes with an entry that is no container; None if there is nothing."""

    def child(self, key: str) -> Any:
        """The counterpart of a nested container."""

    def parts(self, count: int, dim: int) -> Sequence[Any]:
        """The counterparts of the parts of a lazy stack along `dim`."""


def zip_tree(
    td: Container,
    others: Sequence[Counterpart],
    leaf: Callable[[Container, str, Any, Sequence[Any]], Any],
    payload: Callable[[Container, str, Any, Sequence[Any]], Any],
    check: Callable[[Container, Sequence[Any]], None],
    finish: Callable[[Container, dict[str, Any], Sequence[Any]], Any],
) -> Any:
    """A tree from several: what `leaf` and `payload` make of the entries at the same places, unlocked.

    Args:
        td: decides the order.
        others: a `Counterpart` for each of the other trees.
        leaf: gives an entry from a container, the key, the array there, and what the container is met by;
            None leaves it out.
        payload: the same for non-tensor entries.
        check: called with each container and its counterparts before anything in it is visited.
        finish: makes a container from the one in its place, its new entries, and the counterparts.
    """
    stacked = td._parts()
    if stacked is not None:
        parts, dim = stacked
        columns = [other.parts(len(parts), dim) for other in others]
        return td._from_parts(
            [
                zip_tree(part, [column[i] for column in columns], leaf, payload, check, finish)
                for i, part in enumerate(parts)
            ]
        )
    check(td, others)
    entries: dict[str, Any] = {}
    for key, entry in td._items():
        if type(entry) is ndarray:
            new = leaf(td, key, entry, others)
        elif is_array(entry):
            new = as_of(entry, leaf(td, key, entry, others))
        elif isinstance(entry, NonTensorBase):
            new = payload(td, key, entry, others)
        else:
            below = [other.child(key) for other in others]
            node = zip_tree(td._as_node(entry), below, leaf, payload, check, finish)
            new = td._rewrap(entry, node)
        if new is not None:
            entries[key] = new
    return finish(td, entries, others)


def lifted(op: Callable[..., Any], inplace: bool = False) -> Callable[..., Any]:
    """The form of an operation for lazy stacks: its method on every part, and the results stacked.

    In place the parts change, and the stack is returned; if that fails for one of them, none has changed.

    Args:
        op: the operation, a method of the parts under its own name.
        inplace: always in place, as it is anyway if its name ends with "_"; else where the call says so.
    """
    name = op.__name__
    always = inplace or name.endswith("_")

    @wraps(op)
    def on_parts(td: Any, *args: Any, **kwargs: Any) -> Any:
        changes = always or kwargs.get("inplace", False)
        return each_part(td, lambda part: getattr(part, name)(*args, **kwargs), changes)

    return on_parts


def each_part(td: Any, fn: Callable[[Any], Any], inplace: bool = False) -> Any:
    """`fn` of every part, stacked; or, in place, every part changed or none, and the stack."""
    if not inplace:
        return td._from_parts([fn(part) for part in td.tensordicts])
    change_parts(td, td.tensordicts, fn)
    return td


def change_parts(td: Any, parts: Sequence[Any], fn: Callable[[Any], Any]) -> None:
    """Change some parts of a stack by `fn`: all of them, each once however often it is there, or none."""
    with Writes() as writes:
        writes.keep(td)  # a part may fail when others are done
        for part in {id(part): part for part in parts}.values():
            fn(part)
