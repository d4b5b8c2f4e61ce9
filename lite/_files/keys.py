"""Entry keys as file names.

Escaping works like a URL's: characters that a file system may refuse become `%XX`. Names are never
decoded by a reader, because `meta.json` holds the keys themselves.
"""

from __future__ import annotations

import os
import re

_UNSAFE = re.compile(r'[/<>:"|?*\\ %\x00-\x1f\x7f]')
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
    return bool(key) and key not in (".", "..") and not drive and not {"/", "\\", "\0"} & set(key)


def file_name(key: str, suffix: str, robust: bool) -> str:
    """The name to write an entry under.

    Raises:
        ValueError: the key cannot be a file name.
    """
    if key.isidentifier() and key.isascii() and len(key) + len(suffix) <= _MAX_NAME:
        return key + suffix
    if not robust and (not is_plain(key) or key.startswith("%")):
        raise ValueError(f"the key {key!r} cannot be a file name as it is; pass robust_key=True.")
    name = (encode_key(key) if robust else key) + suffix
    try:
        size = len(os.fsencode(name))
    except UnicodeEncodeError as error:
        raise ValueError(f"the key {key!r} has no form that a file system takes.") from error
    if size > _MAX_NAME:
        raise ValueError(
            f"the key {key[:40]!r}... is too long for a file name ({size} bytes, at most {_MAX_NAME})."
        )
    return name
