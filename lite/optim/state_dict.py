"""State dicts of optimisers, which are torch's: arrays by the number of their parameter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from lite import TensorDict, from_dlpack
from lite.nn import Parameter

Groups = list[dict[str, Any]]

_MOST_STEPS = 1 << 62
_NEWER = frozenset({"initial_lr", "maximize", "decoupled_weight_decay"})  # older versions of torch lack some


def saved(groups: Groups, state: Mapping[Parameter, Mapping[str, Any]], as_torch: bool) -> dict[str, Any]:
    """See `Optimizer.state_dict`."""
    numbers = {id(param): i for i, param in enumerate(p for group in groups for p in group["params"])}
    found = {}
    for param, entries in state.items():
        if entries:
            arrays = {k: np.array(v, np.float32) if k == "step" else v for k, v in entries.items()}
            found[numbers[id(param)]] = (
                TensorDict(arrays).to_torch(as_dict=True, copy=True) if as_torch else arrays
            )
    return {
        "state": found,
        "param_groups": [
            {**group, "params": [numbers[id(param)] for param in group["params"]]} for group in groups
        ],
    }


def loaded(
    owner: str, state_dict: Mapping[str, Any] | TensorDict, groups: Groups, slots: set[str], counts: bool
) -> tuple[Groups, dict[Parameter, dict[str, Any]]]:
    """Groups and state for `Optimizer.load_state_dict`, which has checked nothing yet.

    Args:
        owner: the optimiser's class, for errors.
        state_dict: what was saved.
        groups: the optimiser's, whose Parameters stay.
        slots: the arrays that it may keep.
        counts: whether it counts steps.
    """
    if isinstance(state_dict, TensorDict):
        state_dict = _nested(state_dict, groups, counts)
    if not isinstance(state_dict, Mapping) or not {"state", "param_groups"} <= set(state_dict):
        raise ValueError("state_dict must be one of an optimiser, with 'state' and 'param_groups'.")
    new = state_dict["param_groups"]
    if len(new) != len(groups):
        raise ValueError(f"state_dict has {len(new)} parameter groups, the optimiser has {len(groups)}.")
    params: dict[Any, Parameter] = {}
    for i, (group, mine) in enumerate(zip(new, groups, strict=True)):
        if len(group["params"]) != len(mine["params"]):
            raise ValueError(
                f"group {i} of state_dict has {len(group['params'])} parameters, the optimiser's has "
                f"{len(mine['params'])}."
            )
        missing = [name for name in mine if name not in group and name not in _NEWER]
        if missing:
            raise ValueError(f"group {i} of state_dict lacks {missing}: it is not one of {owner}.")
        params.update(zip(group["params"], mine["params"], strict=True))
    state = {}
    for number, entries in state_dict["state"].items():
        if number not in params:
            raise ValueError(f"state_dict has state for parameter {number}, which no group has.")
        state[params[number]] = _entries(owner, number, entries, params[number], slots, counts)
    return [
        {**_known(mine), **group, "params": mine["params"]} for group, mine in zip(new, groups, strict=True)
    ], state


def _nested(found: TensorDict, groups: Groups, counts: bool) -> dict[str, Any]:
    """The state dict of what a step that is a file holds of an optimiser: arrays by dotted names."""
    state: defaultdict[int, dict[str, Any]] = defaultdict(dict)
    new, last = [], 0
    for i, group in enumerate(groups):
        first, last = last, last + len(group["params"])
        rate = found.get(f"param_groups.{i}.lr", group["lr"])
        new.append({**group, "params": [*range(first, last)], "lr": float(rate)})
    for key, array in found.items():
        part, number, name = f"{key}..".split(".")[:3]
        if part == "state" and (not counts or f"state.{number}.step" in found):  # those that began
            state[int(number)][name] = array
    return {"state": state, "param_groups": new}


def _entries(
    owner: str, number: Any, entries: Mapping[str, Any], param: Parameter, slots: set[str], counts: bool
) -> dict[str, Any]:
    unknown = sorted(set(entries) - slots - ({"step"} if counts else set()))
    if unknown or (counts and "step" not in entries):
        what = f"has {unknown}" if unknown else "lacks 'step'"
        raise ValueError(f"state of parameter {number} in state_dict {what}: it is not one of {owner}.")
    out: dict[str, Any] = {}
    for name, value in entries.items():
        if value is None:  # torch, before the first step
            continue
        array = from_dlpack(value) if hasattr(value, "__dlpack__") else np.asarray(value)
        if name == "step":
            if array.ndim or not 0 <= array < _MOST_STEPS:
                raise ValueError(
                    f"'step' of parameter {number} in state_dict must be a number of steps, got {array}."
                )
            out[name] = int(array)
            continue
        if array.shape != param.shape:
            raise ValueError(
                f"{name!r} of parameter {number} in state_dict has the shape {array.shape}, the parameter "
                f"has {param.shape}."
            )
        out[name] = np.array(array, param.dtype)
    return out


def _known(group: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name in _NEWER and name != "initial_lr"}
