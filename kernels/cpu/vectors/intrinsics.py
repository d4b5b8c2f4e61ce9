"""Numba intrinsics of formulas (see `formulas`), which compiled code calls."""

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba.extending import intrinsic

from lite.kernels._types import Context, Signature, Type
from lite.kernels.cpu.vectors import row_loops
from lite.kernels.cpu.vectors.numbers import BIT, BYTE, HALF, Number, Operations
from lite.kernels.cpu.vectors.width import widen

Formula = Callable[..., Any]
types: Any = numba.types


def _call(
    builder: ir.IRBuilder,
    formula: Formula,
    given: list[ir.Value],
    result: ir.Type,
    define: Callable[[ir.Function], None],
) -> ir.Value:
    """Call the LLVM function of a formula for arguments of these types; `define` writes a new one.

    Callers share the function, which is not inlined into them.
    """
    module, name = (
        builder.module,
        f"{formula.__name__}_{given[0].type.pointee}_{len(given)}".replace(" ", "_"),
    )
    function = module.globals.get(name)
    if function is None:
        function = ir.Function(module, ir.FunctionType(result, [value.type for value in given]), name)
        function.linkage = "internal"
        function.attributes.add("nounwind")
        widen(function)
        define(function)
    return builder.call(function, given)


def _variants(
    function: ir.Function, data: ir.Value, masked: ir.Value, keep: ir.Value, bfloat16: ir.Value,
    element: ir.Type, finish: Callable[[row_loops.Source], None],
) -> None:  # fmt: skip
    """Branches for logits with and without a mask, and for 16-bit types; `finish` writes each branch."""
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    lanes = row_loops.registers_of(function.module).size // (4 if element == ir.FloatType() else 8)
    o = Operations(builder, ir.VectorType(element, lanes))

    def choose(conditions: list[Any], chosen: list[bool]) -> None:
        if len(chosen) == len(conditions):
            finish(row_loops.Source(o, data, keep if chosen[0] else None, chosen[1]))
            return
        condition = conditions[len(chosen)]
        if condition is None:
            choose(conditions, [*chosen, False])
            return
        yes, no = builder.append_basic_block("yes"), builder.append_basic_block("no")
        builder.cbranch(condition, yes, no)
        for block, value in ((yes, True), (no, False)):
            builder.position_at_end(block)
            choose(conditions, [*chosen, value])

    choose([masked, bfloat16 if data.type.pointee == HALF else None], [])


def _plain(
    context: Context,
    builder: ir.IRBuilder,
    signature: Signature,
    arguments: tuple[ir.Value, ...],
    parameters: int,
) -> list[ir.Value]:
    """The arguments of a formula's function as LLVM values: arrays as pointers.

    In order: the logits, their number, the parameters; if flags are given, their pointer, whether there are
    any, and whether logits are bfloat16; if an output is given, whether to write past the caches, and its
    pointer.
    """
    kinds = (signature.args[0], *signature.args[1])  # Numba has put all but the first into a tuple
    values = [arguments[0], *(builder.extract_value(arguments[1], k) for k in range(len(kinds) - 1))]

    def pointer(k: int) -> tuple[ir.Value, ir.Value]:
        array = context.make_array(kinds[k])(context, builder, values[k])
        return array.data, array.nitems

    def bit(k: int) -> ir.Value:
        return builder.trunc(values[k], BIT) if values[k].type != BIT else values[k]

    given = [*pointer(0)]
    given += [context.cast(builder, values[k], kinds[k], types.float64) for k in range(1, parameters + 1)]
    if len(kinds) > parameters + 1:
        keep, flags = pointer(parameters + 2)
        masked = builder.icmp_unsigned("!=", flags, flags.type(0))
        given += [builder.bitcast(keep, BYTE.as_pointer()), masked, bit(parameters + 1)]
    if len(kinds) > parameters + 3:
        given += [bit(parameters + 3), pointer(parameters + 4)[0]]
    return given


def _floats_of(values: Type) -> tuple[Any, Any]:
    """Numba's and LLVM's type of the floats that `values` are read as."""
    wide = values.dtype == types.float64
    return (types.float64, ir.DoubleType()) if wide else (types.float32, ir.FloatType())


def fold(formula: Formula, parameters: int, kinds: tuple[str, ...]) -> Callable[..., Any]:
    """`formulas.folded`, for compiled code."""

    @intrinsic
    def folding(typing_context: Context, values: Type, *more: Type) -> Any:
        number, element = _floats_of(values)
        results = [types.float64 if kind == "sum" else number for kind in kinds]
        returned = types.Tuple(results) if len(results) > 1 else results[0]

        def generate(
            context: Context, builder: ir.IRBuilder, signature: Signature, arguments: tuple[ir.Value, ...]
        ) -> ir.Value:
            given = _plain(context, builder, signature, arguments, parameters)
            structure = ir.LiteralStructType([context.get_value_type(kind) for kind in results])
            found = _call(builder, formula, given, structure, define)
            parts = [builder.extract_value(found, k) for k in range(len(results))]
            return context.make_tuple(builder, returned, parts) if len(parts) > 1 else parts[0]

        def define(function: ir.Function) -> None:
            data, size, *others = function.args
            scalars, flags = others[:parameters], others[parameters:]
            keep, masked, bfloat16 = flags or (None, None, None)

            def finish(source: row_loops.Source) -> None:
                numbers = [Number(source.o, value) for value in scalars]
                source.o.builder.ret(row_loops.fold(source, size, formula, numbers, kinds))

            _variants(function, data, masked, keep, bfloat16, element, finish)

        return returned(values, types.StarArgTuple(more)), generate

    return folding


def write(formula: Formula, parameters: int) -> Callable[..., Any]:
    """`formulas.written`, for compiled code."""

    @intrinsic
    def writing(typing_context: Context, values: Type, *more: Type) -> Any:
        def generate(
            context: Context, builder: ir.IRBuilder, signature: Signature, arguments: tuple[ir.Value, ...]
        ) -> ir.Value:
            given = _plain(context, builder, signature, arguments, parameters)
            _call(builder, formula, given, ir.VoidType(), define)
            return context.get_dummy_value()

        def define(function: ir.Function) -> None:
            data, size, *others = function.args
            scalars, (keep, masked, bfloat16, past, out) = others[:parameters], others[parameters:]

            def finish(source: row_loops.Source) -> None:
                builder = source.o.builder
                numbers = [Number(source.o, value) for value in scalars]
                if not source.registers.past:
                    row_loops.write(source, size, formula, numbers, out, False)
                    builder.ret_void()
                    return
                yes, no = builder.append_basic_block("past"), builder.append_basic_block("cached")
                builder.cbranch(past, yes, no)
                for block, beyond in ((yes, True), (no, False)):
                    builder.position_at_end(block)
                    row_loops.write(source, size, formula, numbers, out, beyond)
                    builder.ret_void()

            _variants(function, data, masked, keep, bfloat16, _floats_of(values)[1], finish)

        return types.void(values, types.StarArgTuple(more)), generate

    return writing


def number(formula: Formula, results: int) -> Callable[..., Any]:
    """`formulas.by_number`, for compiled code: written into the loop that calls it."""

    @intrinsic
    def single(typing_context: Context, x: Type) -> Any:
        def generate(
            context: Context, builder: ir.IRBuilder, signature: Signature, arguments: tuple[ir.Value, ...]
        ) -> ir.Value:
            o = Operations(builder, context.get_value_type(x))
            parts = [part.value for part in formula(o, Number(o, arguments[0]))]
            return context.make_tuple(builder, signature.return_type, parts)

        return types.UniTuple(x, results)(x), generate

    return single
