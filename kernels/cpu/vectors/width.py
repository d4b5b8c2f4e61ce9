"""Ask LLVM for 512-bit vectors where the processor has them.

LLVM prefers 256-bit vectors on most processors with AVX-512, for the sake of programs that use them
once in a while. A kernel that does nothing else gains from the full width. Numba has no option for
this, so `full_width()` sets LLVM's function attribute from inside the kernel. Processors without such
vectors ignore it. A function that calls it is never inlined: inlined it would lose the attribute, and a
kernel of many such loops would take seconds more to compile.
"""

from typing import Any

from lite.kernels._types import Context, Signature
from lite.kernels.backends.choice import backend

if backend() != "numba":

    def full_width() -> None:
        """Nothing, as there is no compiler."""

else:
    from llvmlite import ir  # type: ignore[import-untyped]
    from numba.core import types
    from numba.extending import intrinsic

    def widen(function: ir.Function) -> None:
        """Set `prefer-vector-width` on one of LLVM's functions."""
        # llvmlite checks attribute names against a list without this one; it keeps them in a set.
        set.add(function.attributes, '"prefer-vector-width"="512"')
        function.attributes.add("noinline")

    @intrinsic
    def full_width(typing_context: Context) -> Any:
        """Set `prefer-vector-width` on the function being compiled."""

        def generate(
            context: Context, builder: ir.IRBuilder, signature: Signature, arguments: tuple[ir.Value, ...]
        ) -> ir.Value:
            widen(builder.function)
            return context.get_dummy_value()

        return types.void(), generate
