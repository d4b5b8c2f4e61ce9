"""`state_dict` and `load_state_dict`, with the names and metadata that torch's modules use."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from numpy import ndarray

from lite._arrays.types import is_array
from lite._containers.lazy_entries import require_shared
from lite._tree.protocol import Container, T
from lite._tree.writes import Writes

_LEGACY_SIZE, _LEGACY_DEVICE = _LEGACY = "__batch_size", "__device"


class StateDict(OrderedDict[str, Any]):
    """Entries by name, with the batch sizes and devices of the nodes in `_metadata`."""

    _metadata: OrderedDict[str, dict[str, Any]]


def state_dict(
    td: Container, destination: Any = None, prefix: str = "", keep_vars: bool = False, flatten: bool = True
) -> Any:
    """The arrays as an ordered mapping; non-tensor data is left out.

    Args:
        destination: an ordered mapping to add to.
        prefix: put before every name.
        keep_vars: accepted for compatibility; arrays are never copied.
        flatten: nested entries under names joined by "."; else in nested mappings.

    Raises:
        RuntimeError: a lazy stack with ragged or exclusive entries.

    Example:
        >>> from lite import TensorDict
        >>> list(TensorDict({"a": 1, "n": {"b": 2}}).state_dict())
        ['a', 'n.b']
    """
    _require_shared(td)
    out = StateDict() if destination is None else destination
    metadata = getattr(out, "_metadata", None)
    if metadata is None:
        metadata = out._metadata = OrderedDict()
    metadata[prefix[:-1]] = {"batch_size": td.batch_size, "device": td.device}
    for key, entry in td._items():
        node = td._as_node(entry)
        if node is None:
            if is_array(entry):
                out[prefix + key] = entry
        elif flatten:
            node.state_dict(out, f"{prefix}{key}.", keep_vars)
        else:
            out[prefix + key] = node.state_dict(None, "", keep_vars, False)
    return out


def load_state_dict(
    td: T,
    state_dict: Mapping[str, Any] | Container,
    strict: bool = True,
    assign: bool = False,
    from_flatten: bool | None = None,
) -> T:
    """Take the arrays of a state dict; returns self.

    Args:
        state_dict: what `state_dict` gives, flat or nested, also in the older form with the keys
            "__batch_size" and "__device"; or a TensorDict, whose arrays are taken.
        strict: require the same keys on both sides, empty nodes and non-tensor data aside.
        assign: store the arrays themselves instead of copying into self's arrays.
        from_flatten: whether names are joined by "."; found out unless given.

    Raises:
        RuntimeError: key sets differ, an array does not fit the batch size, or self is locked and
            an entry would be new.

    Example:
        >>> from lite import TensorDict
        >>> td = TensorDict({"n": {"b": 0}})
        >>> td.load_state_dict(TensorDict({"n": {"b": 3}}).state_dict())["n", "b"]
        array(3)
    """
    state: Any = state_dict if td._as_node(state_dict) is None else _mapping(td, state_dict)
    metadata = getattr(state, "_metadata", None)
    if from_flatten is None:
        from_flatten = metadata is not None and set(state) != set(td._keys())
    nested = _nested(state) if from_flatten else state
    if strict:
        _check_keys(td, nested, "")
    with Writes() as writes:
        _load(td, nested, metadata, "", assign, writes)
    return td


def _require_shared(td: Any) -> None:
    if td._parts() is not None:
        require_shared(td, "state_dict")


def _mapping(td: Any, tree: Any) -> dict[str, Any]:
    """The arrays of a TensorDict in nested dicts."""
    nodes = ((key, entry, td._as_node(entry)) for key, entry in td._as_node(tree)._items())
    return {
        key: entry if node is None else _mapping(td, node)
        for key, entry, node in nodes
        if node is not None or is_array(entry)
    }


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in flat.items():
        *parents, last = name.split(".")
        node = out
        for parent in parents:
            node = node.setdefault(parent, {})
            if not isinstance(node, dict):
                raise RuntimeError(f"the name {name!r} is below an array of the state dict.")
        node[last] = value
    return out


def _names(state: Mapping[str, Any]) -> list[str]:
    return [name for name in state if name not in _LEGACY]


def _check_keys(td: Any, state: Mapping[str, Any], prefix: str) -> None:
    extra = {name for name in _names(state) if not _is_empty(state[name])}
    missing = set()
    for key, entry in td._items():
        node = None if type(entry) is ndarray else td._as_node(entry)
        if node is not None and isinstance(state.get(key), Mapping):
            extra.discard(key)
            _check_keys(node, state[key], f"{prefix}{key}.")
        elif key in extra:
            extra.discard(key)
        elif is_array(entry) or (node is not None and not node.is_empty()):
            missing.add(key)
    if extra or missing:
        raise RuntimeError(
            "Cannot load state-dict because the key sets don't match: got state_dict extra keys "
            f"{sorted(prefix + key for key in extra)} and tensordict extra keys "
            f"{sorted(prefix + key for key in missing)}."
        )


def _is_empty(value: Any) -> bool:
    if type(value) is ndarray:  # an array is no mapping, which the type says faster than `isinstance`
        return False
    return isinstance(value, Mapping) and all(_is_empty(value[name]) for name in _names(value))


def _load(
    td: Any, state: Mapping[str, Any], metadata: Any, prefix: str, assign: bool, writes: Writes
) -> None:
    """Take the arrays of a node; `metadata` has the batch sizes of the tree, this node's under `prefix`."""
    if metadata is not None:
        size = metadata.get(prefix, {}).get("batch_size", td.batch_size)
    else:
        size = state.get(_LEGACY_SIZE, td.batch_size)
    if tuple(size) != td.batch_size:
        writes.keep(td)
        td.batch_size = tuple(size)
    for key in _names(state):
        value = state[key]
        if type(value) is ndarray or not isinstance(value, Mapping):
            td._set_here(key, value, not assign, writes)
            continue
        own = getattr(value, "_metadata", None)
        below = (metadata, f"{prefix}.{key}" if prefix else key) if own is None else (own, "")
        node = td._as_node(td._get_str(key))
        if node is None:
            if _is_empty(value):
                continue
            node = td._blank()
            _load(node, value, *below, True, writes)
            td._set_here(key, node, False, writes)
        else:
            _load(node, value, *below, assign, writes)
