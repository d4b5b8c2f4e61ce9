"""Settings that hold inside a `with` statement or a function, for one thread, or for the whole process."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Any, ClassVar, Generic, TypeVar

T = TypeVar("T")


class Setting(Generic[T]):
    """A value of the process, and in its place a value of the running thread or task.

    Args:
        name: name of the context variable.
        default: value of the process until another is set.
    """

    def __init__(self, name: str, default: T) -> None:
        self.default = default
        self.local: ContextVar[tuple[T] | None] = ContextVar(name, default=None)

    def get(self) -> T:
        """The value that holds here."""
        local = self.local.get()
        return self.default if local is None else local[0]


class Scoped(Generic[T]):
    """Gives a setting a value; a subclass names the setting.

    Used in a `with` statement or as a decorator the value holds there, for the running thread or task, and
    may be entered again. `set` and `unset` give the process a value and take it back.
    """

    _setting: ClassVar[Setting[Any]]

    def __init__(self, mode: T) -> None:
        self.mode = mode
        self._tokens: list[Token[Any]] = []
        self._before: list[Any] = []

    def __enter__(self) -> None:
        self._tokens.append(self._setting.local.set((self.mode,)))

    def __exit__(self, *exc: object) -> None:
        self._setting.local.reset(self._tokens.pop())

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            token = self._setting.local.set((self.mode,))
            try:
                return func(*args, **kwargs)
            finally:
                self._setting.local.reset(token)

        return wrapper

    def set(self) -> None:
        """Let the value hold for the whole process."""
        self._before.append(self._setting.default)
        self._setting.default = self.mode

    def unset(self) -> None:
        """Take the last `set` back."""
        self._setting.default = self._before.pop()


_get_defaults_to_none = True


def get_defaults_to_none() -> bool:
    """Return whether `TensorDict.get` of a missing key gives None (the default) or raises KeyError."""
    return _get_defaults_to_none


def set_get_defaults_to_none(set_to_none: bool = True) -> None:
    """Choose whether `TensorDict.get(key)` of a missing key returns None or raises KeyError.

    Example:
        >>> import lite
        >>> lite.TensorDict().get("missing") is None
        True
    """
    global _get_defaults_to_none
    _get_defaults_to_none = bool(set_to_none)
