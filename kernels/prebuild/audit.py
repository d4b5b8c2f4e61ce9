"""The requirements of a shared library, read from its file (ELF of 64 bits)."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_HEAD, _SECTION, _SYMBOL, _ENTRY = "<16sHHIQQQIHHHHHH", "<IIQQQQIIQQ", "<IBBHQQ", "<qQ"
_DYNAMIC, _SYMBOLS, _NEEDED = 6, 11, 1
_MACHINES = {62: "x86_64", 183: "aarch64"}


class Demands(NamedTuple):
    """The requirements of a library.

    Attributes:
        machine: as `platform.machine()` says it.
        libraries: names of others that are loaded with it.
        symbols: names that others have to define.
    """

    machine: str
    libraries: list[str]
    symbols: list[str]


def demands(path: Path) -> Demands:
    """The demands of a library.

    Raises:
        ValueError: the file is no shared library of 64 bits in little endian, or names no symbols.
    """
    code = path.read_bytes()
    try:
        head = struct.unpack_from(_HEAD, code)
        if head[0][:6] != b"\x7fELF\x02\x01" or head[1] != 3:
            raise ValueError(f"{path} is no shared library of 64 bits")
        at, size, count = head[6], head[11], head[12]
        sections = [struct.unpack_from(_SECTION, code, at + k * size) for k in range(count)]
        libraries, symbols, tables = [], [], 0
        for _, kind, _, _, start, length, link, *_ in sections:
            if kind not in (_DYNAMIC, _SYMBOLS):
                continue
            names = sections[link][4]
            if kind == _DYNAMIC:
                entries = _rows(_ENTRY, code, start, length)
                libraries += [_name(code, names + value) for tag, value in entries if tag == _NEEDED]
            else:
                tables += 1
                rows = list(_rows(_SYMBOL, code, start, length))[1:]  # the first is none
                symbols += [_name(code, names + row[0]) for row in rows if row[3] == 0]
    except (struct.error, IndexError) as error:
        raise ValueError(f"{path} is damaged ({error})") from error
    if not tables:
        raise ValueError(f"{path} names no symbols")
    return Demands(_MACHINES.get(head[2], str(head[2])), libraries, symbols)


def _rows(form: str, code: bytes, start: int, length: int) -> Iterator[tuple[int, ...]]:
    return struct.iter_unpack(form, code[start : start + length])


def _name(code: bytes, start: int) -> str:
    return code[start : code.index(b"\0", start)].decode()
