"""Between dense and lazy."""

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.trees import tree

from lite import LazyStackedTensorDict, TensorDict, lazy_stack


@each_case("dim", [0, 1, -1])
def test_to_lazystack(dim):
    td = tree()
    td.names = ["t", "u"]
    out = td.to_lazystack(dim)
    assert type(out) is LazyStackedTensorDict
    assert (out.batch_size, out.stack_dim, out.names) == ((4, 3), dim % 2, ["t", "u"])
    np.testing.assert_array_equal(out["n", "b"], td["n", "b"])
    assert np.shares_memory(out.tensordicts[0]["a"], td["a"])
    raises(IndexError, "", lambda: td.to_lazystack(2))
    assert TensorDict({}, [0, 2]).to_lazystack().batch_size == (0, 2)


def test_restacking_along_another_dimension():
    parts = [TensorDict({"a": np.arange(3) + i}, batch_size=[3]) for i in range(2)]
    out = lazy_stack(parts).to_lazystack(1)
    assert (out.stack_dim, len(out.tensordicts)) == (1, 3)
    np.testing.assert_array_equal(out["a"], [[0, 1, 2], [1, 2, 3]])


def test_densify_of_nested_lazy_stacks():
    rows = lazy_stack([TensorDict(a=np.ones(n)) for n in (1, 2)])
    td = TensorDict({"l": rows, "b": np.zeros(2)}, batch_size=[2])
    out = td.densify(padding_value=-1)
    assert type(out["l"]) is TensorDict
    np.testing.assert_array_equal(out["l", "a"], [[1, -1], [1, 1]])


def test_padding_a_ragged_batch():
    rows = lazy_stack(
        [
            TensorDict({"a": np.ones((n, 2)), "n": {"b": np.ones((n, n))}, "r": ["x"] * n}, batch_size=[n])
            for n in (1, 2)
        ]
    )
    out = rows.to_padded_tensor(-1, mask_key=("m", "mask"))
    assert (out.batch_size, out["n"].batch_size) == ((2, 2), (2, 2))
    np.testing.assert_array_equal(out["a"], [[[1, 1], [-1, -1]], [[1, 1], [1, 1]]])
    np.testing.assert_array_equal(out["n", "b"][0], [[1, -1], [-1, -1]])
    np.testing.assert_array_equal(out["m", "mask"], [[True, False], [True, True]])
    assert out["r"] == [["x", None], ["x", "x"]]


def test_padding_ragged_entries_of_a_regular_batch():
    rows = lazy_stack([TensorDict({"a": np.ones((3, n)), "s": "x"}, batch_size=[3]) for n in (1, 2)], 1)
    out = rows.to_padded_tensor()
    np.testing.assert_array_equal(out["a"], np.broadcast_to([[1, 0], [1, 1]], (3, 2, 2)))
    raises(RuntimeError, "mask_key", lambda: rows.to_padded_tensor(mask_key="m"))
    with pytest.raises(RuntimeError, match="no common padded shape"):
        lazy_stack([TensorDict(a=np.ones(1)), TensorDict(a=np.ones((1, 1)))]).to_padded_tensor()
