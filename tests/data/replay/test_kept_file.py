import os
from pathlib import Path

import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict
from lite.data.replay import kept_file
from lite.data.replay.kept_file import KeptFile


def content(count: int, start: int = 0) -> TensorDict:
    step = np.arange(start, start + count)
    return TensorDict({"0": TensorDict({"step": step, "n": {"x": step[:, None] / 3}}, [count])}, [])


def test_what_counts_stays_until_the_next_counts(tmp_path) -> None:
    file = KeptFile(str(tmp_path))
    kept, last = (0, 0), 0
    assert file.read(kept) is None
    for count in (1, 3, 0, 900, 1500, 2):
        new = file.write(content(count), kept)
        if kept[1]:
            assert file.read(kept)["0"].shape == (last,)
        assert (file.read(new) == content(count)).all()
        kept, last = new, count
    kept = file.write(None, kept)
    assert file.read(kept) is None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that takes nothing")
def test_a_full_disk_is_named(tmp_path, monkeypatch) -> None:
    file = KeptFile(str(tmp_path))
    kept = file.write(content(1), (0, 0))
    with open("/dev/full", "wb") as full:
        monkeypatch.setattr(kept_file, "write_all", lambda _, data: os.write(full.fileno(), data))
        raises(OSError, f"No space left on device: '{file.path}'", file.write, content(1), kept)


def test_before_there_are_rows(tmp_path) -> None:
    file = KeptFile(str(tmp_path))
    assert not file.has_first
    assert file.read_first() is None
    file.write_first(content(3))
    assert (file.read_first() == content(3)).all()
    file.write_first(None)
    assert file.has_first
    assert file.read_first() is None
    file.forget_first()
    file.forget_first()
    assert not file.has_first


def test_damaged_files(tmp_path) -> None:
    file = KeptFile(str(tmp_path))
    place, size = file.write(content(3), (0, 0))
    raises(ValueError, "damaged", lambda: file.read((place, 1 << 40)))
    raises(ValueError, "damaged", lambda: file.read((place, size - 1)))
    (tmp_path / "%kept").write_bytes(b"x" * 2 * 4096)
    raises(ValueError, "damaged", lambda: file.read((place, size)))
    (tmp_path / "%first").write_bytes(b"x" * 100)
    raises(ValueError, "damaged", lambda: file.read_first())
