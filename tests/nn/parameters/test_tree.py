"""What a TensorDictParams does to the tree that it wraps."""

import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict, enable_grad, lazy_stack, nn, optim
from lite.nn import Parameter, TensorDictParams, utils
from lite.nn._parameters import tree
from lite.nn.utils import clip_grad_norm_  # as scripts import it


def test_floating_arrays_become_parameters() -> None:
    td = TensorDict(a=np.ones(2), n={"b": np.ones(2, np.float32), "steps": np.ones(1, np.int64)}, text="x")
    tree.convert_node(td)
    assert isinstance(td["a"], Parameter)
    assert isinstance(td["n", "b"], Parameter)
    assert type(td["n", "steps"]) is np.ndarray
    assert td["text"] == "x"


def test_copies_keep_ties_and_kinds() -> None:
    shared = Parameter(np.ones(2), requires_grad=False)
    td = TensorDict(n={"c": np.ones(1)})
    td._data |= {"a": shared, "b": shared}
    out = tree.kept(td, np.copy, {})
    assert out["a"] is out["b"] is not shared
    assert out["a"].requires_grad is False
    assert type(out["n", "c"]) is np.ndarray


def test_nested_state_dicts_are_flattened() -> None:
    assert tree.flattened({"a": {"b": 1, "c": {"d": 2}}, "e": 3}, "") == {"a.b": 1, "a.c.d": 2, "e": 3}
    assert tree.flattened({"a": 1}, "p.") == {"p.a": 1}


def test_nodes_and_lazy_stacks() -> None:
    td = TensorDict(a={"b": {"c": 1.0}}, d=1.0)
    assert [sorted(node.keys()) for node in tree.nodes(td)] == [["a", "d"], ["b"], ["c"]]
    stack = lazy_stack([TensorDict(x=1.0), TensorDict(x=2.0)])
    with pytest.raises(RuntimeError, match="make it dense first"):
        TensorDictParams(TensorDict(n=stack, batch_size=[2]))


def test_there_and_back() -> None:
    layer, other = nn.Linear(3, 2), nn.Linear(3, 2)
    vector = utils.parameters_to_vector(layer.parameters())
    np.testing.assert_array_equal(vector[:6].reshape(2, 3), layer.weight.data)
    utils.vector_to_parameters(np.append(vector, 7.0), other.parameters())
    for mine, copied in zip(layer.parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(mine.data, copied.data)
        assert copied.dtype == np.float32
    vector[:] = 0
    assert layer.weight.data.any()
    assert other.weight.data.any()


def test_gradients_flow_through_the_vector() -> None:
    layer = nn.Linear(2, 1)
    with enable_grad():
        (utils.parameters_to_vector(layer.parameters()) * np.arange(3.0)).sum().backward()
    np.testing.assert_array_equal(layer.weight.grad, [[0.0, 1.0]])
    np.testing.assert_array_equal(layer.bias.grad, [2.0])


def test_clipping_is_that_of_optim() -> None:
    assert clip_grad_norm_ is utils.clip_grad_norm_ is optim.clip_grad_norm_
    assert utils.clip_grad_value_ is optim.clip_grad_value_


def test_errors() -> None:
    layer = nn.Linear(3, 2)
    before = layer.weight.data.copy()
    with pytest.raises(RuntimeError, match=r"vec must be a vector of 8 numbers, got shape \(7,\)"):
        utils.vector_to_parameters(np.zeros(7), layer.parameters())
    np.testing.assert_array_equal(layer.weight.data, before)
    raises(TypeError, "vec must be an array, got list", utils.vector_to_parameters, [1.0], layer.parameters())
    raises(ValueError, "parameters must not be empty", utils.parameters_to_vector, [])
