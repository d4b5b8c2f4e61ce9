"""Nested keys are flattened to paths here, once, where a public method gets them.

A key is a string, or a (possibly nested) tuple of strings that addresses an entry of a nested
TensorDict. All private functions take paths, which are flat tuples of strings.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from lite._arrays.public import belong_to
from lite._arrays.types import Path

KEY_SEPARATOR = "."  # of flatten_keys and unflatten_keys, unless they are given another

if TYPE_CHECKING:
    NestedKey: TypeAlias = str | tuple[Any, ...]
else:

    class _NestedKeyMeta(type):
        def __instancecheck__(cls, key: object) -> bool:
            return bool(to_path(key))

    class NestedKey(metaclass=_NestedKeyMeta):
        """A string, or a non-empty tuple made of nested keys; use it with `isinstance`.

        Example:
            >>> from lite import NestedKey
            >>> isinstance(("a", ("b", "c")), NestedKey), isinstance(("a", 1), NestedKey)
            (True, False)
        """

    belong_to("lite", NestedKey)


def to_path(key: object) -> Path:
    """Flatten a nested key to a tuple of strings; `()` for anything that is not a nested key."""
    if isinstance(key, str):
        # Of a subclass of str: the value of an enum, the text of a NumPy string.
        return (key if type(key) is str else str.__str__(key),)
    if not isinstance(key, tuple):
        return ()
    for part in key:
        if type(part) is not str:
            break
    else:
        return key
    if type(key[0]) is str:  # no index: of arrays in one the cache would hold on to
        try:
            return _known_path(key)
        except TypeError:  # a part that is unhashable is not a key
            return ()
    return _joined_path(key)


def _joined_path(key: tuple[object, ...]) -> Path:
    out: list[str] = []
    for part in key:
        flat = to_path(part)
        if not flat:
            return ()
        out.extend(flat)
    return tuple(out)


# Programs use few keys, and each of them often: `get` of a key with a tuple in it takes 0.75 of the time.
_known_path = lru_cache(maxsize=1024)(_joined_path)


def unravel_key_to_tuple(key: object) -> Path:
    """Flatten a nested key to a tuple of strings, which is empty for what is not a key.

    Example:
        >>> from lite import unravel_key_to_tuple
        >>> unravel_key_to_tuple("a"), unravel_key_to_tuple(("a", ("b",))), unravel_key_to_tuple(1)
        (('a',), ('a', 'b'), ())
    """
    return to_path(key)


def require_path(key: object) -> Path:
    """Flatten a nested key; KeyError if it is not one."""
    path = to_path(key)
    if not path:
        raise KeyError(f"Only NestedKeys are supported. Got key {key!r}.")
    return path


def to_key(path: Path) -> NestedKey:
    """The shortest public form of a path: a string for one level, else the tuple."""
    return path[0] if len(path) == 1 else path


def unravel_key(key: object) -> NestedKey:
    """Flatten a nested key: a string for one level, a flat tuple of strings for more.

    Args:
        key: a string or a nested tuple of strings.

    Raises:
        RuntimeError: if `key`, or any part of it, is neither a string nor a tuple.

    Example:
        >>> from lite import unravel_key
        >>> unravel_key(("a", ("b", ("c",)))), unravel_key(("a",)), unravel_key("a")
        (('a', 'b', 'c'), 'a', 'a')
    """
    if type(key) is str:  # half the time of a look into the cache
        return key
    try:
        return _unravelled(key)
    except TypeError:  # an unhashable object is not a key
        raise _no_key(key) from None


@lru_cache(maxsize=1024)  # programs use few keys, and each of them often
def _unravelled(key: object) -> NestedKey:
    if isinstance(key, tuple) and not key:
        return key
    path = to_path(key)
    if not path:
        raise _no_key(key)
    return to_key(path)


@lru_cache(maxsize=256)
def _all_unravelled(*keys: object) -> tuple[NestedKey, ...]:
    return tuple(map(_unravelled, keys))


def _no_key(key: object) -> RuntimeError:
    return RuntimeError(f"key must be a NestedKey (a str or a tuple of str), got {key!r}.")


def unravel_key_list(keys: Iterable[Any]) -> list[NestedKey]:
    """Flatten every key of a list or tuple.

    Example:
        >>> from lite import unravel_key_list
        >>> unravel_key_list(["a", ("b", ("c",))])
        ['a', ('b', 'c')]
    """
    if type(keys) is list or isinstance(keys, tuple | list):
        try:
            return [*_all_unravelled(*keys)]
        except TypeError:
            return list(map(unravel_key, keys))
    raise TypeError(f"keys must be a list or a tuple of keys, got {type(keys).__name__}.")


def require_utf8(text: str, what: str) -> None:
    """Raise ValueError for text with lone surrogates, which UTF-8 cannot encode.

    Args:
        text: a key, or an object.
        what: the noun for it in the error message.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{what} {text[:80]!r} cannot be written: this format is UTF-8, and character {error.start} is "
            f"a lone surrogate."
        ) from None
