"""Wide loads of logits of any floating type into registers, and the hardware's exponential."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from lite.kernels._types import Context, Floats, LogitData, Signature, Type
from lite.kernels.cuda._jit import SIMULATED, cuda
from lite.kernels.cuda._numbers import as_float, widen

VALUES = 16  # that a thread holds at a time
BYTES = 16  # that one access of a thread moves

if SIMULATED:

    def exp2(x: float) -> float:
        """2 to the power of a float32 or float64; of float32 with the error of the hardware's unit, 2e-7."""
        with np.errstate(over="ignore", under="ignore"):
            return np.exp2(x)

    def width_of(memory: LogitData) -> int:
        """Elements of one access."""
        return BYTES // memory.itemsize

    def load(memory: LogitData, first: int, stride: int, values: Floats) -> None:
        """Fill `values` with 16 bytes from `memory[first]` on, from `memory[first + stride]` on, and so on.

        All these places must be multiples of 16 bytes. 16-bit floats are widened.
        """
        width = width_of(memory)
        for k in range(VALUES):
            values[k] = widen(memory[first + k // width * stride + k % width])

else:
    from llvmlite import ir  # type: ignore[import-untyped]

    types: Any = importlib.import_module("numba").types
    _extending: Any = importlib.import_module("numba.extending")
    intrinsic: Callable[[Callable[..., Any]], Any] = _extending.intrinsic
    overload: Callable[..., Callable[[Callable[..., Any]], Any]] = _extending.overload

    @intrinsic
    def _words(typing: Context, memory: Type, index: Type) -> Any:
        """The 16 bytes from `memory[index]` on as four integers, in one access."""

        def generate(
            context: Context, builder: ir.IRBuilder, signature: Signature, args: tuple[ir.Value, ...]
        ) -> ir.Value:
            array = context.make_array(signature.args[0])(context, builder, args[0])
            place = builder.gep(array.data, [args[1]])
            four = builder.bitcast(place, ir.VectorType(ir.IntType(32), 4).as_pointer())
            loaded = builder.load(four, align=BYTES)
            parts = [builder.extract_element(loaded, ir.IntType(32)(k)) for k in range(4)]
            return context.make_tuple(builder, signature.return_type, parts)

        return types.UniTuple(types.uint32, 4)(memory, types.int64), generate

    @intrinsic
    def _pair(typing: Context, memory: Type, index: Type) -> Any:
        """Two float64 from `memory[index]` on, in one access."""

        def generate(
            context: Context, builder: ir.IRBuilder, signature: Signature, args: tuple[ir.Value, ...]
        ) -> ir.Value:
            array = context.make_array(signature.args[0])(context, builder, args[0])
            place = builder.gep(array.data, [args[1]])
            two = builder.bitcast(place, ir.VectorType(ir.DoubleType(), 2).as_pointer())
            loaded = builder.load(two, align=BYTES)
            parts = [builder.extract_element(loaded, ir.IntType(32)(k)) for k in range(2)]
            return context.make_tuple(builder, signature.return_type, parts)

        return types.UniTuple(types.float64, 2)(memory, types.int64), generate

    @intrinsic
    def _half(typing: Context, bits: Type) -> Any:
        """The float16 in the low half of an integer, as float32."""

        def generate(
            context: Context, builder: ir.IRBuilder, signature: Signature, args: tuple[ir.Value, ...]
        ) -> ir.Value:
            half = builder.bitcast(builder.trunc(args[0], ir.IntType(16)), ir.HalfType())
            return builder.fpext(half, ir.FloatType())

        return types.float32(types.uint32), generate

    @intrinsic
    def _exp2_unit(typing: Context, x: Type) -> Any:
        def generate(
            context: Context, builder: ir.IRBuilder, signature: Signature, args: tuple[ir.Value, ...]
        ) -> ir.Value:
            function = ir.FunctionType(ir.FloatType(), [ir.FloatType()])
            assembly = ir.InlineAsm(function, "ex2.approx.ftz.f32 $0, $1;", "=f,f")
            return builder.call(assembly, args)

        return types.float32(types.float32), generate

    def exp2(x: float) -> float:  # type: ignore[empty-body]
        """2 to the power of x; see the simulator's."""

    def width_of(memory: LogitData) -> int:  # type: ignore[empty-body]
        """Elements of one access: a constant to the compiler, which the memory's own `itemsize` is not."""

    def load(memory: LogitData, first: int, stride: int, values: Floats) -> None:
        """Fill `values`; see the simulator's."""

    @overload(exp2, target="cuda", strict=False)
    def _exp2(x: Type) -> Any:
        if x == types.float32:
            return lambda x: _exp2_unit(x)
        return lambda x: cuda.libdevice.exp2(x)

    @overload(width_of, target="cuda", strict=False)
    def _width_of(memory: Type) -> Any:
        width = BYTES * 8 // memory.dtype.bitwidth
        return lambda memory: width

    @overload(load, target="cuda", strict=False)
    def _load(memory: Type, first: Type, stride: Type, values: Type) -> Any:
        """The function for the dtype of `memory`, which fills `values` from words of 16 bytes."""

        def bfloat16s(memory: LogitData, first: int, stride: int, values: Floats) -> None:
            for v in range(2):
                words = _words(memory, first + v * stride)
                for k in range(4):
                    values[8 * v + 2 * k] = as_float(words[k] << np.uint32(16))
                    values[8 * v + 2 * k + 1] = as_float(words[k] & np.uint32(0xFFFF0000))

        def halves(memory: LogitData, first: int, stride: int, values: Floats) -> None:
            for v in range(2):
                words = _words(memory, first + v * stride)
                for k in range(4):
                    values[8 * v + 2 * k] = _half(words[k])
                    values[8 * v + 2 * k + 1] = _half(words[k] >> np.uint32(16))

        def singles(memory: LogitData, first: int, stride: int, values: Floats) -> None:
            for v in range(4):
                words = _words(memory, first + v * stride)
                for k in range(4):
                    values[4 * v + k] = as_float(words[k])

        def doubles(memory: LogitData, first: int, stride: int, values: Floats) -> None:
            for v in range(8):
                values[2 * v], values[2 * v + 1] = _pair(memory, first + v * stride)

        return {types.uint16: bfloat16s, types.float16: halves, types.float32: singles}.get(
            memory.dtype, doubles
        )
