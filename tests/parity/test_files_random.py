"""Random trees in files: what lite writes tensordict loads, and the reverse."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import tensordict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from parity.files import DTYPES, ODD_KEYS, plain, tensor

import lite

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of the reference
    pytest.mark.usefixtures("stdlib_json"),
]

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
    "files", max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
files = settings(settings.get_profile("files"))


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
