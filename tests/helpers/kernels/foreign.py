"""Shared libraries of Windows and macOS without code, for tests of what reads them."""

import struct
from collections.abc import Mapping, Sequence


def dll(
    imported: Mapping[str, Sequence[str | int]] | None = None,
    delayed: Mapping[str, Sequence[str | int]] | None = None,
    *,
    exports: bool = True,
    machine: int = 0x8664,
    flags: int = 0x2000,
) -> bytes:
    """A PE file of 64 bits: what it imports from which library, by name or number, at once or when called."""
    base, offset = 0x1000, 0x200
    data = bytearray(40)  # the table of exports, of which only the place is read
    tables = []
    for given, form in ((imported, "<I8xII4x"), (delayed, "<4xI8xI12x")):
        rows = []
        for library, symbols in (given or {}).items():
            entries = []
            for symbol in symbols:
                entries.append(1 << 63 | symbol if isinstance(symbol, int) else base + len(data))
                if isinstance(symbol, str):
                    data += b"\0\0" + symbol.encode() + b"\0"
            names = base + len(data)
            data += struct.pack(f"<{len(entries) + 1}Q", *entries, 0)
            name = base + len(data)
            data += library.encode() + b"\0"
            rows.append(
                struct.pack(form, names, name, names) if form[2] == "8" else struct.pack(form, name, names)
            )
        tables.append(base + len(data) if rows else 0)
        data += b"".join(rows) + bytes(32)
    directories = [base if exports else 0, tables[0], *[0] * 11, tables[1]]
    options = struct.pack("<H", 0x20B).ljust(108, b"\0") + struct.pack("<I", len(directories))
    options += b"".join(struct.pack("<II", place, 0) for place in directories)
    head = b"MZ".ljust(0x3C, b"\0") + struct.pack("<I", 0x40)
    head += struct.pack("<4sHH12xHH", b"PE\0\0", machine, 1, len(options), flags) + options
    head += struct.pack("<8sIIII16x", b".data", len(data), base, len(data), offset)
    return head.ljust(offset, b"\0") + bytes(data)


def dylib(
    libraries: Sequence[str] = (),
    undefined: Sequence[str] = (),
    *,
    shown: Sequence[str] = ("_f",),
    machine: int = 0x0100000C,
    kind: int = 6,
    symbols: bool = True,
) -> bytes:
    """A Mach-O file of 64 bits: the libraries that it loads, what it shows and what others have to define."""
    commands = []
    for name in libraries:
        text = name.encode() + b"\0"
        commands.append(struct.pack("<IIIIII", 0xC, 24 + len(text), 24, 0, 0, 0) + text)
    names, table = b"\0", b""
    known = [("of_debuggers", 0x20, 0), *[(n, 0xF, 1) for n in shown]]
    for name, flags, section in known + [(n, 0x1, 0) for n in undefined]:
        table += struct.pack("<IBBHQ", len(names), flags, section, 0, 0)
        names += name.encode() + b"\0"
    size = 32 + sum(map(len, commands)) + 24 * symbols
    if symbols:
        commands.append(struct.pack("<6I", 2, 24, size, len(table) // 16, size + len(table), len(names)))
    head = struct.pack("<IIIIIIII", 0xFEEDFACF, machine, 0, kind, len(commands), size - 32, 0, 0)
    return head + b"".join(commands) + table + names
