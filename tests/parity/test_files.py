"""What lite writes tensordict loads, and the reverse; random trees among it."""

import datetime
import json
import os
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import tensordict
import torch
from helpers.cases import raises
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from parity.files import DTYPES, ODD_KEYS, plain, tensor, without_version

import lite

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of the reference
    pytest.mark.usefixtures("stdlib_json"),
]


def test_byte_for_byte(folder):
    pytest.importorskip("orjson")
    tensordict.utils.set_json_backend("orjson")
    here, there = folder(), folder()
    for library, leaf, at in ((lite, np.asarray, here), (tensordict, torch.as_tensor, there)):
        rows = [library.TensorDict({"x": leaf(np.arange(i + 1.0))}) for i in range(3)]
        td = library.TensorDict(
            {
                "é b": leaf(np.arange(6).reshape(3, 2)),
                "n": {"0": leaf(np.ones((3, 0), np.int8)), "m": {}},
                "s": "日本\n",
                "r": [["a", "b"], ["c", "d"], ["e", None]],
                "lazy": library.lazy_stack(rows),
            },
            [3],
        )
        td.memmap(at)
    mine, other = (
        {p.relative_to(at): without_version(p.read_bytes()) for p in Path(at).rglob("*") if p.is_file()}
        for at in (here, there)
    )
    assert len(mine) == 13
    # lite's checksum follows, as white space.
    mine = {path: data.rstrip() if path.name == "meta.json" else data for path, data in mine.items()}
    # tensordict keeps a lazy stack's fields in another order.
    lazy = Path("lazy/meta.json")
    assert json.loads(mine.pop(lazy)) == json.loads(other.pop(lazy))
    if tensordict.__version__ >= "0.15":  # which writes the members of objects in another order
        for files in (mine, other):
            files |= {path: json.loads(data) for path, data in files.items() if path.name == "meta.json"}
    assert mine == other


def test_bfloat16(folder):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.array([1.5, -2.0, np.inf], ml_dtypes.bfloat16)
    here, there = folder(), folder()
    lite.TensorDict({"x": array}).memmap(here)
    tensordict.TensorDict({"x": torch.tensor([1.5, -2.0, np.inf], dtype=torch.bfloat16)}).memmap(there)
    for path in (here, there):
        np.testing.assert_array_equal(lite.TensorDict.load_memmap(path)["x"], array)
        assert tensordict.TensorDict.load_memmap(path)["x"].tolist() == [1.5, -2.0, np.inf]


def test_reserved_keys_are_lites_alone(folder):
    data = {
        "shape": np.arange(3), "a": np.ones(3), "device": {"x": np.zeros(3)}, "_type": "text",
        "_lite": np.ones(3),
    }  # fmt: skip
    at = folder()
    td = lite.TensorDict(data, [3])
    td.memmap(at)
    assert plain(lite.TensorDict.load_memmap(at)) == plain(td)
    assert list(lite.TensorDict.load_memmap(at).keys()) == list(data)
    theirs = tensordict.TensorDict.load_memmap(at)
    assert sorted(theirs.keys()) == ["_lite", "a"]
    assert theirs.batch_size == (3,)


def test_old_file_names(folder):
    """Files whose names are the keys themselves, as versions before 0.11 wrote them."""
    at = folder()
    td = tensordict.TensorDict({"a b": torch.arange(3), "n>m": {"x y": torch.ones(3)}}, [3])
    td.memmap(at, robust_key=False)
    assert os.path.exists(f"{at}/a b.memmap")
    assert plain(lite.TensorDict.load_memmap(at)) == plain(td)


@pytest.mark.parametrize("backend", ["json", "orjson"])
def test_both_json_writers(backend, folder):
    pytest.importorskip(backend)
    tensordict.utils.set_json_backend(backend)
    at = folder()
    td = tensordict.TensorDict(
        {"é": torch.arange(3), "s": ["日本", None, 1.5], "n": {"x": torch.ones(3)}}, [3]
    )
    td.memmap(at)
    assert plain(lite.TensorDict.load_memmap(at)) == plain(td)


def test_tuples_sets_and_tensorclasses(folder):
    at = folder()
    td = lite.TensorDict({"t": (1, ("x", [2])), "s": lite.NonTensorData({3, 4}), "a": np.ones(2)})
    td.memmap(at)
    assert lite.TensorDict.load_memmap(at)["t"] == (1, ("x", [2]))
    assert lite.TensorDict.load_memmap(at)["s"] == {3, 4}
    theirs = tensordict.TensorDict.load_memmap(at)
    assert (theirs["t"], theirs["s"]) == ([1, ["x", [2]]], [3, 4])


@tensordict.tensorclass
class Step:
    obs: torch.Tensor
    label: str
    missing: str | None = None


def test_a_tensorclass_that_is_not_known(folder):
    at = folder()
    td = tensordict.TensorDict(
        {"step": Step(torch.arange(6.0).reshape(3, 2), "x", batch_size=[3])}, batch_size=[3]
    )
    td.memmap(at)
    found = lite.TensorDict.load_memmap(at)["step"]
    assert type(found) is lite.TensorDict
    np.testing.assert_array_equal(found["obs"], np.arange(6.0, dtype=np.float32).reshape(3, 2))
    assert found["label"] == "x"
    assert found.batch_size == (3,)


def test_pickles_need_consent_both_ways(folder):
    here, there = folder(), folder()
    lite.TensorDict({"x": b"raw", "r": lite.NonTensorStack({1: 2}, b"y")}).memmap(here, allow_pickle=True)
    theirs = tensordict.TensorDict({}, [])
    theirs.set_non_tensor("x", b"raw")
    theirs.set("r", tensordict.NonTensorStack({1: 2}, b"y"))
    theirs.memmap(there)
    for path in (here, there):
        raises(RuntimeError, r"allow_pickle=True \(the default is False\)", lite.TensorDict.load_memmap, path)
        for library in (lite, tensordict):
            found = library.TensorDict.load_memmap(path, allow_pickle=True)
            assert found["x"] == b"raw"
            assert found.get("r").tolist() == [{1: 2}, b"y"]


@pytest.mark.parametrize("in_a_zip", [True, False])
def test_files_of_torch_save_are_refused_with_the_way_out(in_a_zip, folder):
    path = folder(".pt")
    weights = torch.nn.Linear(2, 1).state_dict()
    torch.save(weights, path, _use_new_zipfile_serialization=in_a_zip)
    raises(ValueError, "pickle", lite.TensorDict.load, path)
    at = folder()
    tensordict.TensorDict(torch.load(path, weights_only=True)).memmap(at)  # what the error says
    np.testing.assert_array_equal(lite.load_memmap(at)["weight"], weights["weight"])


def test_archive_alignment_and_plain_zip(folder):
    import zipfile

    from lite._files.archive import payload_offset

    td = lite.TensorDict({"a": np.arange(5), "n": {"bb": np.ones(3), "s": "x"}})
    at, packed = folder(), folder(".tdz")
    td.memmap(at)
    lite.pack_memmap(at, packed)
    with zipfile.ZipFile(packed) as archive, open(packed, "rb") as file:
        assert archive.testzip() is None
        assert archive.namelist() == ["meta.json", "a.memmap", "n/meta.json", "n/bb.memmap", "n/s/meta.json"]
        for info in archive.infolist():
            if info.filename.endswith(".memmap"):
                assert payload_offset(file, info, packed) % 64 == 0
    theirs = folder(".tdz")
    tensordict.pack_memmap(at, theirs)
    with zipfile.ZipFile(packed) as ours, zipfile.ZipFile(theirs) as other:
        assert ours.namelist() == other.namelist()
        assert [i.header_offset for i in ours.infolist()] == [i.header_offset for i in other.infolist()]
    foreign = folder(".zip")
    with zipfile.ZipFile(foreign, "w") as archive:
        for name in ("meta.json", "a.memmap", "n/meta.json", "n/bb.memmap", "n/s/meta.json"):
            archive.write(f"{at}/{name}", name)
    assert plain(lite.TensorDict.load_memmap(foreign)) == plain(td)
    assert plain(tensordict.TensorDict.load_memmap(foreign)) == plain(td)


def test_writes_reach_the_other_library(folder):
    at = folder()
    td = tensordict.TensorDict({"a": torch.zeros(3)}, [3]).memmap(at)
    lite.TensorDict.load_memmap(at)["a"][1] = 5
    assert td["a"].tolist() == [0, 5, 0]


def test_make_memmap_is_seen(folder):
    at = folder()
    td = lite.TensorDict({"a": np.zeros(3)}, [3]).memmap(at)
    td.make_memmap(("n", "m", "b"), (3, 2), dtype=np.int16)[...] = 4
    td.make_memmap_from_tensor("shape", np.arange(3))
    found = tensordict.TensorDict.load_memmap(at)
    assert found["n", "m", "b"].tolist() == [[4, 4]] * 3
    assert lite.TensorDict.load_memmap(at)["shape"].tolist() == [0, 1, 2]
    theirs = tensordict.TensorDict({"a": torch.zeros(3)}, [3]).memmap(folder())
    mine = lite.TensorDict.load_memmap(theirs.saved_path)
    theirs.make_memmap("late", (3,), dtype=torch.int32)
    assert "late" not in mine
    mine.memmap_refresh_()
    assert mine["late"].dtype == np.int32


def test_h5_both_ways(folder):
    here, there = folder(), folder()
    data = {"a": np.arange(6).reshape(3, 2), "n": {"b": np.ones(3, np.float32)}}
    lite.TensorDict({**data, "s": "text"}, [3]).to_h5(here)
    tensordict.TensorDict({"a": tensor(data["a"]), "n": {"b": tensor(data["n"]["b"])}}, [3]).to_h5(there)
    found = tensordict.TensorDict.from_h5(here, batch_size=[3])
    np.testing.assert_array_equal(found["a"].numpy(), data["a"])
    np.testing.assert_array_equal(found["n", "b"].numpy(), data["n"]["b"])
    theirs, mine = tensordict.TensorDict.from_h5(there), lite.TensorDict.from_h5(there)
    assert (mine.batch_size, mine["n"].batch_size) == (theirs.batch_size, theirs["n"].batch_size)
    mine = lite.TensorDict.from_h5(there, batch_size=[3])
    np.testing.assert_array_equal(mine["n", "b"], data["n"]["b"])
    assert mine.batch_size == (3,)
    assert lite.TensorDict.from_h5(here).batch_size == (3,)


def test_parquet_of_others(folder):
    moment = datetime.datetime(1970, 1, 2)
    columns = {
        "float": [1.5, None, 2.5], "int": [1, None, 3], "flag": [True, None, False],
        "list": [[0, 1], [2, 3], [4, 5]], "nested": [[[0], [1]]] * 3, "time": [moment, None, moment],
    }  # fmt: skip
    path = folder(".parquet")
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    found, mine = tensordict.TensorDict.from_parquet(path), lite.TensorDict.from_parquet(path)
    for key in columns:
        theirs = found[key]
        assert isinstance(theirs, torch.Tensor) == isinstance(mine[key], np.ndarray), key
        if isinstance(theirs, torch.Tensor):
            np.testing.assert_array_equal(mine[key], theirs.numpy(), strict=True)


def test_a_file_with_more_than_its_array(folder):
    """tensordict writes a small array into the file of a large one and leaves the rest as it was."""
    path = folder()
    tensordict.TensorDict({"x": torch.arange(10)}).memmap(path)
    tensordict.TensorDict({"x": torch.arange(3) + 5}).memmap(path)
    assert os.path.getsize(f"{path}/x.memmap") == 80
    for library in (lite, tensordict):
        td = library.TensorDict.load_memmap(path)
        assert td["x"].tolist() == [5, 6, 7]
        td["x"][0] += 1
        td["x"][0] -= 1


scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(max_size=4)
payloads = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=3,
)
keys = st.sampled_from(["a", "b", "c", *ODD_KEYS]) | st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5
)
FIELDS = {"shape", "device", "_type"}


@st.composite
def trees(draw, size=None, depth=2):
    """("dense", batch size, entries) or ("lazy", dim, parts)."""
    if size is None:
        size = draw(st.sampled_from([(), (2,), (0,), (3, 1)]))
    if depth < 2 and draw(st.integers(0, 4)) == 0 and size and size[0]:
        return "lazy", 0, [draw(trees(size[1:], 0)) for _ in range(size[0])]
    entries = {}
    for key in draw(st.lists(keys.filter(lambda key: key not in FIELDS), max_size=4, unique=True)):
        kind = draw(st.sampled_from(["leaf", "leaf", "leaf", "node", "data", "stack"]))
        if kind == "node" and depth:
            entries[key] = draw(trees(size, depth - 1))
        elif kind == "data":
            entries[key] = ("data", draw(payloads))
        elif kind == "stack" and size and np.prod(size):
            n = int(np.prod(size))
            rows = draw(st.lists(st.text(max_size=3) | st.integers(), min_size=n, max_size=n))
            entries[key] = ("stack", np.array(rows, object).reshape(size).tolist())
        else:
            dtype = draw(st.sampled_from(DTYPES))
            shape = (*size, *draw(st.lists(st.integers(0, 3), max_size=2)))
            raw = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 2, shape)
            entries[key] = np.asarray(raw if dtype == "bool" else raw * 3 - 1).astype(dtype)
    return "dense", size, entries


def build(tree, library, leaf):
    kind, size, content = tree
    if kind == "lazy":
        parts = [build(part, library, leaf) for part in content]
        return library.LazyStackedTensorDict(*parts, stack_dim=size)
    out = library.TensorDict({}, size)
    for key, value in content.items():
        if isinstance(value, np.ndarray):
            out.set(key, leaf(value))
        elif value[0] == "data":
            out.set(key, library.NonTensorData(value[1], batch_size=size))
        elif value[0] == "stack":
            out.set(key, library.NonTensorStack.from_list(value[1]))
        else:
            out.set(key, build(value, library, leaf))
    return out


def collides(tree):
    """Whether files of this tree would share a name, which tensordict does not notice."""
    kind, _, content = tree
    if kind == "lazy":
        return any(collides(part) for part in content)
    nodes = {key for key, value in content.items() if isinstance(value, tuple)}
    leaves = {f"{key}.memmap" for key in content.keys() - nodes}
    return bool("meta.json" in nodes or nodes & leaves) or any(
        collides(value)
        for value in content.values()
        if isinstance(value, tuple) and value[0] in ("dense", "lazy")
    )


settings.register_profile(
    "files", max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
files = settings(settings.get_profile("files"))


@files
@given(tree=trees())
def test_lite_to_tensordict(tree, folder):
    td, at = build(tree, lite, lambda x: x), folder()
    if collides(tree):
        raises(ValueError, "share the file name", td.memmap, at)
        assert not os.path.exists(at)
        return
    expected = plain(td)
    assert plain(td.memmap(at)) == expected
    assert plain(lite.TensorDict.load_memmap(at)) == expected
    assert plain(tensordict.TensorDict.load_memmap(at)) == expected


@files
@given(tree=trees())
def test_tensordict_to_lite(tree, folder):
    if collides(tree):
        return
    td, at = build(tree, tensordict, tensor), folder()
    expected = plain(td)
    td.memmap(at)
    assert plain(lite.TensorDict.load_memmap(at)) == expected
    with open(f"{at}/meta.json", "rb") as theirs:
        again = folder()
        lite.TensorDict.load_memmap(at).memmap(again, copy_existing=True)
        with open(f"{again}/meta.json", "rb") as ours:
            assert json.loads(ours.read()) == json.loads(without_version(theirs.read()))


@files
@given(tree=trees(), compression=st.sampled_from([None, "deflate", "bzip2", "lzma"]))
def test_archives_both_ways(tree, compression, folder):
    if collides(tree):
        return
    ours, theirs = build(tree, lite, lambda x: x), build(tree, tensordict, tensor)
    expected = plain(theirs)
    here, there = folder(".tdz"), folder(".tdz")
    ours.save(here, compression=compression)
    theirs.save(there, compression=compression)
    for path in (here, there):
        assert plain(lite.TensorDict.load_memmap(path)) == expected
        assert plain(tensordict.TensorDict.load_memmap(path)) == expected


def consolidable(tree):
    kind, _, content = tree
    if kind == "lazy":
        return all(consolidable(part) for part in content)
    if any(isinstance(value, np.ndarray) and value.dtype == complex for value in content.values()):
        return False  # the reference fails where such an array does not start at a multiple of 16
    return all(
        value[0] == "data"
        or (value[0] in ("dense", "lazy") and key not in ("cls", "size") and consolidable(value))
        for key, value in content.items()
        if isinstance(value, tuple)
    )


def unordered(value):
    """Consolidated files list objects before arrays and arrays before nodes."""
    if isinstance(value, dict):
        return {key: unordered(value[key]) for key in sorted(value)}
    return [unordered(item) for item in value] if isinstance(value, list | tuple) else value


def full(tree):
    """Whether every container has an array: the reference drops empty ones."""
    kind, _, content = tree
    if kind == "lazy":
        return all(full(part) for part in content)
    return any(isinstance(v, np.ndarray) and v.size for v in content.values()) and all(
        full(v) for v in content.values() if isinstance(v, tuple) and v[0] in ("dense", "lazy")
    )


@files
@given(tree=trees())
def test_consolidated_both_ways(tree, folder):
    if not (consolidable(tree) and full(tree)):
        return
    ours, theirs = build(tree, lite, lambda x: x), build(tree, tensordict, tensor)
    expected = unordered(plain(theirs))
    here, there = folder(), folder()
    ours.consolidate(here)
    theirs.consolidate(there)
    for path in (here, there):
        assert unordered(plain(lite.from_consolidated(path))) == expected
        assert unordered(plain(tensordict.TensorDict.from_consolidated(path))) == expected
    # Everything but the spaces in the JSON is the same.
    assert parts_of(here) == parts_of(there)


def parts_of(path):
    data = Path(path).read_bytes()
    length = int.from_bytes(data[-8:], "little")
    return data[: -8 - length], json.loads(data[-8 - length : -8], parse_constant=str)
