"""Putting a TensorDict of parameters into a module, and taking it out again.

First a plan is made: for every slot of the module (a name in one of its registries) what is there and what
is to be. Nothing is written before the plan is complete, so a name that the module lacks leaves it as it
was; and undoing is to walk the plan once more.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lite._collection import raw
from lite._context import Leave
from lite._lock import LOCK_ERROR
from lite._tensordict import TensorDict
from lite.nn._meta import MetaArray
from lite.nn.module import Module
from lite.nn.parameter import Parameter
from lite.nn.params import TensorDictParams

_ABSENT: Any = object()  # a slot that holds nothing


class Slot(NamedTuple):
    """One name of a module: the dict it is in, what it held, what it is to hold, and the entry's place."""

    registry: dict[str, Any]
    name: str
    old: Any
    new: Any
    source: Any
    key: str
    leaf: Any


class Copy(NamedTuple):
    """An array to be written into another."""

    target: Any
    old: Any
    new: Any


class Swap(Leave):
    """What `to_module` did to a module, to be undone."""

    __slots__ = ("copies", "orders", "slots")

    def __init__(self) -> None:
        self.slots: list[Slot] = []
        self.copies: list[Copy] = []
        # Names of the registries that lose some, in their order, which the state dict follows.
        self.orders: list[tuple[dict[str, Any], list[str]]] = []

    def make(self) -> None:
        for registry, name, _, new, _, _, _ in self.slots:
            if new is _ABSENT:
                registry.pop(name, None)
            else:
                registry[name] = new
        for target, _, new in self.copies:
            np.copyto(target, new, casting="unsafe")

    def leave(self, failed: bool) -> None:
        """Give the module its own objects back, and the source what the body assigned."""
        changed = []
        for registry, name, old, new, source, key, leaf in self.slots:
            found = registry.get(name, _ABSENT)
            if found is not new:
                changed.append((source, key, found))
            elif type(found) is Parameter and found is not leaf and found.data is not raw(leaf):
                changed.append((source, key, found.data))
            if old is _ABSENT:
                registry.pop(name, None)
            else:
                registry[name] = old
        for registry, names in self.orders:
            for name in names:
                if name in registry:
                    registry[name] = registry.pop(name)
        for target, old, _ in self.copies:
            np.copyto(target, old)
        if not failed:
            for source, key, value in changed:
                if source is not None and value is not _ABSENT and value is not None and not source.is_locked:
                    source.set(key, value)


class _Planner:
    """One call of `to_module`: fills the plan, and the tree of what the module held."""

    def __init__(self, inplace: bool, preserve: bool, use_state_dict: bool) -> None:
        self.inplace = inplace
        self.preserve = preserve
        self.use_state_dict = use_state_dict
        self.swap = Swap()
        self.visited: dict[int, Any] = {}  # shared children are written once
        self.wrapped: dict[int, Parameter] = {}  # tied arrays become one Parameter

    def plan(self, source: Any, module: Any, path: str = "") -> Any:
        """Plan one module and below; the TensorDict of what is there now."""
        state = module.__dict__
        if isinstance(module, TensorDictParams):
            return self._plan_params(source, state)
        parameters, buffers, children = state["_parameters"], state["_buffers"], state["_modules"]
        before: dict[str, Any] = {}
        out = self.visited[id(module)] = TensorDict._make(before, ())
        simple = not (self.inplace or self.use_state_dict) and self.preserve
        items = _hooked(source, module) if self.use_state_dict else source._items()
        node = None if self.use_state_dict else source
        add = self.swap.slots.append
        for name, value in items:
            if name in parameters and simple:
                old = parameters[name]
                new = value if type(value) is Parameter else self._parameter(value, old)
                add(Slot(parameters, name, old, new, node, name, value))
            elif name in buffers and simple:
                old = buffers[name]
                add(Slot(buffers, name, old, raw(value), node, name, value))
            elif name in parameters or name in buffers or _is_attribute(state, name):
                old = self._plan_special(state, name, value, node)
            else:
                child = children.get(name)
                if child is None:
                    raise KeyError(
                        f"{type(module).__name__} has no parameter, buffer or child {path + name!r}; "
                        f"it has {[*parameters, *buffers, *children]}."
                    )
                old = self.visited.get(id(child))
                if old is None:
                    inner = TensorDict._as_node(value)
                    if inner is None:
                        raise KeyError(
                            f"{path + name!r} is a child of {type(module).__name__}, its entry a "
                            f"{type(value).__name__}."
                        )
                    old = self.plan(inner, child, f"{path}{name}.")
            if old is not None:
                before[name] = old
        return out

    def _plan_params(self, source: Any, state: dict[str, Any]) -> Any:
        """A TensorDictParams has its content exchanged as a whole."""
        old = state["_param_td"]
        if self.inplace:
            return self._plan_inplace_tree(source, old)
        new = source.__dict__["_param_td"] if isinstance(source, TensorDictParams) else source
        self.swap.slots.append(Slot(state, "_param_td", old, new, None, "", new))
        return old

    def _plan_inplace_tree(self, source: Any, old: Any) -> Any:
        before = old.data.clone()
        for key, value in source.items(True, True):
            target = old.get(key)
            if target is None:
                raise old._missing(key if isinstance(key, tuple) else (key,))
            self._plan_copy(target, value, key)
        return before

    def _plan_special(self, state: dict[str, Any], name: str, value: Any, node: Any) -> Any:
        """A slot whose kind may change, or whose array is written; what it holds now."""
        parameters, buffers = state["_parameters"], state["_buffers"]
        registry = next((r for r in (parameters, buffers) if name in r), state)
        old = registry[name]
        if self.inplace:
            return self._plan_copy(old, value, name)
        if registry is state and isinstance(value, Parameter):
            target, new = parameters, value  # back from a plain attribute
        elif self.preserve and registry is parameters:
            target, new = registry, value if isinstance(value, Parameter) else self._parameter(value, old)
        elif registry is parameters and not isinstance(value, Parameter):
            target, new = state, value
        else:
            target, new = registry, raw(value) if registry is buffers else value
        if target is not registry:
            for changed in (registry, target):
                if changed is not state:
                    self.swap.orders.append((changed, list(changed)))
            self.swap.slots.append(Slot(registry, name, old, _ABSENT, None, name, None))
            old_there = target.get(name, _ABSENT)
            self.swap.slots.append(Slot(target, name, old_there, new, node, name, value))
        else:
            self.swap.slots.append(Slot(registry, name, old, new, node, name, value))
        return old

    def _plan_copy(self, target: Any, value: Any, name: Any) -> Any:
        array, new = raw(target), raw(value)
        if array is None or isinstance(array, MetaArray):
            raise RuntimeError(f"{name!r} has no data that inplace=True could write into.")
        if tuple(new.shape) != tuple(array.shape):
            raise RuntimeError(
                f"inplace=True needs entries of the module's shapes: {name!r} has {tuple(array.shape)}, "
                f"the entry {tuple(new.shape)}."
            )
        old = array.copy()
        self.swap.copies.append(Copy(array, old, new))
        return old

    def _parameter(self, value: Any, old: Any) -> Parameter:
        """A Parameter over an array, with the `requires_grad` of the one whose place it takes."""
        key = id(value)
        found = self.wrapped.get(key)
        if found is None:
            found = self.wrapped[key] = Parameter._over(value, old is None or old.requires_grad)
        return found


def _is_attribute(state: dict[str, Any], name: str) -> bool:
    return name in state and hasattr(state[name], "shape")


def _hooked(source: Any, module: Any) -> list[tuple[str, Any]]:
    """The entries after the module's load-state-dict pre-hooks, which see them under flat names."""
    hooks = tuple(module._load_state_dict_pre_hooks.values())
    if not hooks:
        return list(source._items())
    flat = dict(source.flatten_keys(".").items())
    errors: list[str] = []
    for hook in hooks:
        hook(module, flat, "", {}, True, [], [], errors)
    if errors:
        raise RuntimeError(f"Error(s) in loading state_dict for {type(module).__name__}: {'; '.join(errors)}")
    return list(TensorDict._make(flat, ()).unflatten_keys(".").items())


def to_module(
    source: Any,
    module: Any,
    inplace: bool | None = None,
    return_swap: bool = True,
    swap_dest: Any = None,
    use_state_dict: bool = False,
    preserve: bool = True,
) -> Any:
    """See `TensorDict.to_module`."""
    if not isinstance(module, Module):
        raise TypeError(f"module must be a Module, got {type(module).__name__}.")
    if use_state_dict and inplace is not None:
        raise RuntimeError("inplace cannot be chosen together with use_state_dict=True.")
    if swap_dest is not None and swap_dest.is_locked:
        raise RuntimeError(LOCK_ERROR)
    planner = _Planner(bool(inplace), preserve, use_state_dict)
    before = planner.plan(source, module)
    swap = planner.swap
    swap.make()
    if not return_swap:
        return None
    if swap_dest is not None:
        _fill(swap_dest, before)
        before = swap_dest
    elif isinstance(module, TensorDictParams):
        before = before.copy()  # the TensorDict that it held is the module's
    before._origin = swap
    before._before = None
    return before


def _fill(dest: Any, before: Any) -> None:
    """Put objects into a TensorDict as they are, nodes below into those it has."""
    for name, value in before._items():
        node = TensorDict._as_node(value)
        inner = None if node is None else TensorDict._as_node(dest._get_str(name))
        if inner is not None:
            _fill(inner, node)
        else:
            dest._put(name, value)
