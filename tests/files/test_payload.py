"""Objects in files: what JSON holds, what needs a pickle."""

import math
import pickle
import re
import zipfile

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import NonTensorData, NonTensorStack, TensorDict, nn

PAYLOADS = [
    None, True, 3, -1.5, "", "text", "é\ud800", [], [1, [2]], {}, {"a": {"b": None}}, (), (1, "x"), {1, 2},
    frozenset({"a"}), {"k": (1, {2})}, [[1, 2], [3, 4]], 2**70, -(2**200), math.inf, {"data": 1},
    {"tuple": [1]},
]  # fmt: skip


@each_case("payload", PAYLOADS, ids=repr)
def test_objects(payload, tmp_path):
    td = TensorDict({"a": np.zeros((2, 2))}, [2, 2])
    td.set("one", NonTensorData(payload, batch_size=[2, 2]))
    array = np.empty((2, 2), object)
    for i in range(4):
        array.reshape(-1)[i] = payload
    td.set("each", NonTensorStack._wrap(array))
    td.memmap(tmp_path / "td")
    out = TensorDict.load_memmap(tmp_path / "td")
    assert out["one"] == payload
    assert type(out["one"]) is type(payload)
    assert out.get("each").batch_size == (2, 2)
    assert out.get("each").tolist() == [[payload] * 2] * 2
    for suffix in ("npz", "safetensors"):
        if suffix == "safetensors" and isinstance(payload, str) and "\ud800" in payload:
            continue
        td.save(tmp_path / f"td.{suffix}")
        again = TensorDict.load(tmp_path / f"td.{suffix}")
        assert again["one"] == payload
        assert again.get("each").tolist() == [[payload] * 2] * 2


def test_dates_are_told_the_way_out(tmp_path):
    stamps = np.array(["2026-01-01", "2026-01-02"], "datetime64[ns]")
    td = TensorDict(stamp=stamps, batch_size=[2])
    for write in (lambda: td.memmap(tmp_path / "td"), lambda: td.save(tmp_path / "td.npz")):
        raises(TypeError, r"datetime64.*dates.astype\(np.int64\) is an array", write)


@each_case("payload", [b"bytes", {1: 2}, object, np.arange(2), 1j, {"a": b"x"}], ids=repr)
def test_objects_that_need_a_pickle(payload, tmp_path):
    td = TensorDict({"n": {"bad": NonTensorData(payload)}})
    for write in (td.memmap, lambda path: td.save(f"{path}.tdz")):
        raises(TypeError, r"'bad'.*allow_pickle=True \(the default is False\)", write, tmp_path / "td")
    assert not list(tmp_path.iterdir())
    td.memmap(tmp_path / "td", allow_pickle=True)
    raises(RuntimeError, "allow_pickle=True", lambda: TensorDict.load_memmap(tmp_path / "td"))
    out = TensorDict.load_memmap(tmp_path / "td", allow_pickle=True)
    np.testing.assert_array_equal(out["n", "bad"], payload)
    TensorDict({"n": {"bad": "now text"}}).memmap(tmp_path / "td")
    assert TensorDict.load_memmap(tmp_path / "td")["n", "bad"] == "now text"
    assert not list((tmp_path / "td").rglob("*pickle*"))


def test_a_stack_that_needs_a_pickle(tmp_path):
    td = TensorDict({"r": NonTensorStack(b"x", b"y")}, [2])
    td.memmap(tmp_path / "td", allow_pickle=True)
    assert TensorDict.load_memmap(tmp_path / "td", allow_pickle=True)["r"] == [b"x", b"y"]
    TensorDict({"r": ["a", "b"]}, [2]).memmap(tmp_path / "td")
    assert TensorDict.load_memmap(tmp_path / "td")["r"] == ["a", "b"]
    assert not list((tmp_path / "td").rglob("*.pkl"))


@each_case("kind", ["torch", "pickle 2", "pickle 5"])
def test_a_pickle_is_refused_with_the_way_out(kind, tmp_path):
    """As torch.save writes files, now and before 1.6; `tests/parity` has torch's own."""
    path = tmp_path / "weights.pt"
    if kind == "torch":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("weights/data.pkl", pickle.dumps({}))
            archive.writestr("weights/data/0", bytes(100))
    else:
        path.write_bytes(pickle.dumps({"weight": 1}, protocol=int(kind[-1])))
    wanted = "It is a pickle.*can run any code.*safetensors.torch.save_file.*memmap"
    raises(ValueError, f"{re.escape(str(path))}.*{wanted}", lambda: TensorDict.load(path))
    raises(ValueError, f"{re.escape(str(path))}.*{wanted}", lambda: nn.load_safetensors(path))


@each_case("content", [b"", b"PK", b"PK\3\4 text", b"\x80", b"\x93NUMPY", b"data.pkl"])
def test_other_files_are_no_pickles(content, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"zip file with a meta\.json") as error:
        TensorDict.load(path)
    assert "It is a pickle" not in str(error.value)
