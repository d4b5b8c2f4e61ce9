"""State dicts in files: nested dicts and lists of arrays and plain values, as they were, without a pickle.

They are saved as a TensorDict: its entries are the arrays, by number, and under `%state_dict` a JSON text
that says where each of them stands among the plain values.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np

from lite._arrays.types import ArrayHolder, HostArray, raw
from lite._convert.state_dict import StateDict
from lite._tree.collection import TensorCollection
from lite._tree.nontensor import NonTensorData
from lite._tree.protocol import class_registry

_TREE = "%state_dict"
_PLAIN = (bool, int, float, str, type(None))


def from_state_dict(state: Mapping[Any, Any]) -> Any:
    """The TensorDict for a state dict.

    Raises:
        TypeError: there is something in it that is not an array, TensorDict or plain value.
    """
    entries: dict[str, Any] = {}
    tree = _described(state, "state", entries)
    return class_registry.dense({**entries, _TREE: NonTensorData(json.dumps(tree))})


def is_state_dict(td: Any) -> bool:
    """Whether `from_state_dict` made it."""
    return isinstance(td, class_registry.dense) and isinstance(td.get(_TREE, None), NonTensorData)


def to_state_dict(td: Any) -> dict[Any, Any]:
    """The state dict; its arrays are copies, which are not in the file.

    Raises:
        ValueError: it is damaged.
    """
    try:
        found = _built(json.loads(td[_TREE]), td)
        if not isinstance(found, dict):
            raise ValueError(f"a {type(found).__name__}")
        return found
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise ValueError(f"the file has no state dict, or a damaged one: {error!r}.") from None


def _described(value: Any, path: str, entries: dict[str, Any]) -> Any:
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Mapping) and not isinstance(value, TensorCollection):
        items = []
        for key, item in value.items():
            if type(key) not in _PLAIN:
                raise TypeError(f"keys of {path} must be texts or numbers, got {key!r}.")
            items.append([key, _described(item, f"{path}[{key!r}]", entries)])
        metadata = getattr(value, "_metadata", None)  # of a TensorDict: batch sizes and objects
        if metadata is None:
            return ["dict", items]
        return ["state_dict", items, _described(metadata, f"{path}._metadata", entries)]
    if type(value) in (list, tuple):
        items = [_described(item, f"{path}[{i}]", entries) for i, item in enumerate(value)]
        return [type(value).__name__, items]
    name = str(len(entries))
    if isinstance(value, TensorCollection):
        entries[name] = value
        return ["tensordict", name]
    if isinstance(value, np.ndarray | np.generic | HostArray | ArrayHolder):
        entries[name] = np.asarray(raw(value))
        return ["number" if isinstance(value, np.generic) else "array", name]
    raise TypeError(
        f"{path} must be an array, a TensorDict, a text, a number, None, or a dict or list of these, got a "
        f"{type(value).__name__}."
    )


def _built(tree: Any, td: Any) -> Any:
    if type(tree) in _PLAIN:
        return tree
    kind, what, *metadata = tree
    if kind == "dict":
        return {key: _built(item, td) for key, item in what}
    if kind == "state_dict":
        state = StateDict((key, _built(item, td)) for key, item in what)
        state._metadata = OrderedDict(_built(metadata[0], td))
        return state
    if kind in ("list", "tuple"):
        items = [_built(item, td) for item in what]
        return items if kind == "list" else tuple(items)
    entry = td.get(what)
    if kind == "tensordict" and isinstance(entry, TensorCollection) and not isinstance(entry, NonTensorData):
        return entry.clone()
    if kind not in ("array", "number") or not isinstance(entry, np.ndarray):
        raise ValueError(f"a {kind!r} of {type(entry).__name__}")
    return np.array(entry) if kind == "array" else entry[()]
