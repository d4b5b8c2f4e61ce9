"""Putting a TensorDict of parameters into a module, and taking it out again.

A module whose parameters are exchanged gets another registry for the time, a dict of its own with the
entries in it; undoing is to give it its old registry back, order and all. That happens at the end of a
`with` statement, and when a name further on does not exist.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from lite import TensorDict
from lite._arrays.device import unwrap, wrap
from lite._arrays.namespace import NamespaceArray
from lite._arrays.types import raw
from lite._tree.collection import TensorCollection
from lite._tree.lock import LOCK_ERROR
from lite._tree.undo import Leave
from lite.nn._modules.meta import MetaArray
from lite.nn._modules.module import Module
from lite.nn._modules.parameter import Parameter
from lite.nn._modules.registry import assignments
from lite.nn._parameters.params import TensorDictParams

_ABSENT: Any = object()  # an attribute that is not there

# A registry that takes the place of a module's own: the module's __dict__, which registry, its own one, the
# one in its place, the node that the entries in it come from.
_StandIn = tuple[dict[str, Any], str, dict[str, Any], dict[str, Any], Any]


class Swap(Leave):
    """How a `to_module` goes, what it did to a module, and how that is undone."""

    def __init__(self, inplace: bool, preserve: bool, use_state_dict: bool) -> None:
        self.inplace = inplace
        self.preserve = preserve
        self.use_state_dict = use_state_dict
        self.stand_ins: list[_StandIn] = []
        self.wrapped: list[tuple[Parameter, Any]] = []  # Parameters made for arrays
        self.shown: list[tuple[NamespaceArray, Any]] = []  # arrays of JAX as layers see them, and these
        self.attributes: list[tuple[dict[str, Any], str, Any]] = []  # plain ones, and what they were
        self.copies: list[tuple[Any, Any]] = []  # arrays that were written, and what they held
        self.assigned = assignments[0]  # the last assignment to any module before

    def leave(self, failed: bool) -> None:
        """Give the module its own objects back, and the source what the body assigned."""
        changed: list[tuple[Any, str, Any]] = []
        # To compare in any case would make 12 microseconds of 9 (12 parameters in 6 layers).
        watch = assignments[0] is not self.assigned
        for parameter, array in self.wrapped:
            if parameter.data is not array:
                watch = True
        for array, leaf in self.shown:
            if array.leaf is not leaf:
                watch = True
        for state, registry, own, given, node in reversed(self.stand_ins):
            state[registry] = own
            if watch and not failed:
                _compare(own, given, node, changed)
        for state, name, old in reversed(self.attributes):
            if old is _ABSENT:
                state.pop(name, None)
            else:
                state[name] = old
        for array, old in reversed(self.copies):
            _write(array, old)
        for node, name, value in changed:
            node.set(name, value)

    def show(self, value: Any) -> Any:
        """A leaf as layers compute with it, which are written in NumPy's functions."""
        array = value if type(value) is np.ndarray else wrap(value)
        if isinstance(array, NamespaceArray):
            self.shown.append((array, value))
        return array

    def stand_in(self, state: dict[str, Any], registry: str, node: Any) -> None:
        """Put a copy of a module's registry in its place."""
        own: dict[str, Any] = state[registry]
        state[registry] = own.copy()
        self.stand_ins.append((state, registry, own, state[registry], node))

    def set_attribute(self, state: dict[str, Any], name: str, value: Any) -> None:
        """Put a value in the place of a plain attribute; `_ABSENT` removes it."""
        self.attributes.append((state, name, state.get(name, _ABSENT)))
        if value is _ABSENT:
            del state[name]
        else:
            state[name] = value


def _compare(
    own: dict[str, Any], given: dict[str, Any], node: Any, changed: list[tuple[Any, str, Any]]
) -> None:
    """Note what the body assigned to the names of a node; what it did to other names, the module keeps."""
    for name in [name for name in own if name not in given and node._peek_entry(name) is None]:
        del own[name]
    for name, found in given.items():
        value = node._peek_entry(name)
        if value is None:
            own[name] = found
        # The Parameter that was made for an array is no change.
        elif found is not None and unwrap(raw(found)) is not unwrap(raw(value)) and not node._locked:
            changed.append((node, name, found if isinstance(value, Parameter) else raw(found)))


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
    if use_state_dict and inplace is not None:
        raise RuntimeError("inplace cannot be chosen together with use_state_dict=True.")
    if swap_dest is not None and swap_dest.is_locked:
        raise RuntimeError(LOCK_ERROR)
    swap = Swap(bool(inplace), bool(preserve), use_state_dict)
    try:
        held = _exchange(source, module, swap, {})
    except Exception:
        swap.leave(True)
        raise
    if not return_swap:
        return None
    if isinstance(module, TensorDictParams):
        held = held.copy()  # what it held goes back into it, and is not to be changed by the caller
    if swap_dest is not None:
        _fill(swap_dest, held)
        held = swap_dest
    held._origin = swap
    held._before = None
    return held


def _exchange(source: Any, module: Any, swap: Swap, seen: dict[Any, Any]) -> Any:
    """Put the entries of a node into a module and those below; what was there, as a TensorDict.

    `seen` has what was in the modules so far: a child that appears twice is written once.
    """
    state = module.__dict__
    if "_param_td" in state:
        return _exchange_params(source, state, swap)
    if swap.use_state_dict:
        source = TensorDict._make(dict(_hooked(source, module)), ())
    elif source._parts() is not None:  # what the body assigns has no place in the parts of a lazy stack
        source = TensorDict._make(dict(source._items()), source.batch_size)
    entries: dict[str, Any] = {}
    held = seen[module] = TensorDict._make(entries, ())
    parameters: dict[str, Any] = {}
    buffers: dict[str, Any] = {}
    if not swap.inplace:  # which leaves the registries as they are
        for registry in ("_parameters", "_buffers"):
            own = state[registry]
            if own and not own.keys().isdisjoint(source._keys()):
                swap.stand_in(state, registry, source)
        parameters, buffers = state["_parameters"], state["_buffers"]
    children = state["_modules"]
    for name, value in source._items():
        if name in parameters:
            old = parameters[name]
            if isinstance(value, Parameter):
                parameters[name] = value
            elif not swap.preserve:  # a plain attribute takes the place of the parameter
                del parameters[name]
                swap.set_attribute(state, name, swap.show(value))
            elif isinstance(value, TensorCollection):
                raise TypeError(f"the entry of a parameter must be an array, got a {type(value).__name__}.")
            else:
                array = swap.show(value)
                new = parameters[name] = Parameter._over(array, old is None or old.requires_grad)
                swap.wrapped.append((new, array))
        elif name in children and children[name] is not None:
            old = seen.get(children[name])
            if old is None:
                old = _exchange(_node(value, name, module), children[name], swap, seen)
        elif name in buffers:
            old = buffers[name]
            buffers[name] = swap.show(raw(value))
        elif swap.inplace:
            old = _copy_into(_find(module, name), value, name, swap)
        else:
            old = _set_attribute(module, name, value, source, swap)
            parameters = state["_parameters"]
        if old is not None:
            entries[name] = old
    return held


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
    state = module.__dict__
    if isinstance(value, Parameter):
        swap.set_attribute(state, name, _ABSENT)
        swap.stand_in(state, "_parameters", source)
        state["_parameters"][name] = value
    else:
        swap.set_attribute(state, name, swap.show(value))
    return old


def _copy_into(target: Any, value: Any, name: Any, swap: Swap) -> Any:
    array, new = raw(target), raw(value)
    if array is None or isinstance(array, MetaArray):
        raise RuntimeError(f"{name!r} has no data that inplace=True could write into.")
    if tuple(new.shape) != tuple(array.shape):
        raise RuntimeError(
            f"inplace=True needs entries of the module's shapes: {name!r} has {tuple(array.shape)}, "
            f"the entry {tuple(new.shape)}."
        )
    old = array.clone() if isinstance(array, TensorCollection) else array.copy()
    _write(array, new)
    swap.copies.append((array, old))
    return old


def _write(target: Any, value: Any) -> None:
    if isinstance(target, TensorCollection):
        target.update_(value)
    else:
        np.copyto(target, value, casting="unsafe")


def _exchange_params(source: Any, state: dict[str, Any], swap: Swap) -> Any:
    """A TensorDictParams has its content exchanged as a whole, or written entry by entry."""
    old = state["_param_td"]
    if swap.inplace:
        before = old.data.clone()
        for key, value in source.items(True, True):
            if key not in old:
                raise old._missing((key,) if isinstance(key, str) else key)
            _copy_into(old.get(key), value, key, swap)
        return before
    new = source._param_td if isinstance(source, TensorDictParams) else source
    if new._parts() is not None:  # a TensorDictParams holds no lazy stack
        new = new.contiguous()
    swap.set_attribute(state, "_param_td", new)
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
        inner = None if node is None else TensorDict._as_node(dest._get_entry(name))
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
