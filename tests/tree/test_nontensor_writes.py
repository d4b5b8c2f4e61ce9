"""Non-tensor data that is made of other such, written, and bound to a type."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

import lite
from lite import MetaData, NonTensorData, NonTensorStack, TensorClass, TensorDict, stack

# -- wrappers among the items, of which tests/parity/test_nontensor.py has more ------------------


def test_lists_with_wrappers_in_them():
    f, pair = NonTensorData("f"), NonTensorData("f", [2])
    assert NonTensorStack.from_list([["a", f], ["b"]]).tolist() == [["a", "f"], ["b"]]
    assert NonTensorStack.from_list([[pair], [["c", f]]]).tolist() == [[["f", "f"]], [["c", "f"]]]


def test_the_same_in_tensordicts():
    td = TensorDict({"s": ["a", NonTensorData("f")]}, [2])
    assert td["s"] == td.to_dict()["s"] == ["a", "f"]
    td["s"][0] = NonTensorData("z")
    assert td["s"] == ["z", "f"]
    td["s"] = ["p", MetaData("q")]
    assert td["s"] == ["p", "q"]
    assert pickle.loads(pickle.dumps(td))["s"] == ["p", "q"]


def test_from_nontensordata():
    whole = NonTensorData(["x"], [2, 3])
    spread = NonTensorStack.from_nontensordata(whole)
    assert spread.batch_size == (2, 3)
    assert all(item is whole.data for row in spread.tolist() for item in row)
    single = NonTensorData("x")
    assert NonTensorStack.from_nontensordata(single) is single


def test_arguments_of_the_constructor():
    assert NonTensorStack(batch_size=[3]).batch_size == (0, 3)
    rows = [NonTensorData("a", [3]), NonTensorData("b", [3])]
    stacked = NonTensorStack(*rows, stack_dim=1, stack_dim_name="t")
    assert (stacked.batch_size, stacked.names) == ((3, 2), [None, "t"])
    raises(RuntimeError, "batch_size", lambda: NonTensorStack("a", "b", batch_size=[3]))
    raises(RuntimeError, "got a TensorDict", lambda: NonTensorStack("a", TensorDict()))
    raises(RuntimeError, "differ", lambda: NonTensorStack(NonTensorStack("a", "b"), "c"))
    raises(IndexError, "", lambda: NonTensorStack("a", stack_dim=5))
    raises(AttributeError, "non-unique", lambda: NonTensorData(NonTensorStack("x", "y")))


# -- writing ------------------------------------------------------------------------------------


def test_update():
    x = NonTensorStack("a", "b")
    assert x.update(NonTensorData("z")) is x
    assert x.tolist() == ["z", "z"]
    source = NonTensorStack(["p"], ["q"])
    assert x.update_(source, clone=True).tolist() == [["p"], ["q"]]
    assert x.tolist()[0] is not source.tolist()[0]
    assert x.copy_(source).tolist()[0] is source.tolist()[0]
    x[0] = "changed"
    assert source.tolist() == [["p"], ["q"]]
    assert x.update(None) is x
    for wrong, error in (
        (NonTensorStack("p", "q", "r"), ValueError),
        ({"data": "y"}, NotImplementedError),
        ("y", NotImplementedError),
    ):
        raises(error, "", x.update, wrong)
    raises(TypeError, "keywords", lambda: x.update(data="y"))
    assert x.tolist() == ["changed", ["q"]]


def test_update_of_one_object():
    x = NonTensorData("a", [2])
    assert x.update(NonTensorData("b")) is x
    assert (x.data, x.batch_size) == ("b", (2,))
    assert x.update(TensorDict()) is x
    raises(ValueError, "maybe_to_stack", lambda: x.update(NonTensorStack("p", "q")))
    raises(RuntimeError, "got a TensorDict", lambda: x.update(TensorDict(a=1)))
    raises(RuntimeError, "maybe_to_stack", lambda: x.update_(NonTensorStack("p", "q")))
    for part in (0, (0,), slice(1)):
        raises(RuntimeError, "as a whole", x.update_at_, NonTensorData("p"), part)
    assert x.update_at_(NonTensorData("b"), slice(None)).data == "b"
    assert x.set("data", "c").get("data") == "c"


def test_items_are_assigned():
    x = NonTensorStack.from_list([["a", "b"], ["c", "d"]])
    x[0] = "z"
    x[:, 1] = ["p", "q"]
    x[1, 0] = NonTensorData(["list"])
    assert x.tolist() == [["z", "p"], [["list"], "q"]]
    x[np.array([True, False])] = NonTensorData("m")
    assert x.tolist()[0] == ["m", "m"]
    x.set_at_("data", "n", (0, 0)).update_at_(NonTensorData("o"), (0, 1))
    assert x.tolist()[0] == ["n", "o"]
    for index in (5, (0, 0, 0)):
        with pytest.raises(IndexError):
            x[index] = "y"
    td = TensorDict({"x": x}, [2, 2]).set_at_("x", "g", ...).set_at_("x", "e", (..., 1))
    assert td.update_at_({"x": "f"}, (0, ...))["x"] == [["f", "f"], ["g", "e"]]
    with pytest.raises(TypeError, match="TensorDict"):
        x[0] = TensorDict()


def test_one_object_is_written_as_a_whole():
    x = NonTensorData("a", [3])
    x[:] = "b"
    assert x.data == "b"
    x[...] = NonTensorData("c")
    assert x.data == "c"
    x[0] = "c"
    for value in ("d", NonTensorData("d")):
        with pytest.raises(ValueError, match="maybe_to_stack"):
            x[0] = value
    assert (x.data, x.batch_size) == ("c", (3,))
    spread = x.maybe_to_stack()
    spread[0] = "d"
    assert spread.tolist() == ["d", "c", "c"]
    assert x.tolist() == ["c", "c", "c"]


def test_batch_size():
    x = NonTensorData("a", [3], names=["t"])
    x.batch_size = [3, 2]
    assert (x.batch_size, x.names) == ((3, 2), ["t", None])
    assert x.empty(batch_size=[5]).batch_size == (5,)
    with pytest.raises(RuntimeError, match="NonTensorStack"):
        NonTensorStack("a").batch_size = [2]


def test_lists_that_write_back():
    x = NonTensorStack("a", "b")
    x.tolist(as_linked_list=True)[0] = "z"
    x.tolist()[1] = "no"
    assert x.tolist() == ["z", "b"]


def test_operators():
    x, y = NonTensorData(True, [2]), NonTensorStack(True, False)
    np.testing.assert_array_equal(x == y, [True, False])
    np.testing.assert_array_equal(x != y, [False, True])
    np.testing.assert_array_equal(x ^ y, [False, True])
    np.testing.assert_array_equal(x | y, [True, True])
    assert (x == "a", x != "a") == (False, True)
    with pytest.raises(TypeError):
        _ = x | "a"


RESULTS = {
    "exp": lambda td: td.exp(),
    "neg": lambda td: -td,
    "add": lambda td: td + 1,
    "mul": lambda td: td * td,
    "clamp": lambda td: td.clamp(0, 1),
    "apply": lambda td: td.apply(np.copy),
    "apply_to_none": lambda td: td.apply(np.copy, is_leaf=lambda kind: False),
    "named_apply": lambda td: td.named_apply(lambda name, leaf: leaf),
    "to": lambda td: td.to(np.float32),
    "to_device": lambda td: td.to("cpu"),
    "contiguous": lambda td: td.contiguous(),
    "detach": lambda td: td.detach(),
    "where": lambda td: td.where(np.array([True, False]), td),
    "where_number": lambda td: td.where(np.array([True, False]), 0.0),
    "isnan": lambda td: td.isnan(),
    "cumsum": lambda td: td.cumsum(0),
    "clone": lambda td: td.clone(False),
    "part": lambda td: td.exp()[::-1][::-1],
    "below": lambda td: TensorDict({"n": td}, [2]).exp().get("n"),
}


@each_case("name", RESULTS)
def test_objects_of_results_are_written_apart(name: str):
    td = TensorDict({"a": np.ones(2), "s": ["x", "y"], "w": "whole"}, [2])
    out = RESULTS[name](td)
    out["s"][0] = "z"
    out.get("w").update_(NonTensorData("other"))
    assert (td["s"], td["w"]) == (["x", "y"], "whole")
    assert (out["s"], out["w"]) == (["z", "y"], "other")
    td["s"][1] = "q"
    td.get("s")[1:] = "r"
    assert out["s"] == ["z", "y"]


# -- metadata of a type -------------------------------------------------------------------------


def test_the_type_of_metadata_is_checked():
    for kind, value in ((int, "a"), (int | str, 2.0), (int, MetaData("a")), (str, NonTensorData(3))):
        raises(TypeError, "Expected data of type", MetaData[kind], value)
    raises(TypeError, "Cannot specify type", lambda: MetaData[int][str])


def test_the_class_of_a_type():
    x = MetaData[int](3, [2], names=["t"])
    for twin in (x[:1], x.exp(), pickle.loads(pickle.dumps(x))):
        assert (type(twin), twin.names) == (MetaData[int], ["t"])
    assert b"_tree" not in pickle.dumps(MetaData[int](3))
    assert repr(MetaData[int](3)) == "MetaData[int](data=3, batch_size=(), device=None)"


def test_metadata_is_joined_by_the_class_of_the_first():
    typed, plain = MetaData[int](3), MetaData(3)
    assert type(stack([typed, typed])) is MetaData[int]
    assert type(stack([plain, typed])) is MetaData
    assert type(stack([typed, plain])) is NonTensorStack
    assert type(lite.cat([MetaData[int](3, [2]), MetaData[int](3, [1])])) is MetaData[int]
    assert type(lite.cat([NonTensorData(3, [2]), MetaData(3, [1])])) is NonTensorData


class Typed(TensorClass["autocast"]):
    x: np.ndarray
    unit: MetaData[str]  # type: ignore[type-arg]
    note: MetaData = None  # type: ignore[assignment]
    extra: Any = None


def test_fields_annotated_as_metadata():
    value = Typed(x=np.zeros((2, 3)), unit="m", note={"a": 1}, batch_size=[2])
    assert (value.unit, value.note) == ("m", {"a": 1})
    assert type(value._tensordict.get("unit")) is MetaData[str]
    assert type(value._tensordict.get("note")) is MetaData
    assert stack([value, value]).unit == "m"
    value.unit = NonTensorData("cm")
    assert value[0].unit == "cm"
    with pytest.raises(TypeError, match="Expected data of type str, got int"):
        value.unit = 3
    raises(TypeError, "Expected data of type str, got int", Typed, x=np.zeros(2), unit=3, batch_size=[2])
    assert value.unit == "cm"


# -- files --------------------------------------------------------------------------------------


def test_metadata_in_files(tmp_path: Any):
    TensorDict({"t": MetaData[int](3)}, [2]).memmap(tmp_path / "td")
    assert type(TensorDict.load_memmap(tmp_path / "td").get("t")) is MetaData
    meta = tmp_path / "td" / "t" / "meta.json"
    meta.write_text(meta.read_text().rstrip().replace("MetaData'", "MetaData[int]'"))
    assert type(TensorDict.load_memmap(tmp_path / "td").get("t")) is MetaData
    TensorDict({"o": MetaData({1, object})}).memmap(tmp_path / "pickled", allow_pickle=True)
    found = TensorDict.load_memmap(tmp_path / "pickled", allow_pickle=True).get("o")
    assert (type(found), found.data) == (MetaData, {1, object})
