"""Files that are well formed and say something else than what was written: refused, or read as they are."""

import io
import json
import math
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lite
from lite import TensorDict

hostile = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


REFUSED = (ValueError, FileNotFoundError)


VALUES = [
    None, True, -1, 0, 3, 2**40, 2**62, 2**64, 10**30, 1.5, math.nan, math.inf, "", "..", "../x",
    "/etc/passwd", "a", "meta.json", "pickle.pkl", "torch.int8", "torch.bool", "\ud800", [], {}, [[]], [-1],
    [2**40], [2**31, 2**31], [0, 2**61], ["a"], [1] * 70, "x" * 300, {"type": "TensorDict"},
    {"dtype": "torch.int8", "shape": [3]}, {"dtype": "torch.int8", "shape": [2**61, 0]},
    {"names": None, "entries": []}, [{"shape": [10**12, 0], "items": []}], [{"count": 10**9}],
    [{"count": -1}],
]  # fmt: skip


KEYS = [
    "x", "..", "/etc/passwd", "shape", "device", "_type", "_lite", "data", "stack_dim", "cls", "size",
    "leaves",
]  # fmt: skip


def sample() -> TensorDict:
    return TensorDict(
        {
            "a": np.arange(6.0).reshape(3, 2),
            "n": {"b": np.arange(3, dtype=np.int8), "s": "text", "t": (1, {2})},
            "r": ["x", "y", "z"],
            "rr": [["x", (1,)], ["y", "q"], ["z", None]],
            "lazy": lite.lazy_stack([TensorDict(q=np.arange(i + 1)) for i in range(3)]),
            "shape": np.ones(3),
            "none": np.zeros((3, 0)),
        },
        [3],
        names=["t"],
    )


def changed(value: Any, data: st.DataObject) -> Any:
    """A JSON value with one thing replaced, added, removed or renamed somewhere."""
    draw = data.draw
    if not isinstance(value, list | dict) or not value or draw(st.integers(0, 3)) == 0:
        if isinstance(value, dict) and draw(st.booleans()):
            return {**value, draw(st.sampled_from(KEYS)): draw(st.sampled_from(VALUES))}
        return draw(st.sampled_from(VALUES))
    how = draw(st.sampled_from(["deeper"] * 4 + ["drop", "move"]))
    at = draw(st.sampled_from(sorted(value) if isinstance(value, dict) else range(len(value))))
    if isinstance(value, list):
        rest = value[:at], value[at + 1 :]
        return rest[0] + rest[1] if how != "deeper" else [*rest[0], changed(value[at], data), *rest[1]]
    if how == "deeper":
        return {**value, at: changed(value[at], data)}
    rest = {key: item for key, item in value.items() if key != at}
    return rest if how == "drop" else {**rest, draw(st.sampled_from(KEYS)): value[at]}


def changed_text(text: bytes, data: st.DataObject) -> bytes:
    return json.dumps(changed(json.loads(text), data)).encode()


def touch(found: Any) -> None:
    """Reach every byte."""
    if isinstance(found, np.ndarray):
        found.tobytes()
    elif lite.is_non_tensor(found):
        found.tolist()
    else:
        for part in getattr(found, "tensordicts", None) or [found.get(key) for key in found.keys()]:  # noqa: SIM118
            touch(part)
        repr(found)


def reads_or_refuses(root: Path, read: Callable[[], Any]) -> None:
    def content() -> dict[str, bytes | None]:
        return {str(p): None if p.is_dir() else p.read_bytes() for p in sorted(root.rglob("*"))}

    before = content()
    with suppress(*REFUSED):
        touch(read())
    assert content() == before


NAMES = ["../x", "/abs", "n/../../y", "a.memmap", "meta.json", "%commit/meta.json", "x" * 300, "\\..\\z", "n"]


@pytest.mark.processes
@hostile
@given(data=st.data())
def test_unpacking_is_all_or_nothing(data, tmp_path_factory):
    root = tmp_path_factory.mktemp("hostile")
    path = root / "td.tdz"
    sample().save(path)
    if data.draw(st.booleans()):
        rezipped(path, lambda name, text: text, data, data.draw(st.sampled_from(NAMES)))
    else:
        old = path.read_bytes()
        at = data.draw(st.integers(0, len(old) - 1))
        path.write_bytes(old[:at] + data.draw(st.binary(min_size=1, max_size=4)) + old[at + 4 :])
    try:
        lite.unpack_memmap(path, root / "out")
    except ValueError:
        assert [p.name for p in root.iterdir()] == ["td.tdz"]
    else:
        assert sorted(p.name for p in root.iterdir()) == ["out", "td.tdz"]


def rezipped(
    path: Path, change: Callable[[str, bytes], bytes], data: st.DataObject, name: str | None = None
) -> None:
    """Write an archive again with one entry changed, and renamed if a name is given."""
    out = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(out, "w") as new:
        chosen = data.draw(st.sampled_from(old.namelist()))
        for entry in old.namelist():
            content = old.read(entry)
            if entry != chosen:
                new.writestr(entry, content)
            elif name not in old.namelist():
                new.writestr(name or entry, change(entry, content))
    path.write_bytes(out.getvalue())


SHAPES = [b"9999999999,", b"-1,", b"2**62,", b"", b"3, 2000000", b"()", b"3, (", b"'x',"]


def folder(root: Path, data: st.DataObject) -> Callable[[], Any]:
    sample().memmap(root / "td")
    for path in data.draw(
        st.lists(st.sampled_from(sorted((root / "td").rglob("*.json"))), min_size=1, max_size=3)
    ):
        path.write_bytes(changed_text(path.read_bytes(), data))
    return lambda: TensorDict.load_memmap(root / "td")


def archive(root: Path, data: st.DataObject) -> Callable[[], Any]:
    path = root / "td.tdz"
    sample().save(path, compression=data.draw(st.sampled_from([None, "deflate", "lzma"])))
    rezipped(path, lambda name, text: changed_text(text, data) if name.endswith("json") else text[1:], data)
    return lambda: TensorDict.load_memmap(path)


def consolidated(root: Path, data: st.DataObject) -> Callable[[], Any]:
    sample().consolidate(root / "td")
    content = (root / "td").read_bytes()
    (length,) = struct.unpack("<q", content[-8:])
    text = changed_text(content[-8 - length : -8], data)
    (root / "td").write_bytes(content[: -8 - length] + text + struct.pack("<q", len(text)))
    return lambda: lite.from_consolidated(root / "td")


def safetensors(root: Path, data: st.DataObject) -> Callable[[], Any]:
    path = root / "td.safetensors"
    sample().save(path)
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    if data.draw(st.booleans()):
        header["__metadata__"]["lite"] = changed_text(header["__metadata__"]["lite"].encode(), data).decode()
    else:
        header = changed(header, data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])
    return lambda: TensorDict.load(path)


def npz(root: Path, data: st.DataObject) -> Callable[[], Any]:
    path = root / "td.npz"
    sample().save(path)

    def change(name: str, content: bytes) -> bytes:
        if name == "%lite.npy":
            start = content.index(b"\n") + 1
            out = io.BytesIO()
            np.save(out, np.frombuffer(changed_text(content[start:], data), np.uint8))
            return out.getvalue()
        head, rest = content.split(b"'shape': (", 1)
        return head + b"'shape': (" + data.draw(st.sampled_from(SHAPES)) + rest[rest.index(b")") :]

    rezipped(path, change, data)
    return lambda: TensorDict.load(path)


# Each writes the sample, changes what describes it, and gives what reads it.
CHANGES = [folder, archive, consolidated, safetensors, npz]


@pytest.mark.depth
@pytest.mark.parametrize("change", CHANGES)
@hostile
@given(data=st.data())
def test_changed_descriptions(change, data, tmp_path_factory):
    root = tmp_path_factory.mktemp("hostile")
    reads_or_refuses(root, change(root, data))


@contextmanager
def little_memory() -> Iterator[None]:
    """What the process has, and 96 MB."""
    resource = pytest.importorskip("resource")
    status = Path("/proc/self/statm")
    if not status.exists():
        pytest.skip("needs /proc")
    size = int(status.read_text(encoding="utf-8").split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + (96 << 20), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_a_description_that_needs_much_memory(tmp_path):
    """What a file claims is checked against its size before anything is allocated."""
    root = tmp_path / "td"
    TensorDict({"a": np.arange(3)}, [3]).memmap(root)
    for shape in ([2**40], [2**31, 2**31], [2**20, 2**20, 3]):
        member = {"dtype": "torch.int64", "shape": shape}
        node = {**json.loads((root / "meta.json").read_text()), "a": member, "shape": []}
        (root / "meta.json").write_text(json.dumps(node))
        with little_memory(), pytest.raises(ValueError, match="has 24 bytes, expected"):
            TensorDict.load_memmap(root)


def test_a_small_archive_that_unpacks_to_much(tmp_path):
    """The size that it says is a lie, too."""
    path, size = tmp_path / "td.tdz", 112 << 20
    TensorDict({"a": np.arange(3)}, [3]).save(path)
    with zipfile.ZipFile(path) as old:
        meta = {"meta.json": old.read("meta.json")}
    for kind, name, content, others in (
        (zipfile.ZIP_BZIP2, "a.memmap", bytes(size), meta),
        (zipfile.ZIP_LZMA, "a.memmap", bytes(size), meta),
        (zipfile.ZIP_DEFLATED, "meta.json", b"[" + b"[]," * 6_000_000 + b"0]", {}),
        (zipfile.ZIP_STORED, "n" + "/n" * 30_000, b"x", meta),  # each folder of it has a name of its own
    ):
        with zipfile.ZipFile(path, "w") as archive:
            for other, text in others.items():
                archive.writestr(other, text)
            archive.writestr(name, content, kind)
        whole = path.read_bytes()
        for written in (whole, whole.replace(struct.pack("<I", size), struct.pack("<I", 24))):
            path.write_bytes(written)
            with little_memory():
                raises(REFUSED, r"td\.tdz", TensorDict.load, path)
                if kind == zipfile.ZIP_BZIP2 and written is not whole:
                    with pytest.raises(ValueError, match="damaged or encrypted: Bad CRC-32"):
                        lite.unpack_memmap(path, tmp_path / "out")
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("a.npy", bytes(size))
    with little_memory(), pytest.raises(ValueError, match=r"a\.npz is damaged or foreign: 'a.npy' is packed"):
        TensorDict.load(tmp_path / "a.npz")
