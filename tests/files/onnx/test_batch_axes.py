"""Batches of any number of dimensions as the rows of a graph, and back."""

import numpy as np

from lite._files.onnx.batch_axes import batch_axes, from_rows, to_rows


def test_the_size_that_most_inputs_share_is_the_batch() -> None:
    inputs = [("x", ("n", "time", 4)), ("state", (2, "n", 8)), ("lengths", ("time",)), ("table", ("n", 3))]
    outputs = [("y", (None, 2)), ("new", (2, "lost", 8)), ("times", ("time", "time")), ("loss", ())]
    found = batch_axes(inputs, outputs, {"table": None})
    expected = {
        "x": 0, "state": 1, "lengths": None, "table": None, "y": 0, "new": 1, "times": None, "loss": None,
    }  # fmt: skip
    np.testing.assert_equal(found, expected)


def test_there_and_back() -> None:
    x = np.arange(120).reshape(2, 3, 4, 5)
    for lead, axis, shape in (
        (2, 0, (6, 4, 5)),
        (2, 1, (4, 6, 5)),
        (1, 2, (3, 4, 2, 5)),
        (0, 1, (2, 1, 3, 4, 5)),
    ):
        rows = to_rows(x, lead, axis)
        assert rows.shape == shape, (lead, axis)
        np.testing.assert_array_equal(from_rows(rows, x.shape[:lead], axis), x)
    np.testing.assert_array_equal(to_rows(x, 2, 1)[:, 4], x[1, 1])
    assert from_rows(to_rows(x[:0], 2, 1), (0, 3), 1).shape == (0, 3, 4, 5)
