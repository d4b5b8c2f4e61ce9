"""What lite writes tensordict loads, and the reverse."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="needs the parity extra")
tensordict = pytest.importorskip("tensordict", reason="needs the parity extra")

import lite  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of the reference

INTEGERS = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]
DTYPES = ["bool", *INTEGERS, "float16", "float32", "float64", "complex64", "complex128"]
ODD_KEYS = [
    "", ".", "..", "a/b", "a b", "%", "%41", "a.memmap", "meta.json", "é", "日本", "xy:z", "\n",
    "\x7f", "a\\b", "names", "data", "type", "_lite", "0", "_tensordict", "C:x", "COMMIT", "a" * 80,
]  # fmt: skip


def tensor(array: np.ndarray[Any, Any]) -> Any:
    return torch.from_numpy(array.copy())


def bits(value: Any) -> Any:
    if hasattr(value, "numpy"):
        if value.dtype == torch.bfloat16:
            return "bfloat16", tuple(value.shape), value.contiguous().view(torch.uint16).numpy().tobytes()
        value = value.contiguous().numpy()
    return str(value.dtype), value.shape, value.tobytes()


def plain(td: Any) -> Any:
    """Everything that a file keeps in both libraries."""
    if lite.is_non_tensor(td) or tensordict.is_non_tensor(td):
        return "objects", listed(td.tolist())
    if not hasattr(td, "keys"):
        return bits(td)
    parts = getattr(td, "tensordicts", None)
    if parts is not None:
        return "lazy", td.stack_dim, [plain(part) for part in parts]
    return tuple(td.batch_size), {key: plain(td.get(key)) for key in td.keys()}  # noqa: SIM118


def listed(value: Any) -> Any:
    """JSON's view of an object; NaN equal to itself."""
    if isinstance(value, list | tuple):
        return [listed(item) for item in value]
    if isinstance(value, dict):
        return {key: listed(item) for key, item in value.items()}
    return repr(value) if isinstance(value, float) else value


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
def trees(draw: Any, size: tuple[int, ...] | None = None, depth: int = 2) -> Any:
    """("dense", batch size, entries) or ("lazy", dim, parts)."""
    if size is None:
        size = draw(st.sampled_from([(), (2,), (0,), (3, 1)]))
    if depth < 2 and draw(st.integers(0, 4)) == 0 and size and size[0]:
        return "lazy", 0, [draw(trees(size[1:], 0)) for _ in range(size[0])]
    entries: dict[str, Any] = {}
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


def build(tree: Any, library: Any, leaf: Any) -> Any:
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


def collides(tree: Any) -> bool:
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
    "files", max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
files = settings(settings.get_profile("files"))


@pytest.fixture(autouse=True)
def stdlib_json() -> Any:
    """orjson writes NaN as null and refuses large integers."""
    tensordict.utils.set_json_backend("json")
    yield
    tensordict.utils.set_json_backend("orjson" if importlib.util.find_spec("orjson") else "json")


@pytest.fixture
def folder(tmp_path: Path) -> Any:
    """A new place at each call: hypothesis runs the function many times in one fixture."""
    counter = iter(range(10**6))
    return lambda suffix="": str(tmp_path / f"td{next(counter)}{suffix}")


@files
@given(tree=trees())
def test_lite_to_tensordict(tree, folder):
    td, at = build(tree, lite, lambda x: x), folder()
    if collides(tree):
        with pytest.raises(ValueError, match="share the file name"):
            td.memmap(at)
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
            assert json.loads(ours.read()) == json.loads(theirs.read())


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


def consolidable(tree: Any) -> bool:
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


def unordered(value: Any) -> Any:
    """Consolidated files list objects before arrays and arrays before nodes."""
    if isinstance(value, dict):
        return {key: unordered(value[key]) for key in sorted(value)}
    return [unordered(item) for item in value] if isinstance(value, list | tuple) else value


def full(tree: Any) -> bool:
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


def parts_of(path: str) -> Any:
    data = Path(path).read_bytes()
    length = int.from_bytes(data[-8:], "little")
    return data[: -8 - length], json.loads(data[-8 - length : -8], parse_constant=str)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (3, 0), (0,)])
def test_every_dtype(dtype, shape, folder, rng):
    array = np.frombuffer(rng.bytes(int(np.prod(shape)) * np.dtype(dtype).itemsize), np.uint8)
    array = (array & 1).astype(bool).reshape(shape) if dtype == "bool" else array.view(dtype).reshape(shape)
    here, there = folder(), folder()
    lite.TensorDict({"x": array}).memmap(here)
    tensordict.TensorDict({"x": tensor(array)}).memmap(there)
    for path in (here, there):
        assert bits(lite.TensorDict.load_memmap(path)["x"]) == bits(array)
        assert bits(tensordict.TensorDict.load_memmap(path)["x"]) == bits(array)
    assert content(here) == content(there)


def content(root: str) -> dict[str, Any]:
    """Every file of a tree; JSON without what differs between writers of JSON."""
    paths = [path for path in Path(root).rglob("*") if path.is_file()]
    return {
        str(path.relative_to(root)): json.loads(path.read_bytes())
        if path.suffix == ".json"
        else path.read_bytes()
        for path in paths
    }


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
        {p.relative_to(at): p.read_bytes() for p in Path(at).rglob("*") if p.is_file()}
        for at in (here, there)
    )
    assert len(mine) == 13
    # tensordict keeps a lazy stack's fields in another order.
    lazy = Path("lazy/meta.json")
    assert json.loads(mine.pop(lazy)) == json.loads(other.pop(lazy))
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


@pytest.mark.parametrize("key", ODD_KEYS)
def test_odd_keys(key, folder):
    data = {
        key: np.arange(3),
        "n": {key: np.arange(3) + 1},
        "m": {key: {"x": np.arange(3)}},
        "s": {key: "text"},
    }
    if key == "meta.json":
        data.pop("m"), data.pop("s")  # a folder of that name cannot be
    td, at = lite.TensorDict(data), folder()
    td.memmap(at)
    assert plain(tensordict.TensorDict.load_memmap(at)) == plain(td)
    assert plain(lite.TensorDict.load_memmap(at)) == plain(td)


def test_reserved_keys_are_lites_alone(folder):
    data = {
        "shape": np.arange(3),
        "a": np.ones(3),
        "device": {"x": np.zeros(3)},
        "_type": "text",
        "_lite": np.ones(3),
    }
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
        with pytest.raises(RuntimeError, match=r"allow_pickle=True \(the default is False\)"):
            lite.TensorDict.load_memmap(path)
        for library in (lite, tensordict):
            found = library.TensorDict.load_memmap(path, allow_pickle=True)
            assert found["x"] == b"raw"
            assert found.get("r").tolist() == [{1: 2}, b"y"]


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
    pytest.importorskip("h5py")
    here, there = folder(), folder()
    data = {"a": np.arange(6).reshape(3, 2), "n": {"b": np.ones(3, np.float32)}}
    lite.TensorDict({**data, "s": "text"}, [3]).to_h5(here)
    tensordict.TensorDict({"a": tensor(data["a"]), "n": {"b": tensor(data["n"]["b"])}}, [3]).to_h5(there)
    found = tensordict.TensorDict.from_h5(here, batch_size=[3])
    np.testing.assert_array_equal(found["a"].numpy(), data["a"])
    np.testing.assert_array_equal(found["n", "b"].numpy(), data["n"]["b"])
    mine = lite.TensorDict.from_h5(there, batch_size=[3])
    np.testing.assert_array_equal(mine["n", "b"], data["n"]["b"])
    assert mine.batch_size == (3,)
    assert lite.TensorDict.from_h5(here).batch_size == (3,)
