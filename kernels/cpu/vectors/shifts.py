"""LLVM code that copies a few numbers, plus one (see `products` for larger work).

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


@intrinsic
def shifted(
    typing_context: Context, x: Type, at_x: Type, y: Type, at_y: Type, count: Type, shift: Type
) -> Any:  # fmt: skip
    """`count` numbers of the flat float32 array x from `at_x` on, plus `shift`, into y from `at_y` on."""
    types: Any = numba.types
    signature = types.void(x, types.int64, y, types.int64, types.int64, types.float32)

    def generate(
        context: Context, builder: ir.IRBuilder, signature: Signature, arguments: tuple[ir.Value, ...]
    ) -> ir.Value:
        def pointer(k: int) -> ir.Value:
            data = context.make_array(signature.args[k])(context, builder, arguments[k]).data
            return builder.gep(data, [arguments[k + 1]])

        _copy(builder, pointer(0), pointer(2), *arguments[4:])
        return context.get_dummy_value()

    return signature, generate


def _copy(
    builder: ir.IRBuilder, source: ir.Value, target: ir.Value, count: ir.Value, shift: ir.Value
) -> None:
    lanes = registers_of(builder.module).size // 4
    kind = ir.VectorType(_FLOAT, lanes)
    o = Operations(builder, kind)
    more = o.spread(shift, kind)
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

    def places() -> list[ir.Value]:
        return [builder.bitcast(builder.gep(p, [at]), kind.as_pointer()) for p in (source, target)]

    builder.position_at_end(body)
    a, b = places()
    builder.store(builder.fadd(builder.load(a, align=4), more), b, align=4)
    at.add_incoming(following, body)
    builder.branch(head)
    builder.position_at_end(tail)
    builder.cbranch(builder.icmp_signed("<", at, count), masked, end)
    builder.position_at_end(masked)
    a, b = places()
    words = ir.VectorType(WORD, lanes)
    left = o.spread(builder.trunc(builder.sub(count, at), WORD), words)
    inside = builder.icmp_signed("<", ir.Constant(words, list(range(lanes))), left)
    name = type_name(kind)
    value = own(builder, f"llvm.masked.load.{name}.p0", kind, a, WORD(4), inside, constant(kind, 0.0))
    void, store = ir.VoidType(), f"llvm.masked.store.{name}.p0"
    own(builder, store, void, builder.fadd(value, more), b, WORD(4), inside)
    builder.branch(end)
    builder.position_at_end(end)
