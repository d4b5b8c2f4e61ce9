"""Entry keys as file names.

Escaping works like a URL's: characters that a file system may refuse become `%XX`. Names are never
decoded by a reader, because `meta.json` holds the keys themselves.

Windows has devices such as `aux`, whatever the folder and the suffix: it escapes the first letter of such a
name, and a reader on another system looks for both.
"""

from __future__ import annotations

import os
import re

from lite._files.system import WINDOWS

_UNSAFE = re.compile(r'[/<>:"|?*\\ %\x00-\x1f\x7f]')
_DEVICE = re.compile(r"(con|prn|aux|nul|(com|lpt)[1-9])(\..*)?", re.IGNORECASE)
_MAX_NAME = 255  # bytes of one path component, on every common file system


def encode_key(key: str) -> str:
    """The file name (without suffix) of an entry; no two keys share one.

    Example:
        >>> encode_key("a/b c"), encode_key(""), encode_key(".."), encode_key("x.é")
        ('a%2Fb%20c', '%', '%2E%2E', 'x.é')
    """
    if key.isidentifier():
        return key
    if not key:
        return "%"
    if key in (".", ".."):
        return "%2E" * len(key)
    return _UNSAFE.sub(lambda match: f"%{ord(match[0]):02X}", key)


def is_plain(key: str) -> bool:
    """Whether a key is a safe file name without escaping, as old versions wrote it."""
    drive = len(key) > 1 and key[1] == ":" and key[0].isalpha()
    if WINDOWS and (":" in key or _DEVICE.fullmatch(key)):  # a stream of another file
        return False
    return bool(key) and key not in (".", "..") and not drive and not {"/", "\\", "\0"} & set(key)


def names_of(key: str, robust: bool) -> tuple[str, ...]:
    """The names, without suffix, under which a reader looks for an entry.

    Raises:
        ValueError: without `robust`, a key that cannot be a file name.
    """
    if not WINDOWS and key.isidentifier() and len(key) not in (3, 4):  # no device, and nothing to escape
        return (key,)
    name = encode_key(key)
    if not robust and (name != key or WINDOWS) and not is_plain(key):
        raise ValueError(f"the key {key!r} cannot be a file name as it is; pass robust_key=True.")
    if not robust:
        return (key,)
    names = (name, key) if name != key and is_plain(key) else (name,)
    if not _DEVICE.fullmatch(key):
        return names
    escaped = _escaped_device(name)
    return (escaped,) if WINDOWS else (*names, escaped)


def _escaped_device(name: str) -> str:
    return f"%{ord(name[0]):02X}{name[1:]}"


def file_name(key: str, suffix: str, robust: bool) -> str:
    """The name to write an entry under.

    Raises:
        ValueError: the key cannot be a file name.
    """
    device = WINDOWS and _DEVICE.fullmatch(key)
    if key.isidentifier() and key.isascii() and len(key) + len(suffix) <= _MAX_NAME and not device:
        return key + suffix
    if not robust and (not is_plain(key) or key.startswith("%")):
        raise ValueError(f"the key {key!r} cannot be a file name as it is; pass robust_key=True.")
    name = (encode_key(key) if robust else key) + suffix
    if device:
        name = _escaped_device(name)
    try:
        size = len(name.encode() if WINDOWS else os.fsencode(name))
    except UnicodeEncodeError as error:
        raise ValueError(f"the key {key!r} has no form that a file system takes.") from error
    if size > _MAX_NAME:
        raise ValueError(
            f"the key {key[:40]!r}... is too long for a file name ({size} bytes, at most {_MAX_NAME})."
        )
    return name
