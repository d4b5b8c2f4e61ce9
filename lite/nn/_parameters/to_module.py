"""Putting a TensorDict of parameters into a module, and taking it out again.

A module whose parameters are exchanged gets another registry for the time, a dict of its own with the
entries in it; undoing is to give it its old registry back, order and all. That happens at the end of a
`with` statement, and when a name further on does not exist.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy import ndarray

from lite._arrays.types import raw
from lite._tensordict import TensorDict
from lite._tree.collection import TensorCollection
from lite._tree.lock import LOCK_ERROR
from lite._tree.undo import Leave
from lite.nn._modules.meta import MetaArray
from lite.nn._modules.module import Module
from lite.nn._modules.parameter import Parameter
from lite.nn._modules.registry import assignments
from lite.nn._parameters.held import Held, nest
from lite.nn._parameters.params import TensorDictParams

_ABSENT: Any = object()  # an attribute that is not there
_new = object.__new__

# The module's __dict__, which registry, its own one, the one in its place, the node that filled it.
_Note = tuple[dict[str, Any], str, dict[str, Any], dict[str, Any], Any]


class Swap(list[_Note], Leave):
    """What one `to_module` did to a module, to be undone."""

    __slots__ = ("assigned", "special", "wrapped")
    special: _Special | None
    assigned: int  # assignments to any module before
    wrapped: list[tuple[Parameter, Any]]  # Parameters made for arrays

    def leave(self, failed: bool) -> None:
        """Give the module its own objects back, and the source what the body assigned."""
        changed: list[tuple[Any, str, Any]] = []
        watch = assignments[0] != self.assigned
        for parameter, array in self.wrapped:
            watch = watch or parameter.data is not array
        watch = watch and not failed
        for state, registry, own, given, node in reversed(self):
            state[registry] = own
            if watch:
                _compare(own, given, node, changed)
        if self.special is not None:
            self.special.undo()
        for node, name, value in changed:
            node.set(name, value)


def _compare(
    own: dict[str, Any], given: dict[str, Any], node: Any, changed: list[tuple[Any, str, Any]]
) -> None:
    """Note what the body assigned to the names of a node; what it did to other names, the module keeps."""
    for name in [name for name in own if name not in given and node._peek(name) is None]:
        del own[name]
    for name, found in given.items():
        value = node._peek(name)
        if value is None:
            own[name] = found
        # The Parameter that was made for an array is no change.
        elif found is not None and raw(found) is not raw(value) and not node._locked:
            changed.append((node, name, found if isinstance(value, Parameter) else raw(found)))


class _Special:
    """How a `to_module` goes that does more than exchange parameters and buffers, and what it did."""

    __slots__ = ("attributes", "copies", "inplace", "preserve", "use_state_dict")

    def __init__(self, inplace: bool = False, preserve: bool = True, use_state_dict: bool = False) -> None:
        self.inplace = inplace
        self.preserve = preserve
        self.use_state_dict = use_state_dict
        self.copies: list[tuple[Any, Any]] = []  # arrays that were written, and what they held
        self.attributes: list[tuple[dict[str, Any], str, Any]] = []  # plain ones, and what they were

    def set_attribute(self, state: dict[str, Any], name: str, value: Any) -> None:
        self.attributes.append((state, name, state.get(name, _ABSENT)))
        if value is _ABSENT:
            del state[name]
        else:
            state[name] = value

    def undo(self) -> None:
        for state, name, old in reversed(self.attributes):
            if old is _ABSENT:
                state.pop(name, None)
            else:
                state[name] = old
        for array, old in reversed(self.copies):
            _write(array, old)


def to_module(
    source: Any,
    module: Any,
    inplace: bool | None = None,
    return_swap: bool = True,
    swap_dest: Any = None,
    use_state_dict: bool = False,
    preserve: bool | None = True,
) -> Any:
    """See `TensorDict.to_module`."""
    if not isinstance(module, Module):
        raise TypeError(f"module must be a Module, got {type(module).__name__}.")
    swap = Swap()
    swap.special = None
    swap.wrapped = []
    swap.assigned = assignments[0]
    if inplace or use_state_dict or not preserve:
        if use_state_dict and inplace is not None:
            raise RuntimeError("inplace cannot be chosen together with use_state_dict=True.")
        swap.special = _Special(bool(inplace), bool(preserve), use_state_dict)
    if swap_dest is not None and swap_dest.is_locked:
        raise RuntimeError(LOCK_ERROR)
    try:
        before = _exchange(source, module, swap, {})
    except Exception:
        swap.leave(True)
        raise
    if not return_swap:
        return None
    if type(before) is dict and swap_dest is None:
        return Held._of(before, swap)
    # What a TensorDictParams holds is its own; the swap is a copy.
    held: Any = TensorDict._make(nest(before), ()) if type(before) is dict else before.copy()
    if swap_dest is not None:
        _fill(swap_dest, held)
        held = swap_dest
    held._origin = swap
    held._before = None
    return held


def _exchange(source: Any, module: Any, swap: Swap, seen: dict[Any, Any]) -> Any:
    """Put the entries of a node into a module and those below; what was there, as nested dicts."""
    state = module.__dict__
    own = state["_parameters"]
    if own and swap.special is None and type(source) is TensorDict:
        # Most modules with parameters have nothing else, and get Parameters for all of them.
        data = source._data
        given = own | data
        if len(given) == len(own) == len(data):
            held = seen[module] = own.copy()
            for name, value in data.items():
                kind = type(value)
                if kind is Parameter:
                    continue
                if kind is ndarray:
                    # As Parameter._over, a call that would cost as much again.
                    new = given[name] = _new(Parameter)
                    new.data = value
                    old = held[name]
                    new.requires_grad = old is None or old.requires_grad
                    new.grad = None
                    swap.wrapped.append((new, value))
                else:
                    given[name] = _over(value, own[name], swap)
            state["_parameters"] = given
            swap.append((state, "_parameters", own, given, source))
            return held
    if "_param_td" in state:
        return _exchange_params(source, state, swap)
    if swap.special is not None:
        return _exchange_specially(source, module, swap, swap.special, seen)
    if type(source) is not TensorDict and source._parts() is not None:
        source = TensorDict._make(dict(source._items()), source.batch_size)
    held = seen[module] = {}  # a child that appears twice is written once
    children = state["_modules"]
    given = None
    buffers: dict[str, Any] | None = None
    for name, value in source._data.items():
        if name in own:
            if given is None:
                given = state["_parameters"] = own.copy()
                swap.append((state, "_parameters", own, given, source))
            old = held[name] = own[name]
            given[name] = value if type(value) is Parameter else _over(value, old, swap)
            continue
        child = children.get(name)
        if child is not None:
            if child in seen:
                held[name] = seen[child]
            elif type(value) is TensorDict:
                held[name] = _exchange(value, child, swap, seen)
            else:
                held[name] = _exchange(_node(value, name, module), child, swap, seen)
        elif name in state["_buffers"]:
            if buffers is None:
                buffers = _another(state, "_buffers", source, swap)
            held[name] = buffers[name]
            buffers[name] = raw(value)
        else:
            held[name] = _set_attribute(module, name, value, source, swap)
    return held


def _exchange_specially(
    source: Any, module: Any, swap: Swap, special: _Special, seen: dict[Any, Any]
) -> dict[str, Any]:
    """As `_exchange`: into the module's arrays, or giving up kinds, or through its load hooks."""
    state = module.__dict__
    held: dict[str, Any] = {}
    seen[module] = held
    registries: dict[str, dict[str, Any]] = {}

    def another(registry: str) -> dict[str, Any]:
        if registry not in registries:
            registries[registry] = _another(state, registry, source, swap)
        return registries[registry]

    if special.use_state_dict:
        source = TensorDict._make(dict(_hooked(source, module)), ())
    for name, value in source._items():
        child = state["_modules"].get(name)
        if child is not None:
            below = seen.get(child)
            held[name] = _exchange(_node(value, name, module), child, swap, seen) if below is None else below
        elif special.inplace:
            held[name] = _copy_into(_find(module, name), value, name, special)
        elif name in state["_buffers"]:
            held[name] = another("_buffers")[name]
            another("_buffers")[name] = raw(value)
        elif name not in state["_parameters"]:
            held[name] = _set_attribute(module, name, value, source, swap)
        elif special.preserve or isinstance(value, Parameter):
            old = held[name] = another("_parameters")[name]
            if not isinstance(value, Parameter):
                value = _over(value, old, swap)
            another("_parameters")[name] = value
        else:  # a plain attribute takes the place of the parameter
            held[name] = another("_parameters").pop(name)
            special.set_attribute(state, name, value)
    return held


def _over(value: Any, old: Parameter | None, swap: Swap) -> Parameter:
    """A Parameter over an array, with the `requires_grad` of the one whose place it takes."""
    if isinstance(value, Parameter):
        return value
    if isinstance(value, TensorCollection):
        raise TypeError(f"the entry of a parameter must be an array, got a {type(value).__name__}.")
    new = Parameter._over(value, old is None or old.requires_grad)
    swap.wrapped.append((new, value))
    return new


def _another(state: dict[str, Any], registry: str, source: Any, swap: Swap) -> dict[str, Any]:
    """Give a module a copy of a registry for the time."""
    own = state[registry]
    given: dict[str, Any] = own.copy()
    state[registry] = given
    swap.append((state, registry, own, given, source))
    return given


def _node(value: Any, name: str, module: Any) -> Any:
    node = TensorDict._as_node(value)
    if node is None:
        raise KeyError(
            f"{name!r} is a child of {type(module).__name__}, but its entry a {type(value).__name__}."
        )
    return node


def _find(module: Any, name: str) -> Any:
    """The parameter or buffer with a name, or an attribute that is an array; else KeyError."""
    state = module.__dict__
    for registry in (state["_parameters"], state["_buffers"]):
        if name in registry:
            return registry[name]
    if hasattr(state.get(name), "shape"):
        return state[name]
    names = [*state["_parameters"], *state["_buffers"], *state["_modules"]]
    raise KeyError(f"{type(module).__name__} has no parameter, buffer or child {name!r}; it has {names}.")


def _set_attribute(module: Any, name: str, value: Any, source: Any, swap: Swap) -> Any:
    """Put a value in the place of a plain attribute; a Parameter makes a parameter of it again."""
    old = _find(module, name)
    if swap.special is None:
        swap.special = _Special()
    state = module.__dict__
    if isinstance(value, Parameter):
        swap.special.set_attribute(state, name, _ABSENT)
        _another(state, "_parameters", source, swap)[name] = value
    else:
        swap.special.set_attribute(state, name, value)
    return old


def _copy_into(target: Any, value: Any, name: Any, special: _Special) -> Any:
    array, new = raw(target), raw(value)
    if array is None or isinstance(array, MetaArray):
        raise RuntimeError(f"{name!r} has no data that inplace=True could write into.")
    if tuple(new.shape) != tuple(array.shape):
        raise RuntimeError(
            f"inplace=True needs entries of the module's shapes: {name!r} has {tuple(array.shape)}, "
            f"the entry {tuple(new.shape)}."
        )
    old = array.clone() if isinstance(array, TensorCollection) else array.copy()  # type: ignore[attr-defined]
    _write(array, new)
    special.copies.append((array, old))
    return old


def _write(target: Any, value: Any) -> None:
    if isinstance(target, TensorCollection):
        target.update_(value)  # type: ignore[attr-defined]
    else:
        np.copyto(target, value, casting="unsafe")


def _exchange_params(source: Any, state: dict[str, Any], swap: Swap) -> Any:
    """A TensorDictParams has its content exchanged as a whole, or written entry by entry."""
    old = state["_param_td"]
    special = swap.special
    if special is not None and special.inplace:
        before = old.data.clone()
        for key, value in source.items(True, True):
            if key not in old:
                raise old._missing((key,) if isinstance(key, str) else key)
            _copy_into(old.get(key), value, key, special)
        return before
    new = source._param_td if isinstance(source, TensorDictParams) else source
    if special is None:
        special = swap.special = _Special()
    special.set_attribute(state, "_param_td", new)
    return old


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


def _fill(dest: Any, held: Any) -> None:
    """Put objects into a TensorDict as they are, nodes below into those it has."""
    for name, value in held._items():
        node = TensorDict._as_node(value)
        inner = None if node is None else TensorDict._as_node(dest._get_str(name))
        if inner is not None:
            _fill(inner, node)
        else:
            dest._put(name, value)


_INSTEAD = "use params = TensorDict.from_module(module) and `with params.to_module(module):` instead"


def _removed(name: str) -> NoReturn:
    raise RuntimeError(f"{name} has been removed: {_INSTEAD}.")


def make_functional(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises RuntimeError: removed in favour of `TensorDict.from_module` and `to_module`."""
    _removed("make_functional")


def get_functional(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises RuntimeError: removed in favour of `TensorDict.from_module` and `to_module`."""
    _removed("get_functional")


def is_functional(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises RuntimeError: removed in favour of `TensorDict.from_module` and `to_module`."""
    _removed("is_functional")


def repopulate_module(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises RuntimeError: removed in favour of `TensorDict.from_module` and `to_module`."""
    _removed("repopulate_module")
