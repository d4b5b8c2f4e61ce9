"""Tiles are functions of their own, once for each size; what they compute is tested with `products`."""

from types import SimpleNamespace

import pytest

from lite.kernels.backends.choice import backend


@pytest.mark.skipif(backend() != "numba", reason="Numba does not run the kernels")
def test_one_function_for_each_size() -> None:
    from llvmlite import ir

    from lite.kernels.cpu.vectors.tiles import _tile_of

    module = ir.Module("tiles")
    module.triple = "x86_64-unknown-linux-gnu"
    wide = _tile_of(module, 8, 32)
    assert _tile_of(module, 8, 32) is wide
    assert _tile_of(module, 1, 32) is not wide
    assert str(wide).count("fmuladd") == 16  # the sums of 8 rows and two vectors stay in registers


@pytest.mark.skipif(backend() != "numba", reason="Numba does not run the kernels")
@pytest.mark.parametrize(
    ("given", "few"),
    [
        (("x86_64-unknown-linux-gnu", "x86-64-v3", ""), True),
        (("x86_64-unknown-linux-gnu", "x86-64-v4", ""), False),
        (("x86_64-unknown-linux-gnu", "znver4", "+avx2,+avx512f"), False),
        (("aarch64-unknown-linux-gnu", "generic", "+neon"), False),
    ],
)
def test_processors_with_few_registers(given: tuple[str, str, str], few: bool) -> None:
    from lite.kernels.cpu.vectors.tiles import _has_few_registers

    codegen = SimpleNamespace(magic_tuple=lambda: given)
    assert _has_few_registers(SimpleNamespace(codegen=lambda: codegen)) is few
