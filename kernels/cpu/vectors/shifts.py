"""LLVM code that copies a few numbers, plus one, or parts them (see `products` for larger work).

A loop that LLVM makes vectors of takes 64 numbers at once, and what is left one by one: of rows of images
that is all. Here the last vector of a row is a part of one.
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba.extending import intrinsic

from lite.kernels._types import Context, Signature, Type
from lite.kernels.cpu.vectors.numbers import LONG, WORD, Operations, constant, type_name
from lite.kernels.cpu.vectors.numbers import intrinsic as own
from lite.kernels.cpu.vectors.row_loops import registers_of

_FLOAT = ir.FloatType()
PARTS = (2, 4)  # of each group that `parted` knows


@intrinsic
def shifted(
    typing_context: Context, x: Type, at_x: Type, y: Type, at_y: Type, count: Type, shift: Type
) -> Any:
    """`count` numbers of the flat float32 array x from `at_x` on, plus `shift`, into y from `at_y` on."""
    types: Any = numba.types
    signature = types.void(x, types.int64, y, types.int64, types.int64, types.float32)

    def generate(
        context: Context, builder: ir.IRBuilder, signature: Signature, arguments: tuple[ir.Value, ...]
    ) -> ir.Value:
        source, target = (_pointer(context, builder, signature, arguments, k) for k in (0, 2))
        _copy(builder, source, [target], *arguments[4:])
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def parted(
    typing_context: Context, x: Type, at_x: Type, y: Type, at_y: Type, parts: Type, first: Type,
    distance: Type, count: Type,
) -> Any:  # fmt: skip
    """`count` groups of `parts` numbers of x from `at_x` on; those at one place of a group go to a row of y.

    Rows are `distance` apart. The place `p` of a group goes to row `(first + p) % parts`, `(first + p) //
    parts` numbers behind `at_y`. Nothing happens unless `parts` is one of `PARTS`.
    """
    types: Any = numba.types
    long = types.int64
    signature = types.void(x, long, y, *[long] * 5)

    def generate(
        context: Context, builder: ir.IRBuilder, signature: Signature, arguments: tuple[ir.Value, ...]
    ) -> ir.Value:
        source, start = (_pointer(context, builder, signature, arguments, k) for k in (0, 2))
        parts, first, distance, count = arguments[4:]
        for known in PARTS:
            with builder.if_then(builder.icmp_signed("==", parts, LONG(known))):
                rows = []
                for p in range(known):
                    place = builder.add(first, LONG(p))
                    row = builder.mul(builder.urem(place, LONG(known)), distance)
                    rows.append(builder.gep(start, [builder.add(row, builder.udiv(place, LONG(known)))]))
                _copy(builder, source, rows, count, ir.Constant(_FLOAT, 0.0))
        return context.get_dummy_value()

    return signature, generate


def _pointer(
    context: Context, builder: ir.IRBuilder, signature: Signature, arguments: tuple[ir.Value, ...], k: int
) -> ir.Value:
    """A pointer into the array that is argument k, at the position that is argument k + 1."""
    data = context.make_array(signature.args[k])(context, builder, arguments[k]).data
    return builder.gep(data, [arguments[k + 1]])


def _copy(
    builder: ir.IRBuilder, source: ir.Value, targets: list[ir.Value], count: ir.Value, shift: ir.Value
) -> None:
    """Groups of as many numbers as there are targets, one of each group, plus `shift`, to each target."""
    lanes, parts = registers_of(builder.module).size // 4, len(targets)
    kind, broad = ir.VectorType(_FLOAT, lanes), ir.VectorType(_FLOAT, lanes * parts)
    more = Operations(builder, kind).spread(shift, kind)
    before = builder.block
    head, body, tail, masked, end = (
        builder.append_basic_block(name) for name in ("head", "body", "tail", "masked", "end")
    )
    builder.branch(head)
    builder.position_at_end(head)
    at = builder.phi(LONG)
    at.add_incoming(LONG(0), before)
    following = builder.add(at, LONG(lanes))
    builder.cbranch(builder.icmp_signed("<=", following, count), body, tail)

    def line() -> ir.Value:
        place = builder.gep(source, [builder.mul(at, LONG(parts))])
        return builder.bitcast(place, broad.as_pointer())

    def each(values: ir.Value) -> list[tuple[ir.Value, ir.Value]]:
        """(vector, address) pairs to store, one for each target."""
        found = []
        for p, target in enumerate(targets):
            chosen = ir.Constant(ir.VectorType(WORD, lanes), list(range(p, lanes * parts, parts)))
            part = builder.shuffle_vector(values, ir.Constant(broad, ir.Undefined), chosen)
            place = builder.bitcast(builder.gep(target, [at]), kind.as_pointer())
            found.append((builder.fadd(part, more), place))
        return found

    def inside(vector: ir.VectorType, left: ir.Value) -> ir.Value:
        words = ir.VectorType(WORD, vector.count)
        limit = Operations(builder, vector).spread(builder.trunc(left, WORD), words)
        return builder.icmp_signed("<", ir.Constant(words, list(range(vector.count))), limit)

    builder.position_at_end(body)
    for value, place in each(builder.load(line(), align=4)):
        builder.store(value, place, align=4)
    at.add_incoming(following, body)
    builder.branch(head)
    builder.position_at_end(tail)
    builder.cbranch(builder.icmp_signed("<", at, count), masked, end)
    builder.position_at_end(masked)
    left = builder.sub(count, at)
    asked = inside(broad, builder.mul(left, LONG(parts)))
    name = f"llvm.masked.load.{type_name(broad)}.p0"
    values = own(builder, name, broad, line(), WORD(4), asked, constant(broad, 0.0))
    given, store = inside(kind, left), f"llvm.masked.store.{type_name(kind)}.p0"
    for value, place in each(values):
        own(builder, store, ir.VoidType(), value, place, WORD(4), given)
    builder.branch(end)
    builder.position_at_end(end)
