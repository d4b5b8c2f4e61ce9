"""The short way through a module: what a call needs, worked out once and kept until something changes.

Most calls hand a plain TensorDict of arrays (or the arrays themselves) to a module without hooks, selection
or options. Such a module keeps a plan in its `__dict__`; setting any attribute drops it, hooks and lists of
keys that are changed in place are looked at in each call. Every other call takes the long way, through
`forward`, which decides what a call does; the short way only leaves out what does not apply.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from numpy import ndarray

from lite._tree.keys import NestedKey, require_path
from lite.nn.tensordict_modules.dispatch import _enabled
from lite.nn.tensordict_modules.skip_existing import _active as _skip_existing

_NUMERIC = "fibuc"


class Plan(NamedTuple):
    """What the short way reads. Lists and dicts are the module's own, so that changes show."""

    hooks: dict[int, Any]
    pre_hooks: dict[int, Any]
    in_keys: list[Any]
    in_seen: list[Any]
    out_keys: list[Any]
    out_seen: list[Any]
    read: NestedKey | None  # the only input; None for several, or none
    names: tuple[str, ...] | None  # what the inputs are called as arguments; None if they are one entry
    write: NestedKey | None  # the only output; None for several, or for the sink
    target: Any  # what is called


def make_plan(module: Any, target: Any, short: bool) -> Plan | tuple[()]:
    """The plan of a module, kept in its `__dict__`; empty if every call has to go the long way."""
    state = module.__dict__
    plan: Plan | tuple[()] = ()
    if short and "_out_keys_apparent" not in state:
        in_keys, out_keys = state["_in_keys"], state["_out_keys"]
        paths = [require_path(key) for key in in_keys]
        names = tuple(["_".join(path) for path in paths])
        # Entries of which one is another, or in another, are for a TensorDict to sort out.
        heads = {path[0] for path in paths}
        below = {key[0] for key in out_keys if type(key) is tuple}
        apart = len(heads) == len(set(names)) == len(paths) and not heads & below
        plan = Plan(
            state["_forward_hooks"],
            state["_forward_pre_hooks"],
            in_keys,
            list(in_keys),
            out_keys,
            list(out_keys),
            in_keys[0] if len(in_keys) == 1 else None,
            names if apart else None,
            out_keys[0] if len(out_keys) == 1 and out_keys[0] != "_" else None,
            target,
        )
    state["_plan"] = plan
    return plan


def is_open(plan: Plan) -> bool:
    """Whether the short way can be taken now."""
    return not (plan[0] or plan[1] or _skip_existing.get()) and plan[2] == plan[3] and plan[4] == plan[5]


def renew(state: dict[str, Any], plan: Plan | tuple[()]) -> None:
    """Drop a plan whose keys have changed."""
    if plan and (plan[2] != plan[3] or plan[4] != plan[5]):
        state.pop("_plan", None)


def arrays_of(names: Sequence[str] | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any] | None:
    """The arrays of a dispatched call in the order of the names; None if they are not just that."""
    if names is None or len(args) + len(kwargs) != len(names) or not _enabled.get():
        return None
    values = list(args)
    for name in names[len(args) :]:
        values.append(kwargs.get(name))
    for value in values:
        if type(value) is not ndarray or value.dtype.kind not in _NUMERIC:
            return None
    return values
