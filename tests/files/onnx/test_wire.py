"""Integers and fields of protobuf, read again by the reader."""

from helpers.cases import each_case

from lite._files.onnx.wire import fields, integer, read_varint, single, text, varint


@each_case("value", [0, 1, 127, 128, 300, 2**31, 2**63 - 1])
def test_integers(value: int) -> None:
    data = varint(value)
    assert read_varint(data, 0, len(data)) == (value, len(data))


def test_negative_integers_have_64_bits() -> None:
    assert len(varint(-1)) == 10
    assert read_varint(varint(-1), 0, 10)[0] == 2**64 - 1


def test_fields() -> None:
    data = text(3, "ü" * 100) + integer(20, 7) + single(2, 1.5)
    (a, b, c) = fields(data, 0, len(data))
    assert (a[:2], data[a[2] : a[3]].decode()) == ((3, 2), "ü" * 100)
    assert b[:2] == (20, 0)
    assert (c[:2], data[c[2] : c[3]]) == ((2, 5), b"\x00\x00\xc0?")
    data = text(15, "a" * 127) + text(1, "a" * 128) + integer(16, 1) + varint(4 << 3 | 1) + bytes(8)
    found = [(number, wire, stop - start) for number, wire, start, stop in fields(data, 0, len(data))]
    assert found == [(15, 2, 127), (1, 2, 128), (16, 0, 1), (4, 1, 8)]
