"""Formulas (see `formulas`) as functions that compiled code calls."""

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba.extending import intrinsic

from lite.kernels.cpu.vectors import row_loops
from lite.kernels.cpu.vectors.numbers import BIT, BYTE, HALF, Number, Operations
from lite.kernels.cpu.vectors.width import widen

Formula = Callable[..., Any]
types: Any = numba.types


def _function(module: Any, name: str, kinds: list[Any], result: Any) -> tuple[Any, bool]:
    """One that is called and not copied into its callers; whether it is new in this module."""
    known = module.globals.get(name)
    if known is not None:
        return known, False
    function = ir.Function(module, ir.FunctionType(result, kinds), name)
    function.linkage = "internal"
    function.attributes.add("nounwind")
    widen(function)
    return function, True


def _variants(
    function: Any, data: Any, masked: Any, keep: Any, bfloat16: Any, element: Any,
    finish: Callable[[row_loops.Source], None],
) -> None:  # fmt: skip
    """Code for logits with and without a mask, of each 16-bit type; `finish` writes the rest and returns."""
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


def _unpacked(builder: Any, signature: Any, arguments: Any) -> tuple[Any, Any]:
    """Types and values of all arguments: Numba has put those after the first into a tuple."""
    first, others = arguments
    values = [builder.extract_value(others, k) for k in range(len(signature.args[1]))]
    return (signature.args[0], *signature.args[1]), (first, *values)


def _pointer(context: Any, builder: Any, kind: Any, value: Any) -> tuple[Any, Any]:
    array = context.make_array(kind)(context, builder, value)
    return array.data, array.nitems


def _floats_of(values: Any) -> tuple[Any, Any]:
    """Numba's and LLVM's type of the floats that `values` are read as."""
    wide = values.dtype == types.float64
    return (types.float64, ir.DoubleType()) if wide else (types.float32, ir.FloatType())


def fold(formula: Formula, parameters: int, kinds: tuple[str, ...]) -> Any:
    """`formulas.folded`, for compiled code."""

    @intrinsic
    def folding(typing_context: Any, values: Any, *more: Any) -> Any:
        number, element = _floats_of(values)
        results = [types.float64 if kind == "sum" else number for kind in kinds]
        returned = types.Tuple(results) if len(results) > 1 else results[0]
        whole = len(more) > parameters  # with bfloat16 and keep

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kinds_given, arguments = _unpacked(builder, signature, arguments)
            data, size = _pointer(context, builder, kinds_given[0], arguments[0])
            given = [data, size]
            for kind, value in zip(kinds_given[1:], arguments[1 : parameters + 1], strict=False):
                given.append(context.cast(builder, value, kind, types.float64))
            if whole:
                keep, flags = _pointer(context, builder, kinds_given[-1], arguments[-1])
                bfloat16 = builder.trunc(arguments[-2], BIT) if arguments[-2].type != BIT else arguments[-2]
                masked = builder.icmp_unsigned("!=", flags, flags.type(0))
                given += [builder.bitcast(keep, BYTE.as_pointer()), masked, bfloat16]
            structure = ir.LiteralStructType([context.get_value_type(kind) for kind in results])
            name = f"{formula.__name__}_{data.type.pointee}_{len(given)}".replace(" ", "_")
            function, new = _function(builder.module, name, [value.type for value in given], structure)
            if new:
                _define(function, element)
            found = builder.call(function, given)
            if len(results) == 1:
                return builder.extract_value(found, 0)
            parts = [builder.extract_value(found, k) for k in range(len(results))]
            return context.make_tuple(builder, returned, parts)

        def _define(function: Any, element: Any) -> None:
            data, size, *others = function.args
            scalars, flags = others[:parameters], others[parameters:]
            keep, masked, bfloat16 = flags or (None, None, None)

            def finish(source: row_loops.Source) -> None:
                numbers = [Number(source.o, value) for value in scalars]
                source.o.builder.ret(row_loops.fold(source, size, formula, numbers, kinds))

            _variants(function, data, masked, keep, bfloat16, element, finish)

        return returned(values, types.StarArgTuple(more)), generate

    return folding


def write(formula: Formula, parameters: int) -> Any:
    """`formulas.written`, for compiled code."""

    @intrinsic
    def writing(typing_context: Any, values: Any, *more: Any) -> Any:
        _, element = _floats_of(values)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kinds_given, arguments = _unpacked(builder, signature, arguments)
            data, size = _pointer(context, builder, kinds_given[0], arguments[0])
            given = [data, size]
            for kind, value in zip(kinds_given[1:], arguments[1 : parameters + 1], strict=False):
                given.append(context.cast(builder, value, kind, types.float64))
            bfloat16, _, past, _ = arguments[-4:]
            keep, flags = _pointer(context, builder, kinds_given[-3], arguments[-3])
            out, _ = _pointer(context, builder, kinds_given[-1], arguments[-1])
            masked = builder.icmp_unsigned("!=", flags, flags.type(0))
            bits = [builder.trunc(flag, BIT) if flag.type != BIT else flag for flag in (bfloat16, past)]
            given += [builder.bitcast(keep, BYTE.as_pointer()), masked, *bits, out]
            name = f"{formula.__name__}_{data.type.pointee}".replace(" ", "_")
            function, new = _function(builder.module, name, [value.type for value in given], ir.VoidType())
            if new:
                _define(function, element)
            builder.call(function, given)
            return context.get_dummy_value()

        def _define(function: Any, element: Any) -> None:
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

            _variants(function, data, masked, keep, bfloat16, element, finish)

        return types.void(values, types.StarArgTuple(more)), generate

    return writing


def number(formula: Formula, results: int) -> Any:
    """`formulas.by_number`, for compiled code: written into the loop that calls it."""

    @intrinsic
    def single(typing_context: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            o = Operations(builder, context.get_value_type(x))
            parts = [part.value for part in formula(o, Number(o, arguments[0]))]
            return context.make_tuple(builder, signature.return_type, parts)

        return types.UniTuple(x, results)(x), generate

    return single
