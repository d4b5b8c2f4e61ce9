"""Joining entries, taking them out, and asking about them."""

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.trees import tree, unchanged

from lite import NonTensorData, NonTensorStack, TensorDict, lazy_stack


def pair() -> TensorDict:
    return TensorDict({"b": np.zeros((2, 3)), "n": {"a": np.ones((2, 3))}, "s": "x"}, batch_size=[2])


def test_cat_tensors():
    td = pair()
    assert td.cat_tensors("b", ("n", "a"), out_key=("out", "c"), dim=-1) is td
    np.testing.assert_array_equal(td["out", "c"], np.repeat([[0, 1]], 3, 1).repeat(2, 0))
    assert set(td.keys(True, True)) == {("out", "c")}
    assert "b" not in td


def test_stack_tensors_keeps_entries_on_request():
    td = pair()
    td.stack_tensors("b", ("n", "a"), out_key="b2", dim=1, keep_entries=True)
    assert td["b2"].shape == (2, 2, 3)
    assert ("n", "a") in td
    td.stack_tensors("b", "b", out_key="b", dim=1)
    assert td["b"].shape == (2, 2, 3)


@each_case(
    ("keys", "options", "error"),
    [
        (("b", "q"), {}, KeyError),
        (("b", "s"), {}, TypeError),
        ((), {}, ValueError),
        (("b", ("n", "a")), {"dim": 0}, RuntimeError),  # does not fit the batch
    ],
)
def test_joins_that_fail_change_nothing(keys, options, error):
    td = pair()
    with unchanged(td), pytest.raises(error):
        td.cat_tensors(*keys, out_key="o", **options)
    for node, given in ((td["n"], ("b", ("n", "a"))), (td, ("b",))):
        node.lock_()
        with unchanged(td), pytest.raises(RuntimeError, match="locked"):
            td.cat_tensors(*given, out_key="o", dim=1)


def test_all_arrays_in_one():
    td = pair().filter_non_tensor_data()
    np.testing.assert_array_equal(td.cat_from_tensordict(), np.repeat([[0] * 3, [1] * 3], 2, 0))
    np.testing.assert_array_equal(td.stack_from_tensordict(sorted=[("n", "a"), "b"])[0], np.ones((2, 3)))
    out = np.empty((4, 3))
    assert td.cat_from_tensordict(sorted=True, out=out) is out
    later = TensorDict({"n": {"a": np.ones(2)}, "b": np.zeros(2)})
    np.testing.assert_array_equal(later.cat_from_tensordict(), [1, 1, 0, 0])
    np.testing.assert_array_equal(later.cat_from_tensordict(sorted=True), [0, 0, 1, 1])
    raises(ValueError, "at least one", lambda: TensorDict().cat_from_tensordict())
    raises(KeyError, "", td.cat_from_tensordict, sorted=["q"])


def test_separates():
    td = tree()
    array = td["n", "m", "c"]
    out = td.separates(("n", "m", "c"), "s")
    assert out["n", "m", "c"] is array
    assert out["s"] == "text"
    assert set(td.keys(True)) == {"a", "i", ("n", "b"), "n", "r"}
    kept = tree()
    kept.separates(("n", "m", "c"), filter_empty=False)
    assert ("n", "m") in kept
    both = kept.separates("n", ("n", "b"))
    assert (list(both.keys(True)), "n" in kept) == ([("n", "b"), ("n", "m"), "n"], False)
    td["n"].lock_()
    with unchanged(td), pytest.raises(RuntimeError, match="locked"):
        td.separates("a", ("n", "b"))


def test_separates_missing_keys():
    td = pair()
    with unchanged(td), pytest.raises(KeyError):
        td.separates("b", "q")
    assert list(td.separates("q", strict=False).keys()) == []
    assert td.separates("q", default=np.ones(2))["q"].shape == (2,)
    raises(RuntimeError, "locked", lambda: td.lock_().separates("b"))


def test_kinds_of_entries():
    td = tree()
    assert [td.entry_class(key) for key in ("a", "s", "r", ("n", "b"), "n")] == [
        np.ndarray, NonTensorData, NonTensorStack, np.ndarray, TensorDict,
    ]  # fmt: skip
    assert (td.is_non_tensor("s"), td.is_non_tensor("a")) == (True, False)
    for ask in (td.entry_class, td.is_non_tensor):
        raises(KeyError, "", ask, ("n", "q"))
    assert td.non_tensor_items()[1][0] == "r"
    assert [key for key, _ in td.non_tensor_items()] == ["s", "r"]
    deep = TensorDict({"n": {"s": "x"}})
    assert [key for key, _ in deep.non_tensor_items(include_nested=True)] == [("n", "s")]
    assert set(td.filter_non_tensor_data().keys(True, True)) == {"a", "i", ("n", "b"), ("n", "m", "c")}
    stack = lazy_stack([TensorDict(s="x", a=1)] * 2)
    assert list(stack.filter_non_tensor_data().keys()) == ["a"]
    ragged = lazy_stack([TensorDict(s=f"row{n}", a=np.ones(n)) for n in (1, 2)])
    ((key, rows),) = ragged.non_tensor_items()  # without the arrays, which cannot be stacked
    assert (key, rows.tolist()) == ("s", ["row1", "row2"])


def test_depth():
    td = tree()
    assert td.depth == 2
    del td["n", "m"]
    assert td.depth == 1
    assert TensorDict({"n": {}}).depth == 0
    assert lazy_stack([td, td]).depth == 1


def test_addresses():
    array = np.zeros((2, 4))
    td = TensorDict({"a": array[1], "s": "x"})
    assert int(td.data_ptr()["a"]) == array.ctypes.data + 32
    assert int(td.data_ptr(storage=True)["a"]) == array.ctypes.data
    assert list(td.data_ptr().keys()) == ["a"]
    parts = [TensorDict(a=np.ones(2), s="x") for _ in range(2)]
    found = TensorDict(n=lazy_stack([lazy_stack(parts)] * 2)).data_ptr()
    assert found["n", "1", "0", "a"] == parts[0]["a"].ctypes.data
    assert set(found.keys(True, True)) == {("n", i, j, "a") for i in "01" for j in "01"}


def test_devices():
    td = tree()
    assert (td.is_cpu, td.is_cuda, td.is_meta) == (False, False, False)
    assert td.auto_device_() is td
    assert (td.device, td["n", "m"].device, td.is_cpu) == ("cpu", "cpu", True)
    assert TensorDict({}, device="cpu").auto_device_().device is None
    stack = lazy_stack([TensorDict(a=1), TensorDict(a=2)])
    assert stack.auto_device_().device == "cpu"


def test_rename_dimensions():
    td = TensorDict({"n": TensorDict({}, [2, 3])}, batch_size=[2, 3], names=["t", None])
    assert td.rename("p", "q").names == ["p", "q"]
    assert td.rename(t="p").names == ["p", None]
    assert td.rename(None).names == [None, None]
    assert td.names == ["t", None]
    assert td.rename_("p", "q") is td
    assert td["n"].names == ["p", "q"]
    for names, named in [(("p",), {}), (("p",), {"q": "r"}), ((), {"z": "y"}), (("p", "p"), {})]:
        raises(ValueError, "name", td.rename_, *names, **named)
    stack = lazy_stack([TensorDict({}, [3]), TensorDict({}, [3])])
    assert stack.rename("u", "v").names == ["u", "v"]
