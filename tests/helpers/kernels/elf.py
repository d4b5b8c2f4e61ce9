"""Shared libraries without code, for tests of what reads them."""

import struct
from collections.abc import Sequence


def library(
    shown: Sequence[str] = ("f",),
    needed: Sequence[str] = (),
    undefined: Sequence[str] = (),
    machine: int = 62,
) -> bytes:
    """An ELF file of 64 bits with a table of symbols, a dynamic section and their names."""
    names = b"\0"
    at = {}
    for name in (*shown, *undefined, *needed):
        at[name] = len(names)
        names += name.encode() + b"\0"
    symbols = bytes(24)
    for name in shown:
        symbols += struct.pack("<IBBHQQ", at[name], 0x12, 0, 1, 0, 0)
    for name in undefined:
        symbols += struct.pack("<IBBHQQ", at[name], 0x12, 0, 0, 0, 0)
    dynamic = b"".join(struct.pack("<qQ", 1, at[name]) for name in needed) + bytes(16)
    starts = [64, 64 + len(symbols), 64 + len(symbols) + len(dynamic)]
    sections = bytes(64)
    for kind, start, content, link in (
        (11, starts[0], symbols, 3),
        (6, starts[1], dynamic, 3),
        (3, starts[2], names, 0),
    ):
        sections += struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, start, len(content), link, 0, 8, 0)
    body = symbols + dynamic + names
    head = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01" + bytes(9), 3, machine, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64, 4, 0,
    )  # fmt: skip
    return head + body + sections
