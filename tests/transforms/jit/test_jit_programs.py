"""Random programs of NumPy functions, with views and writes, and their gradients as graphs.

`LITE_GRAD_CASES` says how many.
"""

import os
import warnings

import numpy as np
import pytest
from helpers.compared import assert_same
from helpers.gradient_programs import Program, programs
from hypothesis import HealthCheck, given, settings

import lite

pytestmark = pytest.mark.depth

CASES = int(os.environ.get("LITE_GRAD_CASES", "300"))


@settings(
    max_examples=max(CASES // 15, 1), deadline=None, suppress_health_check=list(HealthCheck), database=None
)
@given(programs())
def test_gradients_are_those_of_numpy(program: Program) -> None:
    both = lite.value_and_grad(program.loss, tuple(range(len(program.leaves))))
    step = lite.jit(both, threads=1)
    for factor in (1.0, 0.9):
        leaves = [x * factor for x in program.leaves]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value, grads = both(*[x.copy() for x in leaves])
            try:
                got, found = step(*[x.copy() for x in leaves])
            except NotImplementedError:
                return  # refused by name
        np.testing.assert_allclose(got, value, rtol=1e-9, atol=1e-9, err_msg=repr(program))
        assert_same(found, grads, rtol=1e-8, atol=1e-8, where=repr(program))
