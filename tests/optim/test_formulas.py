"""One step of each formula, in numbers worked out by hand."""

import numpy as np
from helpers.cases import each_case

from lite.optim import formulas

STEPS = [  # the first array, the gradient, the state; numbers; the first array and the state afterwards
    (formulas.adam, [1, 2, 0, 0, []], (1, 0, 1, 0.5, 0.75, 0.25, 0.1, 0.0), [0.9, 1, 1]),
    # AMSGrad keeps the largest.
    (formulas.adam, [1, 2, 0, 0, 4], (1, 0, 1, 0.5, 0.75, 0.25, 0.1, 0.0), [0.95, 1, 1, 4]),
    # Decoupled decay shrinks first.
    (formulas.adam, [2, 0, 0, 1, []], (1, 0, 0.5, 0.1, 0.9, 0.1, 0.1, 0.0), [1, 0, 0.9]),
    (formulas.sgd, [1, 2, []], (-1, 1, 0.5, 0, 1, 0), [1.5]),  # up by 2, down by 1, each times 0.5
    (formulas.rmsprop, [1, 2, 0, [], []], (1, 0, 0.5, 0.75, 0.25, 0.0, 0), [0, 1]),
    (formulas.lerp, [[1, 3], [3, 3]], (0.25,), [1.5, 3]),
]


@each_case(("step", "arrays", "numbers", "expected"), STEPS)
def test_one_step(step, arrays, numbers, expected):
    target, gradient, *state = (np.array(value, np.float64, ndmin=1) for value in arrays)
    step(target, gradient, *state, numbers)
    np.testing.assert_allclose(np.concatenate([target, *state]), expected)
