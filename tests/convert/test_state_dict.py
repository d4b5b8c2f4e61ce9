"""State dicts, flat and nested, both ways."""

from collections import OrderedDict

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.trees import unchanged

from lite import MetaData, NonTensorData, NonTensorStack, TensorDict, TensorDictBase, lazy_stack
from lite.nn import Parameter


def source(value: float = 0.0) -> TensorDict:
    return TensorDict(
        {"a": np.full(2, value), "n": {"b": np.full((2, 3), value), "e": {}}, "s": "x"}, batch_size=[2]
    )


def test_names_and_metadata():
    td = source()
    state = td.state_dict(prefix="p.")
    assert isinstance(state, OrderedDict)
    assert list(state) == ["p.a", "p.n.b"]
    assert state["p.a"] is td["a"]
    assert state._metadata["p.n"] == {"batch_size": (2,), "device": None}
    nested = td.state_dict(flatten=False)
    assert list(nested) == ["a", "n", "s"]
    assert list(nested["n"]) == ["b", "e"]
    more = OrderedDict()
    assert td.state_dict(more) is more
    assert list(more) == ["a", "n.b"]


def test_plain_and_legacy_dicts():
    td = source()
    td.load_state_dict({"a": np.ones(2), "n": {"b": np.ones((2, 3))}})
    np.testing.assert_array_equal(td["a"], [1, 1])
    old = {"a": np.zeros(2), "n": {"b": np.zeros((2, 3)), "__batch_size": (2,), "__device": None}}
    td.load_state_dict({**old, "__batch_size": (2,), "__device": None})
    np.testing.assert_array_equal(td["n", "b"], np.zeros((2, 3)))
    td.load_state_dict({"a": np.ones(2), "n.b": np.ones((2, 3))}, from_flatten=True)
    np.testing.assert_array_equal(td["n", "b"], np.ones((2, 3)))
    of_root_alone = OrderedDict({"a": np.ones(2), "n.b": np.full((2, 3), 4)})
    of_root_alone._metadata = {"": {"batch_size": (2,), "device": None}}
    np.testing.assert_array_equal(td.load_state_dict(of_root_alone)["n", "b"], np.full((2, 3), 4))


def test_strict():
    td = source()
    state = source(5).state_dict()
    del state["n.b"]
    state["q"] = np.ones(2)
    with unchanged(td), pytest.raises(RuntimeError, match=r"extra keys \['q'\].*\['n\.b'\]"):
        td.load_state_dict(state)
    td.load_state_dict(state, strict=False)
    np.testing.assert_array_equal(td["a"], [5, 5])
    np.testing.assert_array_equal(td["q"], [1, 1])
    np.testing.assert_array_equal(td["n", "b"], np.zeros((2, 3)))
    for flatten in (False, True):
        state = td.select("a", "q").state_dict(flatten=flatten)
        with unchanged(td), pytest.raises(RuntimeError, match=r"\['n"):
            td.load_state_dict(state)


def test_empty_nodes_do_not_count():
    td = TensorDict(a=1, n={})
    td.load_state_dict(TensorDict(a=2, m={"k": {}}).state_dict(flatten=False))
    assert int(td["a"]) == 2


def test_below_an_array():
    with pytest.raises(RuntimeError, match="below an array"):
        TensorDict(a=1).load_state_dict({"a": 1, "a.b": 2}, from_flatten=True)


def test_batch_size_and_locks():
    td = TensorDict({"a": np.zeros((2, 3))}, batch_size=[2])
    td.load_state_dict(TensorDict({"a": np.ones((2, 3))}, batch_size=[2, 3]).state_dict())
    assert td.batch_size == (2, 3)
    td.lock_()
    td.load_state_dict(TensorDict({"a": np.full((2, 3), 2)}, batch_size=[2, 3]).state_dict())
    assert td["a"][0, 0] == 2
    with pytest.raises(RuntimeError, match="locked"):
        td.load_state_dict({"a": np.ones((2, 3)), "q": np.ones((2, 3))}, strict=False)


def test_lazy_stacks():
    stack = lazy_stack([TensorDict(a=np.zeros(2)), TensorDict(a=np.zeros(2))])
    stack.load_state_dict(lazy_stack([TensorDict(a=np.ones(2)), TensorDict(a=np.ones(2))]).state_dict())
    np.testing.assert_array_equal(stack.tensordicts[1]["a"], [1, 1])
    raises(RuntimeError, "exclusive", lazy_stack([TensorDict(a=1), TensorDict(b=1)]).state_dict)


# Every kind of entry, as `kind(value)`; equal values come from equal calls.
KINDS = {
    "array": lambda v: np.full((2, 3), v),
    "object": lambda v: f"text {v}",
    "none": lambda v: NonTensorData(None if v else "text"),
    "dict": lambda v: NonTensorData({"v": [v]}),
    "meta": lambda v: MetaData(v),
    "stack": lambda v: NonTensorStack(v, str(v)),
    "lists": lambda v: NonTensorStack([v], [str(v), v]),
    "empty": lambda v: TensorDict({"e": {}, "x": np.full(2, v)}, batch_size=[2]),
    "node": lambda v: TensorDict({"x": np.full(2, v), "s": str(v)}, batch_size=[2]),
    "only objects": lambda v: TensorDict({"s": str(v), "n": {"t": NonTensorStack(v, v)}}, batch_size=[2]),
    "lazy": lambda v: lazy_stack([TensorDict(x=v, s=str(v)), TensorDict(x=v + 1, s="same")]),
    "deeper": lambda v: TensorDict({"n": {"n": {"x": np.full(2, v), "s": str(v)}}}, batch_size=[2]),
}


def content(entry):
    """Everything about an entry that a state dict holds."""
    if isinstance(entry, np.ndarray):
        return entry.dtype, entry.tolist()
    if isinstance(entry, NonTensorData | NonTensorStack):
        return entry.batch_size, entry.tolist()
    node = entry if isinstance(entry, TensorDictBase) else entry._tensordict
    return type(entry), node.batch_size, {key: content(node.get(key)) for key in node.keys()}  # noqa: SIM118


def holder(kind, value):
    return TensorDict(
        {"a": np.full(2, value), "k": KINDS[kind](value), "n": {"k": KINDS[kind](value)}}, batch_size=[2]
    )


@each_case(
    ("flatten", "assign", "from_flatten"),
    [(False, False, None), (False, True, None), (True, False, True), (True, True, None)],
)
@each_case("kind", KINDS)
def test_every_kind_of_entry_comes_back(kind, flatten, assign, from_flatten):
    td, other = holder(kind, 0), holder(kind, 1)
    expected = content(other)
    assert content(td) != expected
    state = other.state_dict(flatten=flatten)
    array = td["a"]
    assert td.load_state_dict(state, assign=assign, from_flatten=from_flatten) is td
    assert (td["a"] is array) is not assign
    assert content(td) == expected
    td.load_state_dict(td.state_dict(flatten=flatten), assign=assign)
    assert content(td) == expected
    assert content(other) == expected
    only = TensorDict({"k": KINDS[kind](0)}, batch_size=[2])
    only.load_state_dict(TensorDict({"k": KINDS[kind](1)}, batch_size=[2]).state_dict(flatten=flatten))
    assert content(only) == content(TensorDict({"k": KINDS[kind](1)}, batch_size=[2]))


def test_below_a_prefix():
    both = OrderedDict()
    source(5.0).state_dict(both, "p.")
    source(6.0).state_dict(both, "q.")
    td = TensorDict(p=source(), q=source()).load_state_dict(both)
    assert content(td["p"]) == content(source(5.0))
    assert content(td["q"]) == content(source(6.0))


def test_objects_on_one_side():
    state = source(5).state_dict()
    td = TensorDict(a=np.zeros(2), n={"b": np.zeros((2, 3))}, batch_size=[2]).load_state_dict(state)
    assert td["s"] == "x"
    td["s"], td["t"] = "mine", "mine"
    td.load_state_dict({"a": np.ones(2), "n": {"b": np.ones((2, 3))}})
    assert (td["s"], td["t"]) == ("mine", "mine")


@each_case("flatten", [False, True])
@each_case(
    ("mine", "theirs"),
    [("array", "object"), ("object", "array"), ("node", "array"), ("array", "node"), ("object", "node")],
)
def test_entries_of_other_kinds(mine, theirs, flatten):
    td, state = holder(mine, 0), holder(theirs, 1).state_dict(flatten=flatten)
    with unchanged(td), pytest.raises((RuntimeError, ValueError)):
        td.load_state_dict(state)
    with unchanged(td), pytest.raises((RuntimeError, ValueError)):
        td.load_state_dict(state, strict=False)


def test_parameters():
    td = TensorDict(w=Parameter(np.zeros(2)))
    assert type(td.state_dict()["w"]) is np.ndarray
    assert td.state_dict(keep_vars=True)["w"] is td["w"]
    weight = td["w"]
    td.load_state_dict(TensorDict(w=np.ones(2)).state_dict())
    assert td["w"] is weight
    np.testing.assert_array_equal(weight.data, [1, 1])


def test_tensordicts_as_state_dicts():
    td = TensorDict({"a": np.zeros(2), "n": {"b": np.zeros(2)}})
    array = td["n", "b"]
    source = TensorDict({"a": [1, 2], "s": "x", "n": {"b": [3, 4]}}, batch_size=[2])
    with unchanged(source):
        assert td.load_state_dict(source) is td
        td.load_state_dict(source.flatten_keys("."), from_flatten=True)
    assert td["n", "b"] is array
    np.testing.assert_array_equal(array, [3, 4])
    assert td.batch_size == ()
    raises(RuntimeError, r"tensordict extra keys \['n.b'\]", td.load_state_dict, source.exclude(("n", "b")))


@each_case("kind", KINDS)
def test_keys_with_dots(kind):
    td, other = (TensorDict({"n.k": KINDS[kind](v), "n.a": np.full(2, v), "s": str(v)}, [2]) for v in (0, 1))
    expected = content(other)
    for flatten in (True, False):
        assert content(td.clone().load_state_dict(other.state_dict(flatten=flatten))) == expected
