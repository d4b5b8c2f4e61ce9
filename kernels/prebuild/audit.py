"""The requirements of a shared library, read from its file: ELF, PE or Mach-O, of 64 bits."""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

_MACHINES = {
    62: "x86_64",
    183: "aarch64",  # ELF
    0x8664: "x86_64",
    0xAA64: "aarch64",  # PE
    0x01000007: "x86_64",
    0x0100000C: "aarch64",  # Mach-O
}


class Demands(NamedTuple):
    """The requirements of a library.

    Attributes:
        system: as `sys.platform` says it.
        machine: "x86_64" or "aarch64"; the format's number of any other.
        libraries: names of others that are loaded with it.
        symbols: names that others have to define.
    """

    system: str
    machine: str
    libraries: list[str]
    symbols: list[str]


def demands(path: Path) -> Demands:
    """The demands of a library.

    Raises:
        ValueError: the file is not a shared library of 64 bits in little endian, or names no symbols.
    """
    code = path.read_bytes()
    try:
        for start, system, read in _FORMATS:
            if code.startswith(start):
                machine, libraries, symbols = read(code)
                return Demands(system, _MACHINES.get(machine, str(machine)), libraries, symbols)
    except (struct.error, IndexError) as error:
        raise ValueError(f"{path} is damaged ({error})") from error
    except ValueError as error:
        raise ValueError(f"{path} {error}") from error
    raise ValueError(f"{path} is not a shared library of 64 bits")


def _elf(code: bytes) -> tuple[int, list[str], list[str]]:
    head = struct.unpack_from("<16sHHIQQQIHHHHHH", code)
    if head[1] != 3:
        raise ValueError("is not a shared library of 64 bits")
    at, size, count = head[6], head[11], head[12]
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, at + k * size) for k in range(count)]
    libraries, symbols, tables = [], [], 0
    dynamic, exported, needed = 6, 11, 1
    for _, kind, _, _, start, length, link, *_ in sections:
        if kind not in (dynamic, exported):
            continue
        names = sections[link][4]
        if kind == dynamic:
            entries = _rows("<qQ", code, start, length)
            libraries += [_name(code, names + value) for tag, value in entries if tag == needed]
        else:
            tables += 1
            rows = list(_rows("<IBBHQQ", code, start, length))[1:]  # the first is none
            symbols += [_name(code, names + row[0]) for row in rows if row[3] == 0]
    if not tables:
        raise ValueError("names no symbols")
    return head[2], libraries, symbols


def _pe(code: bytes) -> tuple[int, list[str], list[str]]:
    """The machine, the libraries and the imported symbols of a Windows library (PE format)."""
    (at,) = struct.unpack_from("<I", code, 0x3C)
    mark, machine, count, size, flags = struct.unpack_from("<4sHH12xHH", code, at)
    options = at + 24
    if mark != b"PE\0\0" or not flags & 0x2000 or struct.unpack_from("<H", code, options) != (0x20B,):
        raise ValueError("is not a shared library of 64 bits")
    sections = [struct.unpack_from("<8xIIII", code, options + size + 40 * k) for k in range(count)]

    def place(address: int) -> int:
        """The position in the file of an address in memory."""
        for _, start, length, offset in sections:
            if start <= address < start + length:
                return int(address - start + offset)
        raise IndexError(f"no section holds the address {address}")

    def directory(number: int) -> int:
        if number >= struct.unpack_from("<I", code, options + 108)[0]:
            return 0
        return int(struct.unpack_from("<I", code, options + 112 + 8 * number)[0])

    if not directory(0):
        raise ValueError("names no symbols")
    libraries, symbols = [], []
    # Libraries loaded at once, and those loaded when they are first called.
    for number, form in ((1, "<I8xII4x"), (13, "<4xI8xI12x")):
        row = place(found) if (found := directory(number)) else 0
        while row:
            fields = struct.unpack_from(form, code, row)
            names, name = (fields[0] or fields[2], fields[1]) if number == 1 else (fields[1], fields[0])
            if not name:
                break
            libraries.append(_name(code, place(name)))
            entry = place(names)
            while (symbol := struct.unpack_from("<Q", code, entry)[0]) != 0:
                by_number = symbol >> 63
                symbols.append(f"{symbol & 0xFFFF}" if by_number else _name(code, place(symbol) + 2))
                entry += 8
            row += struct.calcsize(form)
    return machine, libraries, symbols


def _macho(code: bytes) -> tuple[int, list[str], list[str]]:
    machine, kind, count = struct.unpack_from("<4xI4xII", code)
    if kind != 6:
        raise ValueError("is not a shared library of 64 bits")
    at, libraries, symbols, tables = 32, [], [], 0
    symbol_table, loads = 2, (0xC, 0x80000018, 0x8000001F)  # of which one may be missing, one is handed on
    for _ in range(count):
        command, size = struct.unpack_from("<II", code, at)
        if command in loads:
            libraries.append(_name(code, at + struct.unpack_from("<I", code, at + 8)[0]))
        elif command == symbol_table:
            tables += 1
            start, number, names, _ = struct.unpack_from("<4I", code, at + 8)
            for name, flags, section, _, _ in _rows("<IBBHQ", code, start, 16 * number):
                debugging, external = flags & 0xE0, flags & 1
                if external and not debugging and not section and flags & 0x0E == 0:
                    symbols.append(_name(code, names + name))
        at += size
    if not tables:
        raise ValueError("names no symbols")
    return machine, libraries, symbols


_FORMATS: tuple[tuple[bytes, str, Callable[[bytes], tuple[int, list[str], list[str]]]], ...] = (
    (b"\x7fELF\x02\x01", "linux", _elf),
    (b"MZ", "win32", _pe),
    (b"\xcf\xfa\xed\xfe", "darwin", _macho),
)


def _rows(form: str, code: bytes, start: int, length: int) -> Iterator[tuple[int, ...]]:
    return struct.iter_unpack(form, code[start : start + length])


def _name(code: bytes, start: int) -> str:
    return code[start : code.index(b"\0", start)].decode()
