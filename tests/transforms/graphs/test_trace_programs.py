"""Random programs of NumPy functions: their graphs give NumPy's numbers, or refuse and say why."""

import tempfile
from typing import Any

import numpy as np
import pytest
from helpers.compared import assert_same
from helpers.gradient_programs import Program, programs
from helpers.graphs import Function, open_graph, run_graph
from hypothesis import HealthCheck, given, settings

pytestmark = pytest.mark.depth


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
@given(programs())
def test_programs(program: Program) -> None:
    def function(*leaves: Any) -> tuple[Any, ...]:
        return tuple(x * 1.0 for x in program.run(*[x * 1.0 for x in leaves]))

    wanted = function(*program.leaves)
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = Function(function).to_onnx(f"{folder}/f.onnx", *program.leaves, dynamic_axes={})
        except NotImplementedError as refused:
            np.testing.assert_equal(str(refused).startswith("cannot be exported"), True)
            return
        assert_same(run_graph(open_graph(path), program.leaves), wanted, rtol=1e-5, atol=1e-5, strict=True)
