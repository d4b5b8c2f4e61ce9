"""Non-tensor data alone: the methods of TensorDicts, by way of one without entries or one that holds it."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import MetaData, NonTensorData, NonTensorStack, TensorDict


def data() -> NonTensorData:
    return NonTensorData("x", batch_size=[3])


def rows() -> NonTensorStack:
    return NonTensorStack("a", "b", "c")


BOTH = pytest.mark.parametrize("make", [data, rows])

WITHOUT_ENTRIES = {
    "auto_batch_size_", "make_memmap", "make_memmap_from_tensor", "memmap_refresh_", "to_module"
}  # fmt: skip


@each_case("cls", [NonTensorData, NonTensorStack, MetaData])
def test_every_method_of_tensordicts_is_there(cls):
    missing = {
        name
        for name in dir(TensorDict)
        if not name.startswith(("_", "from", "kinds")) and not hasattr(cls, name)
    }
    assert missing == WITHOUT_ENTRIES
    assert (cls.load_memmap, hasattr(cls, "from_dict")) == (TensorDict.load_memmap, False)


def test_methods_look_like_those_of_tensordicts():
    assert inspect.signature(NonTensorData.pad) == inspect.signature(TensorDict.pad)
    assert NonTensorData.roll.__doc__ == TensorDict.roll.__doc__
    assert NonTensorData.pad.__name__ == "pad"


# -- no keys ------------------------------------------------------------------------------------


@BOTH
def test_there_are_no_keys(make: Any):
    """What that means for each method is in tests/parity/test_nontensor.py."""
    x = make()
    assert [*x.keys(), *x.items(True, True), *x.values(), *x.state_dict()] == []
    assert ("data" in x, x.is_empty(), x.get("s", 7), x.pop("s", 7)) == (False, False, 7, 7)
    for read in (x.select, x.__getitem__):
        raises(KeyError, "", read, "s")
    assert x.load_state_dict(x.state_dict()) is x
    assert x.select().tolist() == x.exclude("s").tolist() == x.tolist()


@BOTH
@each_case(
    "call",
    [
        lambda x: x.create_nested("s"),
        lambda x: x.setdefault("s", "z"),
        lambda x: x.set_non_tensor("s", "z"),
        lambda x: x.set("s", 1),
        lambda x: x.set_at_("s", 1, 0),
        lambda x: x.replace({"s": "z"}),
        lambda x: x.__setitem__("s", 1),
    ],
)
def test_nothing_can_be_stored(make: Any, call: Any):
    x = make()
    before = x.tolist()
    raises((KeyError, AttributeError), "key", lambda: call(x))
    assert list(x.keys()) == []
    assert x.tolist() == before


# -- names, device, lock ------------------------------------------------------------------------


@BOTH
def test_names_follow_the_batch(make: Any):
    x = make()
    assert x.names == [None]
    x.names = ["t"]
    assert x.names == x[1:].names == x.clone().names == ["t"]
    assert x.unsqueeze(0).names == [None, "t"]
    assert x.unsqueeze(0).permute(1, 0).names == ["t", None]
    assert x[0].names == []
    assert [row.names for row in x.unbind(0)] == [[], [], []]
    assert x.rename("u").names == ["u"]
    assert x.names == ["t"]
    with pytest.raises(ValueError, match="names"):
        x.names = ["t", "u"]


@BOTH
def test_device(make: Any):
    x = make()
    assert x.device is None
    there = x.to("cpu")
    assert there.device == there[1:].device == there.cpu().reshape(3, 1).device == "cpu"
    assert x.device is None
    assert "device=cpu" in repr(there)
    assert there.clear_device_().device is None


@BOTH
def test_lock(make: Any):
    x = make()
    before = x.tolist()
    assert x.lock_() is x
    assert x.is_locked
    other = NonTensorStack("p", "q", "r") if make is rows else NonTensorData("p", [3])
    for call in (
        lambda: x.update(other),
        lambda: x.update_(other),
        lambda: x.set("data", "z"),
        lambda: x.__setitem__(slice(None), "z"),
        lambda: x.pad([1, 0], inplace=True),
    ):
        raises(RuntimeError, "locked", call)
    assert x.tolist() == before
    assert not x.clone().is_locked
    with x.unlock_():
        x.update(other)
    assert x.is_locked
    assert x.tolist() == other.tolist()


# -- done to the data as to an entry ------------------------------------------------------------


@BOTH
def test_numbers_leave_it_alone(make: Any):
    x = make()
    unary = (np.exp, np.negative, abs, lambda x: x + 1, lambda x: 1 + x, lambda x: x * x)
    for result in (*(op(x) for op in unary), x.exp(), x.apply(np.exp), x.float(), x.zero_()):
        assert type(result) is type(x)
        assert result.tolist() == make().tolist()
    assert x.exp() is not x
    assert x.cummax(0).values.tolist() == x.tolist()


def test_in_place():
    x = rows()
    assert x.pad([1, 0], inplace=True) is x
    assert x.tolist() == [None, "a", "b", "c"]
    assert x.batch_size == (4,)
    y = data()
    raises(RuntimeError, "maybe_to_stack", lambda: y.pad([1, 0], inplace=True))
    assert y.tolist() == ["x", "x", "x"]
    y.names = ["t"]
    assert y.reshape(3, 1, inplace=True) is y
    assert (y.batch_size, y.names) == ((3, 1), [None, None])


@BOTH
def test_nothing_is_left_of_a_reduced_dim(make: Any):
    out = make().sum(0)
    assert out.batch_size == ()
    assert out.data == "x" if make is data else list(out.keys()) == []


def test_what_lite_does_not_have_says_so():
    raises(NotImplementedError, "", lambda: data().pin_memory())


# -- files, pickles, processes ------------------------------------------------------------------


@BOTH
def test_files(make: Any, tmp_path: Any):
    x = make()
    saved = x.memmap(tmp_path / "a")
    assert (saved.is_memmap(), saved.is_locked, saved.saved_path) == (True, True, str(tmp_path / "a"))
    assert (x.is_memmap(), x.is_locked) == (False, False)
    loaded = TensorDict.load_memmap(tmp_path / "a")
    assert loaded.is_locked
    assert np.all(loaded == x)
    assert type(x).load_memmap(tmp_path / "a").tolist() == loaded.tolist()
    assert x.memmap_(tmp_path / "b") is x
    assert x.is_locked
    assert make().memmap().tolist() == x.tolist()
    other = (
        type(x)._stacked([NonTensorData(i) for i in range(3)], 0) if make is rows else NonTensorData(0, [3])
    )
    assert other.lock_().load_memmap_(tmp_path / "a").tolist() == x.tolist()
    assert other.is_locked
    x.save(tmp_path / "c.tdz")
    assert np.all(TensorDict.load(tmp_path / "c.tdz") == x)
    raises(TypeError, "pickle", lambda: NonTensorData(object()).memmap(tmp_path / "d"))


@BOTH
def test_pickles_keep_what_was_said(make: Any):
    x = make().to("cpu")
    x.names = ["t"]
    assert copy.copy(x).lock_().is_locked
    assert not x.is_locked
    assert b"_tree" not in pickle.dumps(make())
    for twin in (pickle.loads(pickle.dumps(x.lock_())), copy.deepcopy(x)):
        assert type(twin) is type(x)
        assert (twin.tolist(), twin.names, twin.device) == (x.tolist(), ["t"], "cpu")


# -- others still tell it apart -----------------------------------------------------------------


@BOTH
def test_what_there_is_nothing_to_do_for(make: Any):
    item = make()
    one = make is data
    assert item.to_tensordict() is item
    assert item.to_dict() == item.numpy() == ("x" if one else ["a", "b", "c"])
    assert item.batch_size == (3,)
    if not one:
        assert item.contiguous() is item
        assert item.stack_dim == 0
        assert [part.data for part in item.tensordicts] == ["a", "b", "c"]
        assert item._rebatch((3,)) is item
