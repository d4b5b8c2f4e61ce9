"""LLVM code of a tile of a product of matrices (see `products`)."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba.extending import intrinsic

from lite.kernels._types import Context, Signature, Type
from lite.kernels.cpu.vectors.numbers import BIT, LONG, constant, type_name
from lite.kernels.cpu.vectors.numbers import intrinsic as own
from lite.kernels.cpu.vectors.row_loops import registers_of
from lite.kernels.cpu.vectors.width import widen

_FLOAT = ir.FloatType()
_POINTER = _FLOAT.as_pointer()
_TABLE = LONG.as_pointer()
_ROWS, _WIDE, _NARROW = 8, 32, 16


def _tile_of(
    module: ir.Module, rows: int, columns: int, row_a: ir.Type = LONG, row_b: ir.Type = LONG
) -> ir.Function:
    """The function of tiles of one size: a, its strides, b, its stride, c, its stride, depth, add."""
    name = f"tile_{rows}_{columns}_{row_a}_{row_b}"
    kinds = [_POINTER, row_a, LONG, _POINTER, row_b, _POINTER, LONG, LONG, BIT]
    function = module.globals.get(name)
    if function is not None:
        return function
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
    function.linkage = "internal"
    function.attributes.add("nounwind")
    widen(function)
    lanes = min(registers_of(module).size // 4, columns)
    _define(function, rows, columns // lanes, ir.VectorType(_FLOAT, lanes))
    return function


def _define(function: ir.Function, rows: int, vectors: int, kind: ir.VectorType) -> None:
    """Emit the body of a tile's function: c = a b or, with `add`, c += a b, for `rows` x `vectors` of c.

    The sums stay in registers; each pass of the loop over `depth` reads a column of a and a row of b.
    """
    a, row_a, step_a, b, row_b, c, row_c, depth, add = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    pointer, lanes = kind.as_pointer(), kind.count
    places = [(i, j) for i in range(rows) for j in range(vectors)]

    def place(i: int, j: int) -> ir.Value:
        at = builder.add(builder.mul(row_c, LONG(i)), LONG(j * lanes))
        return builder.bitcast(builder.gep(c, [at]), pointer)

    zero = constant(kind, 0.0)
    lines = [_place_of(builder, row_a, LONG(i)) for i in range(rows)]
    fresh, old, loop, end = (builder.append_basic_block(x) for x in ("fresh", "old", "loop", "end"))
    builder.cbranch(add, old, fresh)
    builder.position_at_end(old)
    held = [builder.load(place(i, j), align=4) for i, j in places]
    builder.branch(loop)
    builder.position_at_end(fresh)
    builder.branch(loop)
    builder.position_at_end(loop)
    step = builder.phi(LONG)
    sums = [builder.phi(kind) for _ in places]
    for block, start in ((old, held), (fresh, [zero] * len(places))):
        step.add_incoming(LONG(0), block)
        for total, value in zip(sums, start, strict=True):
            total.add_incoming(value, block)
    line = builder.gep(b, [_place_of(builder, row_b, step)])
    right = [
        builder.load(builder.bitcast(builder.gep(line, [LONG(j * lanes)]), pointer), align=4)
        for j in range(vectors)
    ]
    column = builder.gep(a, [builder.mul(step, step_a)])
    name = f"llvm.fmuladd.{type_name(kind)}"
    new = []
    for i in range(rows):
        number = builder.load(builder.gep(column, [lines[i]]), align=4)
        one = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
        blank = ir.Constant(kind, ir.Undefined)
        left = builder.shuffle_vector(builder.insert_element(blank, number, ir.IntType(32)(0)), blank, one)
        new += [own(builder, name, kind, left, right[j], sums[i * vectors + j]) for j in range(vectors)]
    following = builder.add(step, LONG(1))
    step.add_incoming(following, loop)
    for total, value in zip(sums, new, strict=True):
        total.add_incoming(value, loop)
    builder.cbranch(builder.icmp_signed("<", following, depth), loop, end)
    builder.position_at_end(end)
    for (i, j), value in zip(places, new, strict=True):
        builder.store(value, place(i, j), align=4)
    builder.ret_void()


def _place_of(builder: ir.IRBuilder, row: ir.Value, i: ir.Value) -> ir.Value:
    """The position of row i: from a table, or i times the distance of rows."""
    if row.type == _TABLE:
        return builder.load(builder.gep(row, [i]), align=8)
    return builder.mul(row, i)


@intrinsic
def tile(
    typing_context: Context, a: Type, at_a: Type, row_a: Type, step_a: Type, b: Type, at_b: Type, row_b: Type,
    c: Type, at_c: Type, row_c: Type, depth: Type, add: Type, many: Type, wide: Type,
) -> Any:  # fmt: skip
    """A tile of `products.product`, of 8 rows if `many`, else 1, and of 32 columns if `wide`, else 16.

    `row_a` and `row_b` may be arrays of int64 instead of numbers: where each row begins.
    """
    types: Any = numba.types
    flags = types.boolean, types.boolean, types.boolean
    rows = [row if isinstance(row, types.Array) else types.int64 for row in (row_a, row_b)]
    long = types.int64
    signature = types.void(a, long, rows[0], long, b, long, rows[1], c, long, long, long, *flags)

    def generate(
        context: Context, builder: ir.IRBuilder, signature: Signature, arguments: tuple[ir.Value, ...]
    ) -> ir.Value:
        def pointer(k: int) -> ir.Value:
            data = context.make_array(signature.args[k])(context, builder, arguments[k]).data
            return builder.gep(data, [arguments[k + 1]])

        left, right, result = pointer(0), pointer(4), pointer(7)
        row_a, row_b = (
            context.make_array(signature.args[k])(context, builder, arguments[k]).data
            if isinstance(signature.args[k], types.Array)
            else arguments[k]
            for k in (2, 6)
        )
        step_a, row_c, depth, *flags = arguments[3], *arguments[9:]
        add, many, wide = (builder.trunc(x, BIT) if x.type != BIT else x for x in flags)
        given = [left, row_a, step_a, right, row_b, result, row_c, depth, add]
        call = functools.partial(_call, builder, given, _has_few_registers(context))
        with builder.if_else(many) as (yes, no):
            for branch, rows in ((yes, _ROWS), (no, 1)):
                with branch, builder.if_else(wide) as (full, part):
                    with full:
                        call(rows, _WIDE)
                    with part:
                        call(rows, _NARROW)
        return context.get_dummy_value()

    return signature, generate


def _has_few_registers(context: Context) -> bool:
    """Whether the processor has 16 vectors of 256 bits: the sums of a tile of 8 x 32 numbers would take 32.

    In parts, tiles took 1.7 times less on x86-64-v3.
    """
    triple, name, features = context.codegen().magic_tuple()
    return triple.startswith("x86_64") and name != "x86-64-v4" and "+avx512f" not in features


def _call(builder: ir.IRBuilder, given: list[ir.Value], few: bool, rows: int, columns: int) -> None:
    """A tile, or with few registers its parts of 4 x 16, one after the other."""
    a, row_a, step_a, b, row_b, c, row_c, depth, add = given
    high, broad = (4, _NARROW) if few and rows > 1 else (rows, columns)
    function = _tile_of(builder.module, high, broad, row_a.type, row_b.type)
    for i, j in itertools.product(range(0, rows, high), range(0, columns, broad)):
        line, table = LONG(i), row_a.type == _TABLE
        row = builder.gep(row_a, [line]) if table else row_a
        first = a if table else builder.gep(a, [builder.mul(row_a, line)])
        place = builder.add(builder.mul(row_c, line), LONG(j))
        part = [first, row, step_a, builder.gep(b, [LONG(j)]), row_b, builder.gep(c, [place])]
        builder.call(function, [*part, row_c, depth, add])
