"""Random programs of NumPy functions, with views and writes, against central differences.

`LITE_GRAD_CASES` says how many.
"""

import os
import warnings
from typing import Any

import numpy as np
import pytest
from helpers.gradient_programs import Program, programs
from hypothesis import HealthCheck, given, settings

from lite import value_and_grad, vmap

pytestmark = pytest.mark.depth

CASES = int(os.environ.get("LITE_GRAD_CASES", "300"))
common = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}


def differs(program: Program, leaves: list[Any]) -> str:
    """What is wrong with the gradients at some numbers, along a direction that moves every element."""
    both = value_and_grad(program.loss, tuple(range(len(leaves))))
    value, grads = both(*[x.copy() for x in leaves])
    np.testing.assert_allclose(value, program.loss(*[x.copy() for x in leaves]), rtol=1e-11, atol=1e-11)
    rng = np.random.default_rng(0)
    ways = [rng.uniform(0.5, 1.5, x.shape) for x in leaves]

    def at(distance: float) -> float:
        return float(program.loss(*[x + distance * way for x, way in zip(leaves, ways, strict=True)]))

    got = float(sum(np.sum(grad * way) for grad, way in zip(grads, ways, strict=True)))
    for step, tolerance in ((1e-4, 1e-6), (1e-6, 1e-4)):
        wanted = (8 * (at(step) - at(-step)) - at(2 * step) + at(-2 * step)) / (12 * step)
        if abs(got - wanted) <= tolerance * max(1.0, abs(got), abs(wanted)):
            return ""
    return f"{got}, not {wanted}"


@settings(max_examples=CASES, **common)  # type: ignore[arg-type]
@given(programs())
def test_gradients_are_those_of_central_differences(program: Program) -> None:
    wrong = differs(program, program.leaves)
    if wrong:  # where a bend is so near that the differences cross it, as of equal elements that are sorted
        rng = np.random.default_rng(0)
        wrong = differs(program, [x + rng.uniform(-1e-2, 1e-2, x.shape) for x in program.leaves])
    assert not wrong, repr(program)


@settings(max_examples=max(CASES // 6, 1), **common)  # type: ignore[arg-type]
@given(programs(5))
def test_maps_of_gradients_are_loops(program: Program) -> None:
    stacked = [np.stack([x, x * 0.9 + 0.01, x * 0.8]) for x in program.leaves]
    both = value_and_grad(program.loss, tuple(range(len(stacked))))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "vmap has no batching rule")
        values, grads = vmap(both)(*[x.copy() for x in stacked])
    for k in range(3):
        value, wanted = both(*[np.array(x[k]) for x in stacked])
        np.testing.assert_allclose(values[k], value, rtol=1e-9, atol=1e-9)
        for got, expected in zip(grads, wanted, strict=True):
            np.testing.assert_allclose(got[k], expected, rtol=1e-7, atol=1e-7, err_msg=repr(program))
