"""What a TensorDictParams does to the tree that it wraps."""

import numpy as np
import pytest

from lite import TensorDict, lazy_stack
from lite.nn import Parameter, TensorDictParams
from lite.nn._parameters import tree


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
