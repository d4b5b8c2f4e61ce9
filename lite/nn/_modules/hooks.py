"""Hooks of a module: registration, and the call path that runs them.

A module with backward hooks adds two nodes to the graph of the backward pass: one after its outputs and one
before its inputs. Each collects the gradients that pass through it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lite._arrays.caller import warn
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.tape import value_of, with_vjp_of_all
from lite._transforms.handles import RemovableHandle, add_hook

Gradients = tuple[Any, ...]


class BackwardHooks:
    """The backward hooks of one call of a module.

    Args:
        module: the module.
    """

    def __init__(self, module: Any) -> None:
        self._module = module
        self._full = tuple(module._backward_hooks.values())
        self._before = tuple(module._backward_pre_hooks.values())
        self._inputs: int | None = None  # the number of arguments; None if they get no gradient
        self._count = 0
        self._given: Gradients | None = None

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, with a node inserted before the traced ones."""
        self._count = len(args)
        places = [i for i, x in enumerate(args) if type(x) is TracedArray]
        if not places:
            return args
        self._inputs = len(args)

        def back(shares: Gradients) -> Gradients:
            gradients = _at_positions(shares, places, len(args))
            found = self._run_full(tuple(map(_or_zeros, gradients, args)))
            return tuple(found[i] for i in places)

        traced = [args[i] for i in places]
        new = dict(zip(places, with_vjp_of_all([x.value for x in traced], traced, back), strict=True))
        return tuple(new.get(i, x) for i, x in enumerate(args))

    def leave(self, result: Any) -> Any:
        """The result, with a node inserted after its traced arrays."""
        if not isinstance(result, tuple | TracedArray):
            return result
        outputs = result if isinstance(result, tuple) else (result,)
        places = [i for i, x in enumerate(outputs) if type(x) is TracedArray]

        def back(shares: Gradients) -> Gradients:
            found = self._run_before(_at_positions(shares, places, len(outputs)))
            self._given = found
            if self._inputs is None and self._full:
                self._run_without_inputs(found)
            return tuple(found[i] for i in places)

        traced = [outputs[i] for i in places]
        new = dict(zip(places, with_vjp_of_all([x.value for x in traced], traced, back), strict=True))
        if not isinstance(result, tuple):
            return new.get(0, result)
        items = [new.get(i, x) for i, x in enumerate(result)]
        return type(result)(*items) if hasattr(result, "_fields") else tuple(items)

    def _run_before(self, gradients: Gradients) -> Gradients:
        for hook in self._before:
            gradients = _hook_result(hook(self._module, gradients), gradients, "pre-hook", "grad_output")
        return gradients

    def _run_full(self, gradients: Gradients) -> Gradients:
        given, self._given = self._given, None
        if given is None and self._full:
            raise RuntimeError(
                f"the gradient of the inputs of {type(self._module).__name__} did not come through its "
                "outputs: backward hooks need a forward whose output is an array or a tuple of arrays."
            )
        for hook in self._full:
            gradients = _hook_result(hook(self._module, gradients, given), gradients, "hook", "grad_input")
        return gradients

    def _run_without_inputs(self, given: Gradients) -> None:
        warn(
            "a full backward hook runs when the gradients of the module's outputs are known, as no gradient "
            "goes to its inputs.",
        )
        for hook in self._full:
            result = hook(self._module, (None,) * self._count, given)
            if result is not None and not (isinstance(result, tuple) and all(g is None for g in result)):
                raise RuntimeError(
                    "a backward hook of a module whose inputs have no gradient must return None, got "
                    f"{type(result).__name__}."
                )


def _at_positions(shares: Gradients, places: list[int], count: int) -> Gradients:
    """A tuple of length `count` with gradients at their positions and None elsewhere."""
    found = dict(zip(places, shares, strict=True))
    return tuple(found.get(i) for i in range(count))


def _or_zeros(share: Any, x: Any) -> Any:
    """The gradient of an argument; zeros for an array that nothing depends on."""
    return np.zeros_like(value_of(x)) if share is None and isinstance(x, np.ndarray | TracedArray) else share


def _hook_result(result: Any, gradients: Gradients, kind: str, name: str) -> Gradients:
    """The result of a hook, or the old gradients if it is None."""
    if result is None:
        return gradients
    found = result if isinstance(result, tuple) else (result,)
    if len(found) != len(gradients):
        raise RuntimeError(
            f"a backward {kind} must give as many gradients as {name} has, {len(gradients)}, "
            f"got {len(found)}."
        )
    return found


Hook = Callable[..., Any]


class HookEntry(NamedTuple):
    """A forward (pre-)hook and how to call it."""

    fn: Hook
    with_kwargs: bool
    always_call: bool


class Hooks:
    """Registration of hooks; `Module` is the public face."""

    _forward_pre_hooks: OrderedDict[int, Any]
    _forward_hooks: OrderedDict[int, Any]
    _backward_hooks: OrderedDict[int, Any]
    _backward_pre_hooks: OrderedDict[int, Any]
    _is_full_backward_hook: bool | None
    _hooked: OrderedDict[int, Any]  # empty until there is a hook of calls or a selection of results
    _state_dict_pre_hooks: OrderedDict[int, Any]
    _state_dict_hooks: OrderedDict[int, Any]
    _load_state_dict_pre_hooks: OrderedDict[int, Any]
    _load_state_dict_post_hooks: OrderedDict[int, Any]

    def _init_hooks(self) -> None:
        state = self.__dict__
        for name in Hooks.__annotations__:
            state[name] = OrderedDict()
        state["_is_full_backward_hook"] = None

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Run `hook(module, args)` before each forward.

        Args:
            hook: returns None, or new positional arguments (one value, or a tuple of them). With
                `with_kwargs` it is called as `hook(module, args, kwargs)` and returns None or
                `(args, kwargs)`.
            prepend: run before the hooks registered so far.
            with_kwargs: pass the keyword arguments too.

        Example:
            >>> from lite import nn
            >>> m = nn.Identity()
            >>> handle = m.register_forward_pre_hook(lambda module, args: args[0] * 2)
            >>> m(3)
            6
        """
        return self._add_call_hook(self._forward_pre_hooks, HookEntry(hook, with_kwargs, False), prepend)

    def register_forward_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Run `hook(module, args, output)` after each forward; a result other than None replaces the output.

        Args:
            hook: with `with_kwargs`, called as `hook(module, args, kwargs, output)`.
            prepend: run before the hooks registered so far.
            with_kwargs: pass the keyword arguments too.
            always_call: run also when forward (or another hook) raised, with output None; the
                exception then goes on.
        """
        return self._add_call_hook(self._forward_hooks, HookEntry(hook, with_kwargs, always_call), prepend)

    def register_backward_hook(self, hook: Hook) -> RemovableHandle:
        """Alias of `register_full_backward_hook`; a module takes hooks of one of the two names.

        The deprecated hooks of this name in torch get the gradients of the module's last operation instead.
        """
        return self._add_backward_hook(hook, full=False, prepend=False)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Run `hook(module, grad_input, grad_output)` when the gradients of the module's inputs are known.

        Args:
            hook: gets two tuples, the gradients of the positional arguments and of the outputs. Values that
                are not arrays have None. An array that nothing depends on has zeros as an argument and None
                as an output. The hook must not write to them. A result other than None, a tuple of equal
                length, replaces `grad_input`. If the arguments get no gradient, the hook runs when the
                gradients of the outputs are known, `grad_input` holds only None, and the hook must return
                None.
            prepend: run before the hooks registered so far.

        Raises:
            RuntimeError: there are hooks of `register_backward_hook`; in the backward pass, a hook returns
                another number of gradients.

        Example:
            >>> import numpy as np
            >>> import lite
            >>> from lite import nn
            >>> net = nn.Sequential(nn.Linear(2, 2, rng=0), nn.Tanh())
            >>> def show(module, grad_input, grad_output):
            ...     print(type(module).__name__, grad_input[0].shape, grad_output[0].shape)
            >>> handle = net[1].register_full_backward_hook(show)
            >>> with lite.enable_grad():
            ...     net(np.ones((3, 2), np.float32)).sum().backward()
            Tanh (3, 2) (3, 2)
        """
        return self._add_backward_hook(hook, full=True, prepend=prepend)

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Run `hook(module, grad_output)` when the gradients of the module's outputs are known.

        Args:
            hook: a result other than None, a tuple of equal length, replaces `grad_output`.
            prepend: run before the hooks registered so far.
        """
        return self._add_call_hook(self._backward_pre_hooks, hook, prepend)

    def _add_call_hook(self, hooks: OrderedDict[int, Any], hook: object, prepend: bool) -> RemovableHandle:
        self._hooked[0] = True  # which a copy by copy.copy shares, as it shares the hooks
        return add_hook(hooks, hook, prepend)

    def _add_backward_hook(self, hook: Hook, full: bool, prepend: bool) -> RemovableHandle:
        if self._backward_hooks and self._is_full_backward_hook is not full:
            raise RuntimeError("register_backward_hook and register_full_backward_hook exclude each other.")
        self.__dict__["_is_full_backward_hook"] = full
        return self._add_call_hook(self._backward_hooks, hook, prepend)

    def register_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Run `hook(module, prefix, keep_vars)` before the module's entries are collected."""
        return add_hook(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Run `hook(module, state_dict, prefix, local_metadata)` after the module's entries are collected.

        The hook edits `state_dict` in place; returning anything but None is a RuntimeError.
        """
        return add_hook(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Run a hook before the module's entries are loaded.

        It is called as `hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)` and may edit the state dict, which is a shallow copy.
        """
        return add_hook(self._load_state_dict_pre_hooks, hook)

    def register_load_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Run `hook(module, incompatible_keys)` after loading; clearing the lists silences strict errors."""
        return add_hook(self._load_state_dict_post_hooks, hook)


def call_with_hooks(module: Any, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Any:
    """Run pre-hooks, `forward` and forward hooks of `module`."""
    result: Any = None
    called: set[int] = set()
    try:
        for entry in tuple(module._forward_pre_hooks.values()):
            args, kwargs = _run_pre_hook(entry, module, args, kwargs)
        way_back = None
        if module._backward_hooks or module._backward_pre_hooks:
            way_back = BackwardHooks(module)
            args = way_back.enter(args)
        result = forward(*args, **kwargs)
        for key, entry in tuple(module._forward_hooks.items()):
            called.add(key)
            result = _run_forward_hook(entry, module, args, kwargs, result)
        return result if way_back is None else way_back.leave(result)
    except Exception:
        for key, entry in tuple(module._forward_hooks.items()):
            if entry.always_call and key not in called:
                result = _run_after_failure(entry, module, args, kwargs, result)
        raise


def _run_pre_hook(entry: HookEntry, module: Any, args: tuple[Any, ...], kwargs: Any) -> tuple[Any, Any]:
    if not entry.with_kwargs:
        result = entry.fn(module, args)
        if result is None:
            return args, kwargs
        return (result if isinstance(result, tuple) else (result,)), kwargs
    result = entry.fn(module, args, kwargs)
    if result is None:
        return args, kwargs
    if isinstance(result, tuple) and len(result) == 2:
        return result
    raise RuntimeError(
        "a forward pre-hook registered with with_kwargs=True must return None or (args, kwargs), "
        f"got {result!r}."
    )


def _run_forward_hook(entry: HookEntry, module: Any, args: Any, kwargs: Any, result: Any) -> Any:
    if entry.with_kwargs:
        changed = entry.fn(module, args, kwargs, result)
    else:
        changed = entry.fn(module, args, result)
    return result if changed is None else changed


def _run_after_failure(entry: HookEntry, module: Any, args: Any, kwargs: Any, result: Any) -> Any:
    try:
        return _run_forward_hook(entry, module, args, kwargs, result)
    except Exception as err:
        # The original exception matters more than one of a clean-up hook.
        warn(f"a forward hook with always_call=True raised, which is ignored: {err}")
        return result
