"""Operators of Python write instructions of LLVM."""

import pytest

ir = pytest.importorskip("llvmlite.ir")
from lite.kernels.cpu.vectors.numbers import Number, Operations, type_name  # noqa: E402

FLOATS = ir.VectorType(ir.FloatType(), 16)


@pytest.fixture
def function():
    made = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [FLOATS, ir.FloatType()]), "f")
    return made, Operations(ir.IRBuilder(made.append_basic_block()), FLOATS)


def test_operators(function):
    for formula, instruction in [
        (lambda x, y: x + y, "fadd contract <16 x float>"),
        (lambda x, y: 1.0 - x, "fsub contract <16 x float>"),
        (lambda x, y: 2 * y, "fmul contract float"),
        (lambda x, y: 1.0 / x, "fdiv <16 x float>"),
        (lambda x, y: x < y, "fcmp olt <16 x float>"),
        (lambda x, y: x == x, "fcmp oeq <16 x float>"),
        (lambda x, y: x != x, "fcmp une <16 x float>"),
    ]:
        made, o = function
        assert isinstance(formula(*(Number(o, argument) for argument in made.args)), Number)
        assert instruction in str(made)


def test_types_are_named_as_llvm_names_them():
    assert [type_name(kind) for kind in (FLOATS, ir.DoubleType(), ir.IntType(16))] == ["v16f32", "f64", "i16"]
