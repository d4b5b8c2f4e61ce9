"""Damaged files: each format notices what the table of the guide on files says, and nothing else happens."""

import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

import lite
from lite import TensorDict
from lite.data import LazyTensorStorage, TensorDictReplayBuffer


def tree() -> TensorDict:
    texts = [f"{i}" for i in range(60)]
    return TensorDict({"a": np.arange(60.0), "n": {"b": np.arange(60, dtype=np.int16)}, "s": texts}, [60])


def _buffer(at: Path) -> None:
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(60), batch_size=2)
    buffer.extend(tree().exclude("s"))
    buffer.dumps(at, checksums=True)


def _load_buffer(at: Path) -> Any:
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(60), batch_size=2)
    buffer.loads(at, verify=True)
    return buffer[:].exclude("index")


def read(td: Any) -> Any:
    """All that can be read of a result, so that what fails late fails here."""
    return td.to_dict(convert_tensors=True)


# format: (write, read, the files that are damaged, what the table says: the damage is always noticed)
FORMATS: dict[str, tuple[Any, Any, str, bool]] = {
    "folder, meta.json": (lambda at: tree().memmap(at), TensorDict.load_memmap, "meta.json", True),
    "folder, arrays": (lambda at: tree().memmap(at), TensorDict.load_memmap, "*.memmap", False),
    "folder, verify=True": (lambda at: tree().memmap(at, checksums=True),
        lambda at: TensorDict.load_memmap(at, verify=True), "*", True),
    "archive": (lambda at: tree().save(at / "td.tdz"), lambda at: TensorDict.load(at / "td.tdz"), "*",
        True),
    "archive, mapped": (lambda at: tree().save(at / "td.tdz"),
        lambda at: TensorDict.load_memmap(at / "td.tdz"), "*", False),
    "npz": (lambda at: tree().save(at / "td.npz"), lambda at: TensorDict.load(at / "td.npz"), "*", True),
    "safetensors": (lambda at: tree().save(at / "td.safetensors"),
        lambda at: TensorDict.load(at / "td.safetensors"), "*", False),
    "buffer, verify=True": (_buffer, _load_buffer, "storage/**/*", True),
}  # fmt: skip


def damage(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    kind = rng.choice(["flip", "flip", "flip", "cut", "remove"])
    if kind == "remove":
        path.unlink()
    elif kind == "cut":
        path.write_bytes(data[: rng.randrange(len(data))])
    else:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)


@pytest.mark.parametrize("cases", [16, pytest.param(60, marks=pytest.mark.depth)])
@each_case("name", FORMATS)
def test_damage_is_noticed(name: str, cases: int, tmp_path: Path) -> None:
    write, load, pattern, always = FORMATS[name]
    whole, at = tmp_path / "whole", tmp_path / "damaged"
    whole.mkdir()
    write(whole)
    wanted = read(load(whole))
    rng = random.Random(0)
    found: Counter[str] = Counter()
    for _ in range(cases):
        shutil.copytree(whole, at)
        files = sorted(path for path in at.rglob(pattern) if path.is_file() and path.stat().st_size)
        damage(rng.choice(files), rng)
        try:
            found["same" if read(load(at)) == wanted else "other values"] += 1
        except (ValueError, OSError, RuntimeError, KeyError, TypeError):
            found["error"] += 1
        shutil.rmtree(at)
    assert found["error"] > cases // 4
    if always:
        assert found["other values"] == 0, found
    else:
        assert found["other values"] > 0, found  # else the table promises too little


def test_an_array_without_an_entry(tmp_path: Path) -> None:
    td = tree().memmap(tmp_path / "td")
    shutil.copy(tmp_path / "td" / "a.memmap", tmp_path / "td" / "c.memmap")
    raises(ValueError, r"no entries for \['c.memmap'\]", lambda: TensorDict.load_memmap(tmp_path / "td"))
    (tmp_path / "td" / "c.memmap").unlink()
    td.clone().exclude("a").memmap(tmp_path / "td")
    assert not (tmp_path / "td" / "a.memmap").exists()
    assert "a" not in TensorDict.load_memmap(tmp_path / "td")


def test_verify_needs_checksums(tmp_path: Path) -> None:
    tree().memmap(tmp_path / "td")
    with pytest.raises(
        ValueError, match=r"no checksum of the entry 'a'; verify=True needs what checksums=True"
    ):
        lite.load_memmap(tmp_path / "td", verify=True)
    mapped = tree().memmap(tmp_path / "td", checksums=True)
    mapped["a"][0] = 7
    raises(ValueError, "written in place since", lambda: TensorDict.load_memmap(tmp_path / "td", verify=True))
