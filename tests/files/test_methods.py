"""The methods that write and read files, on every kind of container."""

import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import TensorClass, TensorDict, lazy_stack
from lite._tree.methods import resolved

METHODS = [
    "consolidate", "dumps", "from_consolidated", "from_h5", "is_consolidated", "is_memmap", "load", "load_",
    "load_memmap", "load_memmap_", "make_memmap", "make_memmap_from_tensor", "memmap", "memmap_",
    "memmap_like", "memmap_refresh_", "save", "saved_path", "to_h5",
]  # fmt: skip


class Point(TensorClass):
    x: np.ndarray


def kinds() -> list:
    row = TensorDict({"x": np.ones(2)}, [2])
    return [row, lazy_stack([row, row.clone()]), Point(x=np.ones(2), batch_size=[2])]


@each_case("name", METHODS)
def test_every_kind_has_them(name: str) -> None:
    own = [type(resolved(inspect.getattr_static(type(td), name))) for td in kinds()]
    if name == "from_consolidated":  # of a tensorclass gives an instance of it
        assert own.pop() is classmethod
    assert set(own) == {own[0]}


@each_case("kind", range(3))
def test_saved_loaded_refreshed(kind: int, tmp_path: Path) -> None:
    td = kinds()[kind]
    mapped = td.save(tmp_path / "td")
    assert (td.is_memmap(), mapped.is_memmap()) == (False, True)
    assert Path(mapped.saved_path) == tmp_path / ("td/_tensordict" if kind == 2 else "td")
    loaded = type(td).load(tmp_path / "td")
    assert type(loaded) is type(td)
    mapped[0] = mapped[0] + 6
    np.testing.assert_array_equal(loaded.get("x"), mapped.get("x"))
    assert loaded.memmap_refresh_() is loaded
    assert td.load_(tmp_path / "td") is td
    np.testing.assert_array_equal(td.get("x")[0], kinds()[kind].get("x")[0] + 6)
    with pytest.raises(AttributeError, match="saved"):
        _ = kinds()[kind].saved_path
    raises(RuntimeError, "not memory mapped", lambda: kinds()[kind].memmap_refresh_())


def test_formats_are_imported_when_they_are_called() -> None:
    script = (
        "import sys, lite; print([name for name in ('json', 'lite._files.folder') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "[]"
