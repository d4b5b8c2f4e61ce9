"""`meta.json`: reading, writing, and lite's extension of the format.

The file of a node is a JSON object. It has one member per entry, whose value is an object, followed by the
fields `shape`, `device` and `_type` of the node, whose values are not objects. Dimension names are in the
field `_names`, a list, as in tensordict 0.15. Entries with the name of a field, and names beside an entry
`_names`, cannot be expressed so. They are in the member `_lite`, a list, which other readers ignore.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

NAME = "meta.json"
PICKLES = ("other.pickle", "pickle.pkl")  # pickle file beside it, with objects that JSON cannot hold
MAX_BYTES = 1 << 28
TENSORDICT = "<class 'tensordict._td.TensorDict'>"
LAZY_STACK = "<class 'tensordict._lazy.LazyStackedTensorDict'>"
NON_TENSOR_DATA = "<class 'tensordict.tensorclass.NonTensorData'>"
NON_TENSOR_STACK = "<class 'tensordict.tensorclass.NonTensorStack'>"
META_DATA = "<class 'tensordict.tensorclass.MetaData'>"
_FIELDS = ("shape", "device", "_type")
_EXTENSION = "_lite"
_DIM_NAMES = "_names"
_SEALED = re.compile(rb"\n([ \t]{32})\Z")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def dumps(value: object) -> bytes:
    """Compact UTF-8; NaN and Infinity as Python writes them.

    Raises:
        TypeError, ValueError: not a JSON value.
        RecursionError: nested too deeply.
    """
    return _encoded(text_of(value))


def text_of(value: object) -> str:
    """As `dumps`, before it is encoded."""
    return _ENCODER.encode(value)


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate in a string, which must be escaped
        return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text).encode()


class damaged:
    """Errors of these classes inside, as a ValueError which says that a file is damaged or foreign.

    What runs for each node or entry of a folder has a handler of its own, which takes less time.

    Args:
        where: the path of the file, for the message; an error that names it already stays as it is.
        errors: what reading damaged files raises.
    """

    __slots__ = ("errors", "where")

    def __init__(self, where: object, *errors: type[Exception]) -> None:
        self.where = where
        self.errors = errors

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, self.errors):
            return
        named = rf"(^|\s){re.escape(str(self.where))}([\s/\\:.,]|$)"  # short names are parts of other words
        if isinstance(error, ValueError) and re.search(named, str(error)):
            return
        raise ValueError(f"{self.where} is damaged or foreign: {error}") from error


def loads(data: bytes, where: str) -> Json:
    """Parse a JSON object.

    Raises:
        ValueError: anything else, or the checksum does not match.
    """
    content = _opened(data, where)
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is damaged or foreign: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(
            f"{where} is damaged or foreign: expected a JSON object, got {type(value).__name__}."
        )
    return value


def sealed(content: bytes) -> bytes:
    """The file of a node with its checksum, which `loads` compares.

    The bits of the checksum are appended as blanks and tabs. Every JSON reader accepts trailing white space;
    another member would be an unknown field for tensordict's tensorclasses, which raise for it.
    """
    bits = format(zlib.crc32(content), "032b").replace("0", " ").replace("1", "\t")
    return content + b"\n" + bits.encode()


def is_sealed(data: bytes) -> bool:
    """Whether a file has a checksum."""
    return _SEALED.search(data) is not None


def _opened(data: bytes, where: str) -> bytes:
    found = _SEALED.search(data)
    if found is None:  # a file by another writer
        return data
    bits = found[1].replace(b" ", b"0").replace(b"\t", b"1")
    if zlib.crc32(data[: found.start()]) != int(bits, 2):
        raise ValueError(f"{where} is damaged: its checksum belongs to other content.")
    return data[: found.start()]


@lru_cache(4096)
def leaf(dtype: str, shape: tuple[int, ...]) -> str:
    """The member of an array, as JSON."""
    return text_of({"device": "cpu", "shape": list(shape), "dtype": dtype, "is_nested": False})


def leaf_with(checksum: int, dtype: str, shape: tuple[int, ...]) -> str:
    """The member of an array with the CRC-32 of its bytes."""
    return f'{leaf(dtype, shape)[:-1]},"crc32":{checksum}}}'


def join(entries: dict[str, str], shape: tuple[int, ...], names: list[str | None] | None) -> bytes:
    """The file of a TensorDict node, joined from its members in JSON."""
    parts, moved = [], []
    for position, (key, member) in enumerate(entries.items()):
        if key in _FIELDS:
            moved.append(f"[{position},{encode_basestring(key)},{member}]")
        else:
            parts.append(f"{encode_basestring(key)}:{member}")
    if names is not None and _DIM_NAMES not in entries:
        parts.append(f'"{_DIM_NAMES}":{text_of(names)}')
        names = None
    if moved or names is not None:
        parts.append(f'"{_free_name(entries)}":[{{"names":{text_of(names)},"entries":[{",".join(moved)}]}}]')
    parts.append(f'"shape":[{",".join(map(str, shape))}],"device":"cpu","_type":"{TENSORDICT}"')
    return _encoded(f"{{{','.join(parts)}}}")


def split(node: Json, where: str) -> tuple[dict[str, Json], list[str | None] | None]:
    """The entries of a TensorDict node, in order, and its dimension names."""
    entries = {key: member for key, member in node.items() if isinstance(member, dict)}
    extension, names = node.get(_free_name(entries)), node.get(_DIM_NAMES)
    names = names if isinstance(names, list) else None
    if extension is None:
        return entries, names
    try:
        (content,) = extension
        pairs = list(entries.items())
        for position, key, member in content["entries"]:
            if key not in _FIELDS or not isinstance(member, dict):
                raise ValueError(key)
            pairs.insert(position, (key, member))
        return dict(pairs), names if content["names"] is None else content["names"]
    except (TypeError, ValueError, KeyError) as error:
        raise ValueError(f"{where} is damaged or foreign: member {_EXTENSION!r}.") from error


def _free_name(entries: Iterable[str]) -> str:
    """The key of the extension, with underscores added until no entry has it."""
    name = _EXTENSION
    while name in entries:
        name += "_"
    return name


def stack_dim_of(value: object, parts: Sequence[Any], where: str) -> int:
    """Check the stack dimension of a stack of some parts, and return it."""
    if type(value) is not int or not 0 <= value <= min((part.ndim for part in parts), default=0):
        raise ValueError(f"{where} is damaged or foreign: stack_dim is {value!r:.80}.")
    return value


def shape_of(value: Any, where: str) -> tuple[int, ...]:
    """Check a shape, a list of sizes that NumPy supports, and return it as a tuple."""
    ok = isinstance(value, list) and len(value) <= 64
    for n in value if ok else ():
        ok = ok and type(n) is int and 0 <= n < 1 << 62
    if not ok:
        raise ValueError(f"{where} is damaged or foreign: {value!r:.80} is not a shape.")
    return tuple(value)
