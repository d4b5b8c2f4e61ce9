"""The parameters and buffers of modules as TensorDicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lite import NestedKey, TensorDict, stack
from lite import lazy_stack as lazily
from lite._arrays.foreign import class_name
from lite._arrays.types import computed, is_array, raw
from lite.nn._modules.initial import is_uninitialized
from lite.nn._modules.meta import MetaArray
from lite.nn._modules.module import Module
from lite.nn._modules.parameter import Parameter
from lite.nn._parameters.params import TensorDictParams


def from_module(
    module: Any,
    as_module: bool = False,
    lock: bool = False,
    use_state_dict: bool = False,
    filter_empty: bool = True,
) -> Any:
    """See `TensorDict.from_module`."""
    if not isinstance(module, Module):
        raise TypeError(f"module must be a Module, got {class_name(module)}.")
    out = _collect(module, "", use_state_dict, filter_empty)
    if out is None:
        out = TensorDict()
    if as_module and not isinstance(out, TensorDictParams):
        out = TensorDictParams(out, no_convert=True)
    return out.lock_() if lock else out


def _collect(module: Any, prefix: str, use_state_dict: bool, filter_empty: bool) -> Any:
    """The entries of a module and its children; None if there are none and `filter_empty`."""
    if isinstance(module, TensorDictParams):
        return module
    entries = _saved(module, prefix) if use_state_dict else _own(module)
    for name, child in module._modules.items():
        if child is None:
            continue
        node = _collect(child, f"{prefix}{name}.", use_state_dict, filter_empty)
        if node is not None:
            entries[name] = node
    return None if filter_empty and not entries else TensorDict._make(entries, ())


def _own(module: Any) -> dict[str, Any]:
    members = {**module._parameters, **module._buffers}
    return {name: value for name, value in members.items() if value is not None}


def _saved(module: Any, prefix: str) -> dict[str, Any]:
    """The state dict of the module, including its hooks."""
    for hook in tuple(module._state_dict_pre_hooks.values()):
        hook(module, prefix, False)
    entries: dict[str, Any] = {}
    module._save_to_state_dict(entries, "", False)
    for hook in tuple(module._state_dict_hooks.values()):
        if hook(module, entries, "", {}) is not None:
            raise RuntimeError("a state_dict post-hook edits the dict in place and must return None.")
    holder = TensorDict()
    return {name: v if is_array(v) else holder._convert(v) for name, v in entries.items()}


def from_modules(
    modules: Sequence[Any],
    as_module: bool,
    lock: bool,
    use_state_dict: bool,
    lazy_stack: bool,
    expand_identical: bool,
) -> Any:
    """See `TensorDict.from_modules`."""
    if lazy_stack and as_module:
        raise RuntimeError("lazy_stack=True and as_module=True exclude each other.")
    trees = [from_module(module, use_state_dict=use_state_dict) for module in modules]
    _require_shapes(trees)
    if lazy_stack:
        out = lazily(trees)
        return out.lock_() if lock else out
    _require_data(trees)
    if expand_identical:
        out = _stacked_or_expanded(trees)
    else:
        out = _like_first(stack([tree.data for tree in trees]), trees[0])
    if as_module:
        out = TensorDictParams(out, no_convert=True)
    return out.lock_() if lock else out


def _like_first(stacked: Any, first: Any) -> Any:
    """Replace stacked arrays by Parameters, in place, where the first module has Parameters."""
    for key, leaf in first.items(True, True):
        if isinstance(leaf, Parameter):
            stacked.set(key, Parameter(stacked.get(key), leaf.requires_grad))
    return stacked


def _require_shapes(trees: list[Any]) -> None:
    """Raise RuntimeError for uninitialised modules."""
    for number, tree in enumerate(trees):
        for key, leaf in tree.items(True, True):
            if is_uninitialized(leaf):
                raise RuntimeError(
                    f"module {number} has an uninitialized {key!r}: call each module once, or load a state "
                    "dict, before stacking them."
                )


def _require_data(trees: list[Any]) -> None:
    """Raise RuntimeError for parameters without data."""
    for number, tree in enumerate(trees):
        for key, leaf in tree.items(True, True):
            if isinstance(raw(leaf), MetaArray):
                raise RuntimeError(
                    f"module {number} has no data for {key!r} (meta device), so there is nothing to stack: "
                    "give it some with to_empty(device='cpu') or a state dict."
                )


def _stacked_or_expanded(trees: list[Any]) -> Any:
    keys = [set(tree.keys(True, True)) for tree in trees]
    for other in keys[1:]:
        if other != keys[0]:
            differing = sorted(map(str, keys[0] ^ other))
            raise ValueError(f"modules to stack must have the same keys; only some have {differing}.")
    out = trees[0].empty(True, batch_size=(len(trees),))
    for key in trees[0].keys(True, True):
        column = [tree.get(key) for tree in trees]
        out.set(key, _stacked_column(column, key))
    return out


def _stacked_column(column: list[Any], key: NestedKey) -> Any:
    first = column[0]
    if all(leaf is first for leaf in column):
        return np.broadcast_to(computed(first), (len(column), *first.shape))
    shapes = {tuple(leaf.shape) for leaf in column}
    if len(shapes) > 1:
        raise RuntimeError(f"parameters to stack must have one shape, got {sorted(shapes)} for {key!r}.")
    out = np.stack([raw(leaf) for leaf in column])
    return Parameter(out, first.requires_grad) if isinstance(first, Parameter) else out


def extract_weights_and_buffers(model: Any) -> Any:
    """See `TensorDict.from_module`: the parameters and buffers of a module.

    Args:
        model: the module.

    Example:
        >>> from lite import nn
        >>> mod = nn.TensorDictModule(nn.Linear(2, 3), in_keys=["x"], out_keys=["y"])
        >>> nn.extract_weights_and_buffers(mod)["module", "weight"].shape
        (3, 2)
    """
    return from_module(model)
