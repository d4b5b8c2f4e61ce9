"""Settings: values of the process or of one thread, for good, in a `with` block or in a function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, ClassVar, Generic, TypeVar

T = TypeVar("T")


class Setting(Generic[T]):
    """A value of the process, and in its place a value of the running thread or task.

    Args:
        name: name of the context variable.
        default: value of the process until another is set.
        per_thread: False for a setting that has one value for all threads, always.
    """

    def __init__(self, name: str, default: T, per_thread: bool = True) -> None:
        self.default = default
        self.per_thread = per_thread
        self.local: ContextVar[tuple[T] | None] = ContextVar(name, default=None)

    def get(self) -> T:
        """The value that holds here."""
        local = self.local.get()
        return self.default if local is None else local[0]

    def set(self, value: T) -> Callable[[], None]:
        """Let a value hold for the whole process; calling the result takes it back."""
        before, self.default = self.default, value
        return functools.partial(setattr, self, "default", before)

    def set_here(self, value: T) -> Callable[[], None]:
        """Let a value hold for the running thread or task; calling the result takes it back."""
        if not self.per_thread:
            return self.set(value)
        return functools.partial(self.local.reset, self.local.set((value,)))


class Scoped(Generic[T]):
    """Gives a setting a value; a subclass names the setting.

    Used in a `with` statement or as a decorator the value holds there, for the running thread or task, and
    may be entered again. `set` and `unset` give the process a value and take it back.
    """

    _setting: ClassVar[Setting[Any]]

    def __init__(self, mode: T) -> None:
        self.mode = mode
        self._entered: list[Callable[[], None]] = []
        self._set: list[Callable[[], None]] = []

    def __enter__(self) -> Any:
        self._entered.append(self._setting.set_here(self.mode))

    def __exit__(self, *exc: object) -> None:
        (self._entered or self._set).pop()()

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            undo = self._setting.set_here(self.mode)
            try:
                return func(*args, **kwargs)
            finally:
                undo()

        return wrapper

    def set(self) -> None:
        """Let the value hold for the whole process."""
        self._set.append(self._setting.set(self.mode))

    def unset(self) -> None:
        """Take the last `set` back."""
        self._set.pop()()


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
