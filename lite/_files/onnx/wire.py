"""Integers and fields as protobuf writes them."""

from __future__ import annotations

import struct


def varint(value: int) -> bytes:
    """An integer as protobuf writes it; a negative one as 64 bits."""
    value &= 0xFFFFFFFFFFFFFFFF
    if value < 128:
        return bytes((value,))
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def field(number: int, payload: bytes) -> bytes:
    """A field of bytes: a text or a message."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def text(number: int, value: str) -> bytes:
    """A field of text."""
    return field(number, value.encode())


def integer(number: int, value: int) -> bytes:
    """A field of an integer."""
    return varint(number << 3) + varint(value)


def single(number: int, value: float) -> bytes:
    """A field of a number of 32 bits."""
    return varint(number << 3 | 5) + struct.pack("<f", value)
