"""Parameters, gradients and optimiser state as TensorDicts, and rows of the arrays that belong together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lite import TensorDict
from lite._arrays.dtypes import is_floating
from lite._arrays.types import Array, Path, is_array, is_interpreted, raw, stored
from lite._tree.nontensor import NonTensorBase
from lite._tree.walks import map_tree
from lite.nn._parameters.tree import tree_of


def new_state(params: Any, names: Sequence[str]) -> TensorDict:
    """The state before the first step: step 0, and zeros for each parameter under each name."""
    tree = tree_of(params, "params")

    def zeros(array: Any, node: Any) -> Any:
        return np.zeros_like(raw(array)) if is_floating(array.dtype) else None

    entries = {name: map_tree(tree, zeros, payload=lambda entry, node: None) for name in names}
    return TensorDict({"step": np.array(0, np.int64), **entries})


def check_state(owner: str, state: Any, names: Sequence[str]) -> None:
    """Raise ValueError if a TensorDict is not a state of this optimiser."""
    found = list(tree_of(state, "state")._keys())
    if sorted(found) != sorted(["step", *names]):
        raise ValueError(
            f"state is not one of {owner} with these options: expected the entries {['step', *names]}, got "
            f"{found}."
        )
    step: Any = raw(state["step"])
    is_one = isinstance(step, np.ndarray) or is_interpreted(step)
    if not is_one or step.shape != () or step.dtype.kind not in "iu":
        raise ValueError(f"state['step'] must be one integer, got {step!r}.")


def pair(
    params: Any, grads: Any, slots: Mapping[str, Any], names: tuple[str, str] = ("params", "grads")
) -> list[list[Array]]:
    """Each parameter with its gradient and its state, in order; errors call the first two by `names`.

    Raises:
        TypeError: an argument is not a TensorDict, or a leaf no NumPy array.
        ValueError: keys or shapes differ.
    """
    states = {f"state[{name!r}]": tree for name, tree in slots.items()}
    given = {names[0]: params, names[1]: grads, **states}
    found: list[list[Array]] = []
    _collect([tree_of(tree, name) for name, tree in given.items()], list(given), (), found)
    return found


def _collect(trees: list[Any], names: list[str], path: Path, found: list[list[Array]]) -> None:
    params = trees[0]
    stacked = params._parts()
    if stacked is not None:
        parts, dim = stacked
        columns = [
            _parts_of(tree, dim, len(parts), name, names[0])
            for tree, name in zip(trees[1:], names[1:], strict=True)
        ]
        for part in zip(parts, *columns, strict=True):
            _collect(list(part), names, path, found)
        return
    first, *others = [dict(tree._items()) for tree in trees]
    for entries, name in zip(others, names[1:], strict=True):
        if not entries.keys() <= first.keys():
            for key in entries.keys() - first.keys():
                if not isinstance(entries[key], NonTensorBase):
                    raise ValueError(
                        f"{name} has the entry {_show(path, key)}, which {names[0]} does not have."
                    )
    for key, entry in first.items():
        row = [entry, *[entries.get(key) for entries in others]]
        if is_array(entry):
            array = raw(entry)
            if not is_floating(array.dtype):
                continue  # a counter, or another buffer
            if array is not entry:  # a Parameter takes the value, as in torch's steps
                row[1] = stored(row[1])
            row[0] = array
            for k, value in enumerate(row):
                if type(value) is not np.ndarray or value.shape != array.shape or value.dtype != array.dtype:
                    row[k] = _fitting(value, array, names[k], names[0], _show(path, key))
            found.append(row)
        elif not isinstance(entry, NonTensorBase):
            nodes = [TensorDict._as_node(value) for value in row]
            for node, name in zip(nodes, names, strict=True):
                if node is None:
                    raise ValueError(
                        f"{name} must have a TensorDict at {_show(path, key)}, as {names[0]} has."
                    )
            _collect(nodes, names, (*path, key), found)


def _fitting(value: Any, param: Array, name: str, first: str, place: str) -> Array:
    """The array of a leaf, whose shape must be that of the parameter."""
    if value is None or not is_array(value):
        raise ValueError(f"{name} must have an array at {place}, as {first} has.")
    array = raw(value)
    if not isinstance(array, np.ndarray) and not is_interpreted(array):
        raise TypeError(f"{name} must hold NumPy arrays, got {type(array).__name__} at {place}.")
    if array.shape != param.shape:
        raise ValueError(f"{name} has the shape {array.shape} at {place}, {first} has {param.shape}.")
    if not is_floating(array.dtype):
        raise ValueError(f"{name} must hold floating numbers, got {array.dtype} at {place}.")
    return array


def _parts_of(tree: Any, dim: int, count: int, name: str, first: str) -> Sequence[Any]:
    stacked = tree._parts()
    parts = stacked[0] if stacked is not None and stacked[1] == dim else tree.unbind(dim)
    if len(parts) != count:
        raise ValueError(f"{name} must be a stack of {count}, as {first} is, got {len(parts)}.")
    return parts


def _show(path: Path, key: str) -> str:
    return repr((*path, key) if path else key)
