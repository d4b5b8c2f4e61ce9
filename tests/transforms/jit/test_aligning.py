"""Numbers have as many dimensions as the columns that they meet."""

import numpy as np

import lite


def test_columns_meet_numbers_of_as_many_dimensions() -> None:
    def function(x: np.ndarray, number: float) -> np.ndarray:
        return np.where(x > 0.5, (x - x.mean()) * 2.0, number)

    step = lite.jit(function)
    for n in (4, 7):
        x = np.random.default_rng(n).normal(size=(n, 1))
        np.testing.assert_allclose(step(x, 0.25), function(x, 0.25))
    (runner,) = step._kept.values()
    shapes = runner.program.shapes | {name: array.shape for name, array in runner.traced.arrays.items()}
    shapes |= {x.outputs[0]: (1, 1) for x in runner.traced.nodes if x.op == "Reshape"}
    for node in runner.traced.nodes:
        if node.op in ("Greater", "Mul", "Sub", "Where"):
            assert [len(shapes[name]) for name in node.inputs] == [2] * len(node.inputs)


def test_rows_keep_their_numbers() -> None:
    step = lite.jit(lambda x: x * 2.0)
    np.testing.assert_array_equal(step(np.ones((2, 3))), np.full((2, 3), 2.0))
    assert step.graph(np.ones((2, 3))).operators == {"Mul": 1}
    (runner,) = step._kept.values()
    assert [array.shape for array in runner.traced.arrays.values()] == [()]
