"""`state_dict` and `load_state_dict`, with the names and metadata that torch's modules use.

Arrays are items of the mapping. Its `_metadata` has a dict for each node, and one for each object of a
TensorDict; objects of a tensorclass are in the dict of its node.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from numpy import ndarray

from lite._arrays.types import Shape, is_array, stored
from lite._tree.entry_errors import error_path
from lite._tree.lock import LOCK_ERROR
from lite._tree.nontensor import NonTensorBase, NonTensorData
from lite._tree.protocol import Container, T
from lite._tree.walks import require_shared
from lite._tree.writes import Writes

_LEGACY_SIZE, _LEGACY_DEVICE = _LEGACY = "__batch_size", "__device"
_TYPE, _OBJECTS = "_type", "_non_tensor"
_PAYLOAD, _IS_OBJECT = "data", "_is_non_tensor"  # of an object that has metadata of its own


class StateDict(OrderedDict[str, Any]):
    """Arrays by name, with the batch sizes, devices and objects of the nodes in `_metadata`."""

    _metadata: OrderedDict[str, dict[str, Any]]


def state_dict(
    td: Container, destination: Any = None, prefix: str = "", keep_vars: bool = False, flatten: bool = True
) -> Any:
    """The arrays as an ordered mapping; non-tensor data is in its `_metadata`.

    Args:
        destination: an ordered mapping to add to.
        prefix: put before every name.
        keep_vars: give parameters themselves instead of their arrays, and results of gradients with their
            derivatives; arrays are never copied.
        flatten: nested entries under names joined by "."; else in nested mappings.

    Raises:
        RuntimeError: a lazy stack with ragged or exclusive entries.

    Example:
        >>> from lite import TensorDict
        >>> list(TensorDict({"a": 1, "n": {"b": 2}}).state_dict())
        ['a', 'n.b']
    """
    return state_of(td, td, destination, prefix, keep_vars, flatten)


def state_of(
    owner: object, td: Container, destination: Any, prefix: str, keep_vars: bool, flatten: bool
) -> Any:
    """`state_dict` of a container that is the `owner` itself, or in it if that is a tensorclass."""
    if td._parts() is not None:
        require_shared(td, "state_dict")
    out = StateDict() if destination is None else destination
    metadata = getattr(out, "_metadata", None)
    if metadata is None:
        metadata = out._metadata = OrderedDict()
    own = metadata[prefix[:-1]] = _metadata_of(td)
    fields = getattr(owner, "_fields", None)
    objects: dict[str, Any] | None = None
    if fields is not None:
        present = td._keys()
        objects = {name: None for name in fields if name not in present}
        own.update({_TYPE: type(owner).__qualname__, _OBJECTS: objects})
    for key, entry in td._items():
        name = prefix + key
        if type(entry) is ndarray:
            out[name] = entry
        elif isinstance(entry, NonTensorBase):
            if objects is not None:
                objects[key] = _payload(entry)
            elif flatten:
                metadata[name] = _object_metadata(entry)
            else:
                out[name] = _state_of_object(entry)
        elif is_array(entry):
            out[name] = entry if keep_vars else stored(entry)
        elif flatten:
            entry.state_dict(out, f"{name}.", keep_vars)
        else:
            out[name] = entry.state_dict(None, "", keep_vars, False)
    return out


def _metadata_of(collection: Container | NonTensorBase) -> dict[str, Any]:
    return {"batch_size": collection.batch_size, "device": collection.device}


def _payload(entry: NonTensorBase) -> object:
    return entry.data if type(entry) is NonTensorData else entry._clone(False)


def _object_metadata(entry: NonTensorBase) -> dict[str, Any]:
    return {
        **_metadata_of(entry),
        _TYPE: type(entry).__name__,
        _OBJECTS: {_PAYLOAD: _payload(entry), _IS_OBJECT: True},
    }


def _state_of_object(entry: NonTensorBase) -> StateDict:
    """An object in a nested state dict."""
    out = StateDict()
    out._metadata = OrderedDict({"": _object_metadata(entry)})
    return out


def load_state_dict(
    td: T,
    state_dict: Mapping[str, Any] | Container,
    strict: bool = True,
    assign: bool = False,
    from_flatten: bool | None = None,
) -> T:
    """Take the arrays and the objects of a state dict; returns self.

    Args:
        state_dict: what `state_dict` gives, flat or nested, also in the older form with the keys
            "__batch_size" and "__device"; or a TensorDict, whose arrays and objects are taken.
        strict: require the same arrays on both sides. Empty nodes and objects do not count: objects are
            taken where the state dict has them, and stay where it has none.
        assign: store the arrays themselves instead of copying into self's arrays.
        from_flatten: whether names are joined by "."; detected unless given.

    Raises:
        RuntimeError: key sets differ, an array does not fit the batch size, or self is locked and
            an entry would be new.
        KeyError: `strict`, and the state dict has a name that is not a field of a tensorclass.
        ValueError: an array is given for an object of self, or an object for an array, unless `assign`.

    Example:
        >>> from lite import TensorDict
        >>> td = TensorDict({"n": {"b": 0}})
        >>> td.load_state_dict(TensorDict({"n": {"b": 3}}).state_dict())["n", "b"]
        array(3)
    """
    load_into(td, td, state_dict, strict, assign, from_flatten)
    return td


def load_into(
    owner: object, td: Container, state_dict: Mapping[str, Any] | Container, strict: bool, assign: bool,
    from_flatten: bool | None,
) -> None:  # fmt: skip
    """`load_state_dict` of a container that is the `owner` itself, or in it if that is a tensorclass."""
    given: Any = state_dict if td._as_node(state_dict) is None else _mapping(td, state_dict)
    metadata = getattr(given, "_metadata", None)
    if from_flatten is None:
        # A nested state dict keeps the metadata of its nodes in them.
        from_flatten = metadata is not None and (not metadata.keys() <= {""} or set(given) != set(td._keys()))
    state = _nested(given, metadata, [key for key in td._keys() if "." in key]) if from_flatten else given
    if strict:
        _check_keys(owner, td, state)
    with Writes() as writes:
        _load(owner, td, state, assign, writes)


def _mapping(td: Container, tree: Any) -> dict[str, Any]:
    """The arrays and objects of a TensorDict in nested dicts, without its batch sizes."""
    out: dict[str, Any] = {}
    for key, entry in td._as_node(tree)._items():
        if isinstance(entry, NonTensorBase):
            out[key] = _state_of_object(entry)
        elif is_array(entry):
            out[key] = entry
        else:
            out[key] = _mapping(td, entry)
    return out


class _Node(dict[str, Any]):
    """A node made from a flat state dict."""

    __slots__ = ("_metadata",)
    _metadata: dict[str, Any]


def _nested(flat: Mapping[str, Any], metadata: Mapping[str, Any] | None, dotted: list[str]) -> _Node:
    """A flat state dict as a nested one, whose nodes have their own metadata; `dotted` keys stay whole."""
    out = _Node()
    for name, value in flat.items():
        path = _path(name, dotted)
        node = _node(out, path[:-1])
        if node is None:
            raise RuntimeError(f"the name {name!r} is below an array of the state dict.")
        node[path[-1]] = value
    for name, own in (metadata or {}).items():
        node = _node(out, _path(name, dotted) if name else [])
        if node is not None:
            node._metadata = {"": own}
    return out


def _path(name: str, dotted: list[str]) -> list[str]:
    for key in dotted:
        if name == key or name.startswith(f"{key}."):
            return [key, *name.split(".")[key.count(".") + 1 :]]
    return name.split(".")


def _node(root: _Node, path: list[str]) -> _Node | None:
    """The node at a path, created if missing; None if something else is there."""
    node = root
    for key in path:
        found = node.get(key)
        if found is None:
            found = node[key] = _Node()
        elif type(found) is not _Node:
            return None
        node = found
    return node


def _items(state: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [item for item in state.items() if item[0] not in _LEGACY]


def _node_metadata(state: object) -> dict[str, Any]:
    """The metadata of a node of a nested state dict."""
    return getattr(state, "_metadata", {}).get("", {})


def _object(value: object) -> NonTensorBase | None:
    """The object of an item of a nested state dict, None if it is not an object."""
    metadata = {} if type(value) is ndarray else _node_metadata(value)
    objects = metadata.get(_OBJECTS, {})
    return _as_entry(objects[_PAYLOAD], metadata["batch_size"]) if _IS_OBJECT in objects else None


def _as_entry(payload: object, batch_size: Shape) -> NonTensorBase:
    if isinstance(payload, NonTensorBase):
        return payload._clone(False)
    return NonTensorData._make(payload, tuple(batch_size))


def _is_empty(value: object) -> bool:
    if type(value) is ndarray:  # faster than `isinstance` of an abstract class
        return False
    if not isinstance(value, Mapping):
        return False
    objects = _node_metadata(value).get(_OBJECTS, {}).values()
    if any(payload is not None for payload in objects):
        return False
    return all(_is_empty(item) for _, item in _items(value))


def _has_arrays(node: Container) -> bool:
    return any(
        is_array(entry) or ((inner := node._as_node(entry)) is not None and _has_arrays(inner))
        for _, entry in node._items()
    )


def _check_keys(owner: object, td: Container, state: Mapping[str, Any]) -> None:
    extra, missing = _unmatched(owner, td, state, "")
    if extra or missing:
        raise RuntimeError(
            "Cannot load state-dict because the key sets don't match: got state_dict extra keys "
            f"{sorted(extra)} and tensordict extra keys {sorted(missing)}."
        )


def _unmatched(
    owner: object, td: Container, state: Mapping[str, Any], prefix: str
) -> tuple[list[str], list[str]]:
    """The names that only the state dict has, and those of arrays that only self has."""
    fields = getattr(owner, "_fields", None)
    extra = {
        name
        for name, value in _items(state)
        if type(value) is ndarray or (not _is_empty(value) and _object(value) is None)
    }
    if fields is not None:
        extra |= _node_metadata(state).get(_OBJECTS, {}).keys() - fields.keys()
    missing, inner = [], []
    for key, entry in td._items():
        node = None if type(entry) is ndarray else td._as_node(entry)
        given = state.get(key)
        if node is not None and isinstance(given, Mapping) and _object(given) is None:
            extra.discard(key)
            inner.append(_unmatched(entry, node, given, f"{prefix}{key}."))
        elif key in extra or (given is not None and _object(given) is not None):
            extra.discard(key)
        elif is_array(entry) or (node is not None and _has_arrays(node)):
            missing.append(prefix + key)
    if extra and fields is not None:
        first = prefix + min(extra)
        raise KeyError(
            f"Key {first!r} wasn't expected in the state-dict of a {type(owner).__name__} with the entries "
            f"{sorted(td._keys())}."
        )
    found = [prefix + key for key in extra]
    for more, less in inner:
        found += more
        missing += less
    return found, missing


def _load(owner: object, td: Container, state: Mapping[str, Any], assign: bool, writes: Writes) -> None:
    """Load a node of a nested state dict; names that are not fields of a tensorclass are skipped."""
    metadata = _node_metadata(state)
    size = tuple(metadata.get("batch_size", state.get(_LEGACY_SIZE, td.batch_size)))
    if size != td.batch_size:
        writes.keep(td)
        td.batch_size = size
    fields = getattr(owner, "_fields", None)
    for key, payload in metadata.get(_OBJECTS, {}).items():
        if fields is not None and key not in fields:
            continue
        if payload is not None:
            td._set_here(key, _as_entry(payload, size), not assign, writes)
        elif isinstance(td._get_entry(key), NonTensorBase):
            if td._locked:
                raise RuntimeError(LOCK_ERROR)
            writes.keep(td)
            td._remove(key)
    for key, value in _items(state):
        if fields is not None and key not in fields:
            continue
        if type(value) is ndarray or not isinstance(value, Mapping):
            td._set_here(key, value, not assign, writes)
            continue
        found = _object(value)
        if found is not None:
            td._set_here(key, found, not assign, writes)
            continue
        entry = td._get_entry(key)
        node = td._as_node(entry)
        if node is not None:
            with error_path(key):
                _load(entry, node, value, assign, writes)
        elif not _is_empty(value):
            node = td._with({})
            with error_path(key):
                _load(node, node, value, True, writes)
            td._set_here(key, node, not assign, writes)
