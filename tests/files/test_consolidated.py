"""Consolidated TensorDicts and files."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.saved_samples import Pair, check, sample
from helpers.trees import snapshot

import lite
from lite import TensorDict


def test_consolidated(tmp_path):
    td = sample().exclude("pair")
    td["n"].set("cls", np.ones(3))
    in_memory = td.consolidate()
    on_disk = td.consolidate(tmp_path / "td")
    for out in (in_memory, on_disk, TensorDict.from_consolidated(tmp_path / "td")):
        got = out.clone()
        expected = td.clone()
        if out is not in_memory and out is not on_disk:
            expected.set(("n.b", "t"), lite.NonTensorData([1, [2]], batch_size=[3]))
        check(got, expected, order=False)
        assert out.is_consolidated()
    assert in_memory.is_locked
    assert on_disk.is_locked
    with pytest.raises(RuntimeError, match="locked"):
        in_memory["x"] = 1
    in_memory.unlock_()
    assert not in_memory.is_consolidated()
    in_memory.lock_()
    assert in_memory.is_consolidated()
    assert not td.is_consolidated()


def test_consolidated_in_place_and_later(tmp_path):
    td = TensorDict({"a": np.arange(6).reshape(2, 3).T[::-1], "b": np.ones(3, np.int8)}, [3])
    expected = snapshot(td.clone())
    assert td.consolidate(inplace=True) is td
    assert td.is_consolidated()
    assert np.shares_memory(td["a"], td._source)
    assert snapshot(td.clone()) == expected
    future = td.consolidate(tmp_path / "td", return_early=True)
    check(future.result(timeout=60).clone(), td.clone())
    out = lite.from_consolidated(tmp_path / "td")
    out["a"][...] = 7
    assert lite.from_consolidated(tmp_path / "td")["a"].max() == 5


def test_what_consolidation_refuses(tmp_path):
    path = tmp_path / "td"
    raises(RuntimeError, "to json", lambda: TensorDict({"x": object()}).consolidate(path))
    for key in ("cls", "leaves", "non_tensors", "cls_metadata", "size"):
        raises(ValueError, key, TensorDict({key: {"a": 1}}).consolidate, path)
        TensorDict({key: np.ones(2)}).consolidate(path)
        assert lite.from_consolidated(path)[key].sum() == 2
        path.unlink()
    raises(ValueError, "NJT", lambda: TensorDict({"<NJT_VALUES>a": np.ones(2)}).consolidate(path))
    raises(ValueError, "cpu", lambda: TensorDict().consolidate(device="cuda"))
    assert not path.exists()


def test_what_is_too_short_to_describe_itself(tmp_path):
    for text, length, message in (
        (b"", None, "it has 0 bytes"),
        (b"{", 1, "it has 9 bytes"),
        (b"{} ", 1, "no description of 1 bytes"),
        (b"{}", 3, "no description of 3 bytes"),
        (b"{}", 2, "'cls_metadata'"),  # a description, of nothing
    ):
        path = tmp_path / "x"
        path.write_bytes(text + (b"" if length is None else length.to_bytes(8, "little")))
        raises(ValueError, f"is damaged or foreign: {message}", TensorDict.from_consolidated, path)


def test_names_of_a_lazy_stack(tmp_path):
    stack = lite.lazy_stack([TensorDict(a=np.full(2, i), batch_size=[2]) for i in range(3)], 1)
    stack.names = ["x", "t"]
    stack.consolidate(tmp_path / "td")
    assert TensorDict.from_consolidated(tmp_path / "td").names == ["x", "t"]


def test_empty_consolidated(tmp_path):
    TensorDict({"n": {}, "s": "x"}, [2]).consolidate(tmp_path / "td")
    out = lite.from_consolidated(tmp_path / "td")
    assert (out.batch_size, out["s"], list(out.keys())) == ((2,), "x", ["s", "n"])


def shown(td):
    """The text form, whatever the device: what comes from a file is bound to the host."""
    return repr(td).replace("device=cpu", "device=None")


@each_case("make", [
    lambda pair: pair,
    lambda pair: TensorDict({"p": pair, "n": {"p": pair}, "a": np.ones(3)}, [3]),
    lambda pair: lite.lazy_stack(list(pair.unbind(0))),
    lambda pair: TensorDict({"p": lite.lazy_stack(list(pair.unbind(0)))}, [3]),
])  # fmt: skip
def test_tensorclasses(tmp_path, make):
    made = make(Pair(x=np.arange(6.0).reshape(3, 2), batch_size=[3]))
    on_disk = made.consolidate(tmp_path / "td")
    for out in (made.consolidate(), on_disk):
        assert type(out) is type(made)
        assert out.is_consolidated()
        assert out.is_locked
        assert shown(out) == shown(made)
    found = type(made).from_consolidated(tmp_path / "td")
    assert found.is_consolidated()
    assert shown(found) == shown(made)
    if isinstance(made, Pair):
        assert not isinstance(TensorDict.from_consolidated(tmp_path / "td"), Pair)
    copy = made.clone()
    assert copy.consolidate(inplace=True) is copy
    assert copy.is_consolidated()


def test_tensorclasses_of_tensordict(tmp_path):
    """tensordict 0.15.3 wrote this description: the class in place of `TensorDict`."""
    text = (
        '{"cls": "TensorDict", "non_tensors": {}, "leaves": {"z": ["torch.int64", [3], 16, 40, 0]}, '
        '"cls_metadata": {"device": null, "names": [null], "batch_size": [3], "is_locked": false}, '
        '"p": {"cls": "NAME", "non_tensors": {}, "leaves": {"x": ["torch.float32", [3], 0, 16, 4]}, '
        '"cls_metadata": {"device": null, "names": [null], "batch_size": [3], "is_locked": false}}}'
    )
    arrays = np.arange(4, dtype="<f4").tobytes() + np.arange(3).tobytes()
    for name, expected in ((str(Pair), Pair), ("<class '__main__.Point'>", TensorDict)):
        content = text.replace("NAME", name).encode()
        path = tmp_path / expected.__name__
        path.write_bytes(arrays + content + len(content).to_bytes(8, "little"))
        found = lite.from_consolidated(path)
        assert type(found.get("p")) is expected
        np.testing.assert_array_equal(found["p", "x"], [0, 1, 2])
        np.testing.assert_array_equal(found["z"], np.arange(3))
