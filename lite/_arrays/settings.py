"""Settings: values for the process, or for one thread or task in a `with` block or a decorated function."""

from __future__ import annotations

import functools
import inspect
import os
import types
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, ClassVar, Generic, TypeVar

from lite._arrays.public import belong_to

T = TypeVar("T")
_TRUE = ("1", "true", "yes", "on", "y", "t")


_of_results: list[Setting[Any]] = []


def settings_now() -> tuple[Any, ...]:
    """The settings that results depend on and that were changed, for who keeps what was computed under them.

    Those of packages that are not imported yet are unchanged.
    """
    return tuple([(found, value) for found in _of_results if (value := found.get()) != found.first])


class Setting(Generic[T]):
    """A value of the process, which the running thread or task can override.

    Args:
        name: name of the context variable.
        default: value of the process until another is set.
        per_thread: False for a setting that has one value for all threads, always.
        of_results: False for a setting that changes how results are shown alone.
    """

    def __init__(self, name: str, default: T, per_thread: bool = True, of_results: bool = True) -> None:
        self.first = self.default = default
        self.per_thread = per_thread
        self.local: ContextVar[tuple[tuple[object, T], ...]] = ContextVar(name, default=())
        if of_results:
            _of_results.append(self)

    def get(self) -> T:
        """The value for the running thread or task."""
        local = self.local.get()
        return local[-1][1] if local else self.default

    def set(self, value: T) -> Callable[[], None]:
        """Set the value for the whole process; calling the result restores the old one."""
        before, self.default = self.default, value
        return functools.partial(setattr, self, "default", before)

    def set_here(self, value: T, owner: object = None) -> Callable[[], None]:
        """Set the value for the running thread or task; calling the result there restores the old one."""
        if not self.per_thread:
            return self.set(value)
        self.local.set((*self.local.get(), (owner, value)))
        return functools.partial(self._leave, owner)

    def _leave(self, owner: object) -> None:
        # Not by a token of the variable: threads may share the owner, and a server may end a generator
        # in another context than it began in, where there is nothing to undo.
        entered = self.local.get()
        last = len(entered) - 1
        while last >= 0 and entered[last][0] is not owner:
            last -= 1
        if last >= 0:
            self.local.set(entered[:last] + entered[last + 1 :])


class Scoped(Generic[T]):
    """Sets a value of a setting; a subclass names the setting.

    As a `with` statement or decorator it sets the value for the running thread or task, and may be entered
    again, also by other threads. `set` and `unset` set and restore the value of the process.
    """

    _setting: ClassVar[Setting[Any]]

    def __init__(self, mode: T) -> None:
        self.mode = mode
        self._entered: list[Callable[[], None]] = []
        self._set: list[Callable[[], None]] = []

    def __enter__(self) -> Any:
        self._entered.append(self._setting.set_here(self.mode, self))

    def __exit__(self, *exc: object) -> None:
        (self._entered or self._set).pop()()

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        return run_within(lambda: self, func)

    def set(self) -> None:
        """Set the value for the whole process."""
        self._set.append(self._setting.set(self.mode))

    def unset(self) -> None:
        """Undo the last `set`."""
        self._set.pop()()


def run_within(
    context: Callable[[], AbstractContextManager[Any]], func: Callable[..., Any]
) -> Callable[..., Any]:
    """A function that runs in a context: of generators and coroutines each step, not what is between them."""
    if inspect.isasyncgenfunction(func):

        async def asynchronous_steps(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
            inner = func(*args, **kwargs)
            step = inner.asend(None)
            try:
                while True:
                    found = await _awaited(context, step)
                    try:
                        step = inner.asend((yield found))
                    except GeneratorExit:
                        raise
                    except BaseException as error:
                        step = inner.athrow(error)
            except StopAsyncIteration:
                pass
            finally:
                await _awaited(context, inner.aclose())

        return functools.wraps(func)(asynchronous_steps)
    if inspect.iscoroutinefunction(func):

        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            return await _awaited(context, func(*args, **kwargs))

        return functools.wraps(func)(coroutine)
    if inspect.isgeneratorfunction(func):

        def steps(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            return (yield from _steps(context, func(*args, **kwargs)))

        return functools.wraps(func)(steps)

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        with context():
            return func(*args, **kwargs)

    return call


def _steps(context: Callable[[], AbstractContextManager[Any]], inner: Any) -> Generator[Any, Any, Any]:
    """The steps of a generator, a coroutine or what else is awaited."""
    step, value = inner.send, None
    while True:
        try:
            with context():
                found = step(value)
        except StopIteration as end:
            return end.value
        try:
            step, value = inner.send, (yield found)
        except GeneratorExit:
            with context():
                inner.close()
            raise
        except BaseException as error:
            step, value = inner.throw, error


_awaited = types.coroutine(_steps)


def from_environment(name: str) -> bool | None:
    """The value of an environment variable such as "1" or "false"; None if it is missing or empty."""
    text = os.environ.get(name, "").lower()
    return None if text in ("", "none") else text in _TRUE


_none_for_missing = Setting("lite.get_defaults_to_none", True, per_thread=False)


def get_defaults_to_none() -> bool:
    """Return whether `TensorDict.get` of a missing key gives None (the default) or raises KeyError."""
    return _none_for_missing.default


def set_get_defaults_to_none(set_to_none: bool = True) -> None:
    """Choose whether `TensorDict.get(key)` of a missing key returns None or raises KeyError.

    Example:
        >>> import lite
        >>> lite.TensorDict().get("missing") is None
        True
    """
    _none_for_missing.set(bool(set_to_none))


lists_are_stacks: Setting[bool | None] = Setting("lite.list_to_stack", from_environment("LIST_TO_STACK"))
objects_are_captured: Setting[bool | None] = Setting(
    "lite.capture_non_tensor_stack", from_environment("CAPTURE_NONTENSOR_STACK")
)


def list_to_stack(allow_none: bool = False) -> bool | None:
    """Return whether stored lists are split into elements; see `set_list_to_stack`.

    Args:
        allow_none: return None if nothing was chosen, instead of True.

    Example:
        >>> import lite
        >>> lite.list_to_stack()
        True
    """
    found = lists_are_stacks.get()
    return True if found is None and not allow_none else found


class set_list_to_stack(Scoped[bool]):
    """Choose whether a list that is stored as an entry is split into elements.

    By default it is: it becomes one object per element of the batch, an array of numbers, or a stack of
    arrays and TensorDicts. Otherwise `numpy.asarray` converts it: an array of numbers is the entry, anything
    else is one object for the whole batch, and a field of a tensorclass keeps the list.

    Use it in a `with` statement or as a decorator, for the running thread, or for the whole process by
    `.set()`, which `.unset()` undoes. The environment variable LIST_TO_STACK chooses at the start.

    Args:
        mode: True to split lists.

    Source:
        tensordict.set_list_to_stack.

    Example:
        >>> import lite
        >>> lite.TensorDict({"s": ["a", "b"]}, [2])[0]["s"]
        'a'
        >>> with lite.set_list_to_stack(False):
        ...     lite.TensorDict({"s": ["a", "b"]}, [2])[0]["s"]
        array(['a', 'b'], dtype='<U1')
    """

    _setting = lists_are_stacks

    def __init__(self, mode: bool) -> None:
        super().__init__(bool(mode))


def capture_non_tensor_stack(allow_none: bool = False) -> bool | None:
    """Return whether stacking equal objects gives one object; see `set_capture_non_tensor_stack`.

    Args:
        allow_none: return None if nothing was chosen, instead of False.

    Example:
        >>> import lite
        >>> lite.capture_non_tensor_stack()
        False
    """
    found = objects_are_captured.get()
    return False if found is None and not allow_none else found


class set_capture_non_tensor_stack(Scoped[bool]):
    """Choose whether stacking equal objects gives one object for the whole batch or one per element.

    One per element is the default. The setting applies to `stack` and to reads of lazy stacks. It is used as
    `set_list_to_stack`; the environment variable is CAPTURE_NONTENSOR_STACK.

    Args:
        mode: True for one `NonTensorData`.

    Source:
        tensordict.set_capture_non_tensor_stack.

    Example:
        >>> import lite
        >>> rows = [lite.TensorDict(s="a"), lite.TensorDict(s="a")]
        >>> lite.stack(rows)["s"]
        ['a', 'a']
        >>> with lite.set_capture_non_tensor_stack(True):
        ...     lite.stack(rows)["s"]
        'a'
    """

    _setting = objects_are_captured

    def __init__(self, mode: bool) -> None:
        super().__init__(bool(mode))


belong_to("lite", set_capture_non_tensor_stack, set_list_to_stack)
