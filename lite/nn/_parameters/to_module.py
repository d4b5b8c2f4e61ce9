"""Exchanging the parameters of a module for a TensorDict of parameters, and restoring them.

The registry of the module is replaced by a copy with the new entries, and undoing puts the old registry back,
which also restores its order. That happens at the end of a `with` statement, and after an error. Assignments
of the body are searched only if there were any, which `lite/nn/_modules/registry.py` records.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from lite import TensorDict
from lite._arrays.device import unwrap, wrap
from lite._arrays.foreign import class_name
from lite._arrays.namespace import NamespaceArray
from lite._arrays.types import raw
from lite._transforms.handles import assignments
from lite._tree.collection import TensorCollection
from lite._tree.lock import LOCK_ERROR
from lite._tree.protocol import missing_key
from lite._tree.undo import Leave
from lite.nn._modules.meta import MetaArray
from lite.nn._modules.module import Module
from lite.nn._modules.parameter import Parameter
from lite.nn._parameters.params import TensorDictParams

_ABSENT: Any = object()  # an attribute that is not there

# A replaced registry: the module's __dict__, the name of the registry, the old one, the new one, and the node
# of its entries.
_Replaced = tuple[dict[str, Any], str, dict[str, Any], dict[str, Any], Any]


class Swap(Leave):
    """The options of a `to_module`, its changes to a module, and how to undo them."""

    def __init__(self, inplace: bool, preserve: bool, use_state_dict: bool) -> None:
        self.inplace = inplace
        self.preserve = preserve
        self.use_state_dict = use_state_dict
        self.replaced: list[_Replaced] = []
        self.wrapped: list[tuple[Parameter, Any]] = []  # Parameters made for arrays
        # Wrapped arrays of JAX, and the arrays themselves.
        self.unwrapped: list[tuple[NamespaceArray, Any]] = []
        self.attributes: list[tuple[dict[str, Any], str, Any]] = []  # plain attributes, and their old values
        self.copies: list[tuple[Any, Any]] = []  # written arrays, and their old content
        self.assigned = assignments[0]  # the state of the assignment marker of all modules before

    def leave(self, failed: bool) -> None:
        """Restore the module's own objects, and copy assignments of the body to the source."""
        changed: list[tuple[Any, str, Any]] = []
        # Comparing always would take 12 microseconds instead of 9 (12 parameters in 6 layers).
        watch = assignments[0] is not self.assigned
        for parameter, array in self.wrapped:
            if parameter.data is not array:
                watch = True
        for array, leaf in self.unwrapped:
            if array.leaf is not leaf:
                watch = True
        for state, registry, own, given, node in reversed(self.replaced):
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

    def for_layers(self, value: Any) -> Any:
        """A leaf as layers compute with it: arrays of JAX are wrapped."""
        array = value if type(value) is np.ndarray else wrap(value)
        if isinstance(array, NamespaceArray):
            self.unwrapped.append((array, value))
        return array

    def replace_registry(self, state: dict[str, Any], registry: str, node: Any) -> None:
        """Replace a module's registry by a copy."""
        own: dict[str, Any] = state[registry]
        new = own.copy()
        self.replaced.append((state, registry, own, new, node))
        state[registry] = new

    def set_attribute(self, state: dict[str, Any], name: str, value: Any) -> None:
        """Replace the value of a plain attribute; `_ABSENT` removes it."""
        self.attributes.append((state, name, state.get(name, _ABSENT)))
        if value is _ABSENT:
            del state[name]
        else:
            state[name] = value


def _compare(
    own: dict[str, Any], given: dict[str, Any], node: Any, changed: list[tuple[Any, str, Any]]
) -> None:
    """Collect assignments of the body to the names of a node. The module keeps assignments to other names."""
    for name in [name for name in own if name not in given and node._peek_entry(name) is None]:
        del own[name]
    for name, found in given.items():
        value = node._peek_entry(name)
        if value is None:
            own[name] = found
        # The Parameter that was created for an array is not an assignment.
        elif found is not None and unwrap(raw(found)) is not unwrap(raw(value)) and not node._locked:
            changed.append((node, name, found if isinstance(value, Parameter) else raw(found)))


def to_module(
    source: Any,
    module: Any,
    inplace: bool | None,
    return_swap: bool,
    swap_dest: Any,
    use_state_dict: bool,
    preserve: bool | None,
) -> Any:
    """See `TensorDict.to_module`, which has the defaults."""
    if not isinstance(module, Module):
        raise TypeError(f"module must be a Module, got {class_name(module)}.")
    if use_state_dict and inplace is not None:
        raise RuntimeError("inplace cannot be chosen together with use_state_dict=True.")
    if swap_dest is not None and swap_dest.is_locked:
        raise RuntimeError(LOCK_ERROR)
    swap = Swap(bool(inplace), bool(preserve), use_state_dict)
    try:
        held = _exchange(source, module, swap, {})
        if not return_swap:
            return None
        if isinstance(module, TensorDictParams):
            held = held.copy()  # its old content is written back, so the caller must not change it
        if swap_dest is not None:
            _fill(swap_dest, held)
            held = swap_dest
        held._origin = swap
        held._before = None
        return held
    except BaseException:  # an interrupt, too
        swap.leave(True)
        raise


def _exchange(source: Any, module: Any, swap: Swap, seen: dict[Any, Any]) -> Any:
    """Put the entries of a node into a module and its children; returns the old entries as a TensorDict.

    `seen` has the old entries of visited modules: a child that appears twice is exchanged once.
    """
    state = module.__dict__
    if "_param_td" in state:
        return _exchange_params(source, state, swap)
    if swap.use_state_dict:
        source = TensorDict._make(dict(_hooked(source, module)), ())
    # Assignments of the body cannot be written to the parts of a lazy stack.
    elif source._parts() is not None:
        source = TensorDict._make(dict(source._items()), source.batch_size)
    entries: dict[str, Any] = {}
    held = seen[module] = TensorDict._make(entries, ())
    parameters: dict[str, Any] = {}
    buffers: dict[str, Any] = {}
    if not swap.inplace:  # does not change the registries
        for registry in ("_parameters", "_buffers"):
            own = state[registry]
            if own and not own.keys().isdisjoint(source._keys()):
                swap.replace_registry(state, registry, source)
        parameters, buffers = state["_parameters"], state["_buffers"]
    children = state["_modules"]
    for name, value in source._items():
        if name in parameters:
            old = parameters[name]
            if isinstance(value, Parameter):
                parameters[name] = value
            elif not swap.preserve:  # a plain attribute takes the place of the parameter
                del parameters[name]
                swap.set_attribute(state, name, swap.for_layers(value))
            elif isinstance(value, TensorCollection):
                raise TypeError(f"the entry of a parameter must be an array, got a {type(value).__name__}.")
            else:
                array = swap.for_layers(value)
                new = parameters[name] = Parameter._over(array, old is None or old.requires_grad)
                swap.wrapped.append((new, array))
        elif name in children and children[name] is not None:
            old = seen.get(children[name])
            if old is None:
                old = _exchange(_node(value, name, module), children[name], swap, seen)
        elif name in buffers:
            old = buffers[name]
            buffers[name] = swap.for_layers(raw(value))
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
        raise KeyError(f"{name!r} is a child of {type(module).__name__}, its entry a {type(value).__name__}.")
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
    """Replace the value of a plain attribute; a Parameter is registered again."""
    old = _find(module, name)
    state = module.__dict__
    if isinstance(value, Parameter):
        swap.set_attribute(state, name, _ABSENT)
        swap.replace_registry(state, "_parameters", source)
        state["_parameters"][name] = value
    else:
        swap.set_attribute(state, name, swap.for_layers(value))
    return old


def _copy_into(target: Any, value: Any, name: Any, swap: Swap) -> Any:
    array, new = raw(target), raw(value)
    if array is None or isinstance(array, MetaArray):
        raise RuntimeError(f"inplace=True needs data to write into, which {name!r} lacks.")
    if tuple(new.shape) != tuple(array.shape):
        raise RuntimeError(
            f"inplace=True needs entries of the module's shapes: {name!r} has {tuple(array.shape)}, "
            f"the entry {tuple(new.shape)}."
        )
    old = array.clone() if isinstance(array, TensorCollection) else array.copy()
    swap.copies.append((array, old))
    _write(array, new)
    return old


def _write(target: Any, value: Any) -> None:
    if isinstance(target, TensorCollection):
        target.update_(value)
    else:
        np.copyto(target, value, casting="unsafe")


def _exchange_params(source: Any, state: dict[str, Any], swap: Swap) -> Any:
    """Exchange the whole content of a TensorDictParams, or write its entries in place."""
    old = state["_param_td"]
    if swap.inplace:
        before = old.data.clone()
        for key, value in source.items(True, True):
            if key not in old:
                raise missing_key(old, (key,) if isinstance(key, str) else key)
            _copy_into(old.get(key), value, key, swap)
        return before
    new = source._param_td if isinstance(source, TensorDictParams) else source
    if new._parts() is not None:  # a TensorDictParams holds no lazy stack
        new = new.contiguous()
    swap.set_attribute(state, "_param_td", new)
    return old


def _hooked(source: Any, module: Any) -> list[tuple[str, Any]]:
    """The entries after the module's load-state-dict pre-hooks, which get them under dotted names."""
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
    """Store objects in a TensorDict without conversion, and nested nodes in its own nested nodes."""
    for name, value in held._items():
        node = TensorDict._as_node(value)
        inner = None if node is None else TensorDict._as_node(dest._get_entry(name))
        if inner is not None:
            _fill(inner, node)
        else:
            dest._put(name, value)


_INSTEAD = "use params = TensorDict.from_module(module) and `with params.to_module(module):` instead"


def _removed(name: str) -> Any:
    def removed(*args: Any, **kwargs: Any) -> NoReturn:
        """Raises RuntimeError: removed in favour of `TensorDict.from_module` and `to_module`."""
        raise RuntimeError(f"{name} has been removed: {_INSTEAD}.")

    removed.__name__ = removed.__qualname__ = name
    return removed


make_functional = _removed("make_functional")
get_functional = _removed("get_functional")
is_functional = _removed("is_functional")
repopulate_module = _removed("repopulate_module")
