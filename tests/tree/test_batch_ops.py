"""Batch operations do to an array's leading dims what NumPy does, name the new dims and can be undone."""

import numpy as np
from helpers.cases import each_case

from lite._tree import batch_ops
from lite._tree.batch_ops import BatchOp

ROWS = np.arange(24.0).reshape(2, 3, 4)
SIZE = (2, 3)

# operation, what NumPy does, names of the result
CASES = {
    "reshape": (batch_ops.Reshape(2, (6,)), lambda x: x.reshape(6, 4), None),
    "view": (batch_ops.View(2, (3, 2)), lambda x: x.reshape(3, 2, 4), None),
    "unsqueeze": (batch_ops.Unsqueeze(SIZE, 1), lambda x: x[:, None], ["p", None, "q"]),
    "flatten": (batch_ops.Flatten(SIZE, 0, 1), lambda x: x.reshape(6, 4), None),
    "unflatten": (batch_ops.Unflatten(SIZE, 1, (3, 1)), lambda x: x.reshape(2, 3, 1, 4), None),
    "permute": (batch_ops.Permute(SIZE, (1, 0)), lambda x: x.transpose(1, 0, 2), ["q", "p"]),
    "swap": (batch_ops.Swap(SIZE, 0, 1), lambda x: x.swapaxes(0, 1), ["q", "p"]),
    "expand": (batch_ops.Expand(2, (5, 2, 3)), lambda x: np.broadcast_to(x, (5, 2, 3, 4)), [None, "p", "q"]),
    "take": (batch_ops.Take(SIZE, 1, np.array([2, 0])), lambda x: x[:, [2, 0]], ["p", "q"]),
}


@each_case("name", CASES)
def test_arrays_names_and_way_back(name: str) -> None:
    op, expected, names = CASES[name]
    out = op.array(ROWS)
    np.testing.assert_array_equal(out, expected(ROWS))
    assert out.shape == (*op.shape, 4)
    if names is not None:
        assert op.names(["p", "q"]) == names
    if name not in ("expand", "take"):
        np.testing.assert_array_equal(op.inverse(SIZE).array(out), ROWS)


def test_squeeze() -> None:
    op = batch_ops.Squeeze((1, 3, 1), (0, 2))
    np.testing.assert_array_equal(op.array(ROWS[:1, :, None]), ROWS[0])
    assert op.names(["a", "b", "c"]) == ["b"]
    assert op.inverse((1, 3, 1)).array(ROWS[0]).shape == (1, 3, 1, 4)
    back = batch_ops.Squeeze((2, 1, 3), (1,)).inverse((2, 1, 3))
    assert (type(back), back.array(ROWS).shape) == (batch_ops.Unsqueeze, (2, 1, 3, 4))


def test_leaves_with_fewer_features_are_treated_alike() -> None:
    for op, expected, _ in CASES.values():
        assert isinstance(op, BatchOp)
        np.testing.assert_array_equal(op.array(ROWS[:, :, :1]), expected(ROWS)[..., :1])
