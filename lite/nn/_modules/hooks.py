"""Hooks of a module: registration, and the call path that runs them."""

from __future__ import annotations

import itertools
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

Hook = Callable[..., Any]
HookDict = OrderedDict  # hooks by number, in calling order; pickles of older versions have this name
_ids = itertools.count()
_warned_backward = False


class HookEntry(NamedTuple):
    """A forward (pre-)hook and how to call it."""

    fn: Hook
    with_kwargs: bool
    always_call: bool


class RemovableHandle:
    """What registering a hook returns: `remove()` takes the hook out, also at the end of a `with` block.

    Example:
        >>> from lite import nn
        >>> m = nn.Identity()
        >>> with m.register_forward_hook(lambda module, args, output: output + 1):
        ...     m(1)
        2
        >>> m(1)
        1
    """

    def __init__(self, hooks: HookDict[int, Any]) -> None:
        self.id = next(_ids)
        # A handle must not keep the module alive through its hooks.
        self._hooks = weakref.ref(hooks)

    def remove(self) -> None:
        """Remove the hook; does nothing the second time."""
        hooks = self._hooks()
        if hooks is not None:
            hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def add_hook(hooks: HookDict[int, Any], hook: Any, prepend: bool = False) -> RemovableHandle:
    """Put a hook at the end (or the front) of an ordered dict and return its handle."""
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


class Hooks:
    """Registration of hooks; `Module` is the public face."""

    _forward_pre_hooks: HookDict[int, Any]
    _forward_hooks: HookDict[int, Any]
    _backward_hooks: HookDict[int, Any]
    _backward_pre_hooks: HookDict[int, Any]
    _is_full_backward_hook: bool | None
    _state_dict_pre_hooks: HookDict[int, Any]
    _state_dict_hooks: HookDict[int, Any]
    _load_state_dict_pre_hooks: HookDict[int, Any]
    _load_state_dict_post_hooks: HookDict[int, Any]

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
        return add_hook(self._forward_pre_hooks, HookEntry(hook, with_kwargs, False), prepend)

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
        return add_hook(self._forward_hooks, HookEntry(hook, with_kwargs, always_call), prepend)

    def register_backward_hook(self, hook: Hook) -> RemovableHandle:
        """Accept a hook that never runs: there is no backward pass here. Warns once."""
        return self._add_backward_hook(hook, full=False, prepend=False)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Accept a hook that never runs: there is no backward pass here. Warns once."""
        return self._add_backward_hook(hook, full=True, prepend=prepend)

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Accept a hook that never runs: there is no backward pass here. Warns once."""
        _warn_backward()
        return add_hook(self._backward_pre_hooks, hook, prepend)

    def _add_backward_hook(self, hook: Hook, full: bool, prepend: bool) -> RemovableHandle:
        if self._backward_hooks and self._is_full_backward_hook is not full:
            raise RuntimeError(
                "a module takes either register_backward_hook or register_full_backward_hook, not both."
            )
        _warn_backward()
        self.__dict__["_is_full_backward_hook"] = full
        return add_hook(self._backward_hooks, hook, prepend)

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
        result = forward(*args, **kwargs)
        for key, entry in tuple(module._forward_hooks.items()):
            called.add(key)
            result = _run_forward_hook(entry, module, args, kwargs, result)
        return result
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
        # The exception on its way out matters more than the one of a clean-up hook.
        warnings.warn(f"a forward hook with always_call=True raised, which is ignored: {err}", stacklevel=2)
        return result


def _warn_backward() -> None:
    global _warned_backward
    if not _warned_backward:
        _warned_backward = True
        warnings.warn("backward hooks never run: lite has no automatic differentiation.", stacklevel=3)
