"""Non-tensor values in files: JSON if it can hold them, pickle only with `allow_pickle`.

JSON converts tuples and sets to lists. Such values are also written in a second, tagged form, from which lite
restores them; other readers see lists.
"""

from __future__ import annotations

import os
import pickle
from typing import Any

import numpy as np

REFUSED = (
    "Refusing to load pickled non-tensor data from {where}: unpickling can run any code. Pass "
    "allow_pickle=True (the default is False) only if you trust where the files come from."
)
_PICKLED = (
    ". It is a pickle, as torch.save and pickle.dump write them, and reading one can run any code. Where it "
    "was written, load it and write its arrays: a state dict by safetensors.torch.save_file, or any arrays "
    "as tensordict.TensorDict(arrays).memmap(folder)."
)
_TAGS = {"tuple": tuple, "set": set, "frozenset": frozenset}


def to_json(value: object) -> tuple[Any, Any]:
    """The JSON form, and the tagged form if JSON alone loses a type (else None).

    Raises:
        TypeError: JSON cannot hold the value.
    """
    plain = _plain(value)
    return plain, (_tagged(value) if _loses(value) else None)


def _plain(value: object) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return [_plain(item) for item in sorted(value, key=repr)]
    if type(value) is dict and all(isinstance(key, str) for key in value):
        return {key: _plain(item) for key, item in value.items()}
    raise TypeError(f"JSON has no form for {type(value).__name__}{_way_out(value)}")


def _way_out(value: object) -> str:
    is_date = isinstance(value, np.datetime64 | np.timedelta64)
    return " (dates.astype(np.int64) is an array that files hold)" if is_date else ""


def _loses(value: object) -> bool:
    if isinstance(value, list):
        return any(_loses(item) for item in value)
    if isinstance(value, dict):
        return any(_loses(item) for item in value.values())
    return isinstance(value, tuple | set | frozenset)


def _tagged(value: object) -> Any:
    if isinstance(value, list):
        return [_tagged(item) for item in value]
    if isinstance(value, dict):
        return {"dict": {key: _tagged(item) for key, item in value.items()}}
    for tag, kind in _TAGS.items():
        if isinstance(value, kind):
            items = value if tag == "tuple" else sorted(value, key=repr)
            return {tag: [_tagged(item) for item in items]}
    return value


def from_tagged(value: object) -> Any:
    """Inverse of the tagged form.

    Raises:
        ValueError: not a tagged form.
    """
    if isinstance(value, list):
        return [from_tagged(item) for item in value]
    if not isinstance(value, dict):
        return value
    try:
        ((tag, content),) = value.items()
        if tag == "dict":
            return {key: from_tagged(item) for key, item in content.items()}
        return _TAGS[tag](from_tagged(item) for item in content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{value!r:.80} is not a tagged value.") from error


def as_pickle(value: object, allow_pickle: bool, key: str) -> bytes:
    """Pickle a value that JSON cannot hold.

    Raises:
        TypeError: `allow_pickle` is False.
    """
    if not allow_pickle:
        held = value["data"] if isinstance(value, dict) else value  # if the file holds one object
        kind, first = type(held).__name__, held
        if isinstance(held, list) and held:
            kind, first = f"{kind} of {type(held[0]).__name__}", held[0]
        raise TypeError(
            f"the object at key {key!r} is a {kind} that JSON cannot hold{_way_out(first)}: remove it, or "
            "pass allow_pickle=True (the default is False) to write a pickle, which a reader must trust."
        )
    return pickle.dumps(value)


def from_pickle(data: bytes, allow_pickle: bool, where: str) -> Any:
    """Unpickle, if that is allowed.

    Raises:
        RuntimeError: `allow_pickle` is False.
    """
    if not allow_pickle:
        raise RuntimeError(REFUSED.format(where=where))
    return pickle.loads(data)


def if_pickled(path: str) -> str:
    """The end of an error about an unreadable file: advice if it is a pickle, else ""."""
    if not os.path.isfile(path):
        return ""
    with open(path, "rb") as file:
        start = file.read(256)
    in_zip = start.startswith(b"PK") and b"/data.pkl" in start  # torch.save, which writes it first
    return _PICKLED if in_zip or start[:2] in (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05") else ""
