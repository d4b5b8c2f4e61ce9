"""Loading into what is there, parts of what was saved, and classes by their names."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import LazyStackedTensorDict, TensorClass, TensorDict, lazy_stack
from lite.models import History


class Step(TensorClass):
    x: np.ndarray


def test_load_into_self(tmp_path):
    TensorDict({"a": np.arange(3)}, [3]).memmap(tmp_path / "td")
    td = TensorDict({"stale": np.zeros(3)}, [3])
    assert td.load_(tmp_path / "td") is td
    assert list(td.keys()) == ["a"]
    mapped = td.save()
    assert mapped.is_memmap()
    assert mapped["a"].tolist() == [0, 1, 2]
    again = TensorDict.load_memmap(tmp_path / "td")
    (tmp_path / "td" / "left.memmap").write_bytes(b"x")
    with pytest.raises(RuntimeError, match=r"left\.memmap already exists"):
        again.make_memmap_from_tensor("left", np.ones(3), existsok=False)
    assert again.make_memmap_from_tensor("left", np.ones(3)).sum() == 3


def test_subpath_and_out(tmp_path):
    TensorDict({"n": {"m/x": {"b": np.arange(3)}}, "a": np.ones(3)}, [3]).memmap(tmp_path / "td")
    assert TensorDict.load_memmap(tmp_path / "td", subpath=("n", ("m/x",)))["b"].tolist() == [0, 1, 2]
    assert "m/x" in TensorDict.load_memmap(tmp_path / "td", subpath="n").keys()  # noqa: SIM118
    raises(ValueError, "no tensordict under", lambda: TensorDict.load_memmap(tmp_path / "td", subpath="n/x"))
    raises(ValueError, "subpath", lambda: TensorDict.load_memmap(tmp_path / "td", subpath=()))
    raises(ValueError, "mode", lambda: TensorDict.load_memmap(tmp_path / "td", mode="w"))
    out = TensorDict({"stale": np.zeros(3), "n": {"m/x": {"old": np.zeros(3)}}}, [3])
    node = out["n", "m/x"]
    assert TensorDict.load_memmap(tmp_path / "td", out=out) is out
    assert out["n", "m/x"] is node
    assert set(out.keys(True, True)) == {"a", ("n", "m/x", "b")}
    locked = TensorDict({"stale": np.zeros(3)}, [3], lock=True)
    raises(RuntimeError, "locked", lambda: TensorDict.load_memmap(tmp_path / "td", out=locked))
    locked.load_memmap_(tmp_path / "td")
    assert locked.is_locked
    assert locked["a"].sum() == 3
    other = TensorDict({"stale": np.zeros(4)}, [4])
    raises(RuntimeError, "batch dimension mismatch", lambda: other.load_memmap_(tmp_path / "td"))
    assert list(other.keys()) == ["stale"]


def test_modes_of_a_folder(tmp_path):
    """As measured on tensordict 0.15.3; 0.14 takes no notice of the mode of a folder."""
    path = tmp_path / "td"
    TensorDict({"a": np.zeros(2), "n": {"b": np.zeros(2), "s": "old"}}).memmap(path)
    for mode, reached in ((None, True), ("r+", True), ("r", False)):
        before = TensorDict.load_memmap(path)["n", "b"][0].item()
        td = TensorDict.load_memmap(path, mode=mode)
        td["n", "b"][0] = before + 1
        td.update_({"n": {"s": str(mode)}})
        found = TensorDict.load_memmap(path)
        assert (found["n", "b"][0] == before + 1) == (found["n", "s"] == str(mode)) == reached
        assert (td["n", "b"][0], td["n", "s"]) == (before + 1, str(mode))
        assert TensorDict.load_memmap(path, subpath="n", mode=mode)["b"][0] == found["n", "b"][0]
    raises(RuntimeError, "not memory mapped or has no path", td.memmap_refresh_)
    td.memmap(path)
    assert TensorDict.load_memmap(path)["n", "b"][0] == before + 1
    assert TensorDict.load_memmap(path)["n", "s"] == "r"


def test_names_are_where_tensordict_has_them(tmp_path):
    """The members are those that tensordict 0.15.3 writes and reads; 0.14 passes over them."""
    td = TensorDict(
        {"n": TensorDict({"x": np.ones((2, 3))}, [2, 3], names=["row", "col"])}, [2], names=["row"]
    )
    rows = lazy_stack([td, td.clone()], stack_dim_name="batch")
    TensorDict({"td": td, "rows": rows, "_names": TensorDict(names=["x"], batch_size=[1])}).memmap(tmp_path)
    for folder, member, value in (
        ("td", "_names", ["row"]),
        ("td/n", "_names", ["row", "col"]),
        ("rows", "stack_dim_name", "batch"),
    ):
        assert json.loads((tmp_path / folder / "meta.json").read_text())[member] == value
    found = TensorDict.load_memmap(tmp_path)
    assert found["td"].names == ["row"]
    assert found["td", "n"].names == ["row", "col"]
    assert found["rows"].names == ["batch", "row"]
    assert found["_names"].names == ["x"]
    for folder, member in (("td", "_names"), ("rows", "stack_dim_name")):
        meta = tmp_path / folder / "meta.json"
        kept = meta.read_text()
        for wrong in ([3], [{}], ["row", "col"]):
            meta.write_text(json.dumps(json.loads(kept) | {member: wrong}))
            raises(ValueError, "damaged or foreign", TensorDict.load_memmap, tmp_path)
        meta.write_text(kept)


def test_a_stack_of_objects_in_folders(tmp_path: Path) -> None:
    """As tensordict writes objects that are no JSON."""
    TensorDict({"s": [["x", "y", "z"], ["u", "v", "w"]]}, [2, 3]).memmap(tmp_path)
    meta = json.loads((tmp_path / "s" / "meta.json").read_text())
    rows = np.array(meta.pop("data")).T.tolist()
    for i, row in enumerate(rows):
        (tmp_path / "s" / f"{i}").mkdir()
        (tmp_path / "s" / f"{i}" / "meta.json").write_text(json.dumps({**meta, "data": row}))
    (tmp_path / "s" / "meta.json").write_text(json.dumps({**meta, "stack_dim": 1}))
    out = TensorDict.load_memmap(tmp_path)
    assert out["s"] == [["x", "y", "z"], ["u", "v", "w"]]


def test_a_stack_is_loaded_in_its_place(tmp_path: Path) -> None:
    def stack(parts: np.ndarray, dim: int) -> LazyStackedTensorDict:
        return LazyStackedTensorDict(*[TensorDict(a=part, batch_size=[2]) for part in parts], stack_dim=dim)

    saved = stack(np.arange(4).reshape(2, 2), 1)
    saved.memmap(tmp_path)
    for out in (stack(np.zeros((2, 2)), 0), stack(np.zeros((2, 2)), 1), TensorDict(a=np.zeros((2, 2)))):
        assert out.load_memmap_(tmp_path)["a"].tolist() == saved["a"].tolist() == [[0, 2], [1, 3]]
    kept = stack(np.ones((3, 2)), 1)
    raises(ValueError, "2 stacked tensordicts into a stack of 3", kept.load_memmap_, tmp_path)
    raises(RuntimeError, "batch dimension mismatch", stack(np.ones((3, 2)), 0).load_memmap_, tmp_path)
    assert (kept["a"] == 1).all()


@each_case("module", ["lite.models.history", "lite.models.text.history", "lite.models"])
def test_classes_of_lite_are_found_wherever_their_module_was(module: str, tmp_path: Path) -> None:
    history = History.from_chats([[{"role": "user", "content": "hi"}]])
    history.memmap(tmp_path)
    meta = tmp_path / "meta.json"
    meta.write_text(meta.read_text().rstrip().replace(History.__module__, module))
    found = TensorDict.load_memmap(tmp_path)
    assert type(found) is History
    assert found.content == history.content


def test_classes_of_others_are_found_by_their_whole_name(tmp_path: Path) -> None:
    Step(x=np.ones(2), batch_size=[2]).memmap(tmp_path)
    assert type(TensorDict.load_memmap(tmp_path)) is Step
    meta = tmp_path / "meta.json"
    for other in ("lite.models", "elsewhere"):
        meta.write_text(meta.read_text().rstrip().replace(Step.__module__, other))
        assert type(TensorDict.load_memmap(tmp_path)) is TensorDict
