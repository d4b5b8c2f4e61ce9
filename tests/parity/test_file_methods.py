"""Memory-mapped arrays, and what comes back of every kind of entry, beside the reference."""

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensordict
import torch
from helpers.cases import each_case, raises
from helpers.entry_kinds import KINDS, content
from torchrl import data as reference

import lite
from lite import MemoryMappedTensor
from lite import data as lite_data

pytestmark = pytest.mark.filterwarnings("ignore")  # of the reference


# -- MemoryMappedTensor -------------------------------------------------------------------------

THEIRS = tensordict.MemoryMappedTensor


def both(tmp_path, name, *args, **options):
    ours = {**options, "filename": tmp_path / "ours"}
    theirs = {**options, "filename": str(tmp_path / "theirs")}
    if "dtype" in options:
        theirs["dtype"] = getattr(torch, options["dtype"])
    return getattr(MemoryMappedTensor, name)(*args, **ours), getattr(THEIRS, name)(*args, **theirs)


def same(mine, other):
    np.testing.assert_array_equal(mine, other.numpy(), strict=True)


@each_case(
    ("sizes", "dtype"), [((2, 3), "float32"), (((2, 3),), "int64"), (([4],), "bool"), ((0, 3), "uint8")]
)
@each_case("name", ["empty", "zeros", "ones", "full"])
def test_constructors(name, sizes, dtype, tmp_path):
    options = {"fill_value": 1} if name == "full" else {}
    mine, other = both(tmp_path, name, *sizes, dtype=dtype, **options)
    same(mine, other)
    assert (
        Path(mine.filename if mine.size else tmp_path / "ours").exists() == Path(tmp_path / "theirs").exists()
    )
    if mine.size:
        assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
        for cls, path in ((MemoryMappedTensor, "ours"), (THEIRS, "theirs")):
            with pytest.raises(RuntimeError, match="already exists"):
                getattr(cls, name)(*sizes, filename=tmp_path / path, **options)


@each_case("name", ["empty_like", "zeros_like", "ones_like", "full_like"])
def test_like(name, tmp_path):
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    more = (5,) if name == "full_like" else ()
    mine = getattr(MemoryMappedTensor, name)(array, *more, filename=tmp_path / "ours")
    same(mine, getattr(THEIRS, name)(torch.from_numpy(array), *more, filename=tmp_path / "theirs"))


def test_files_of_one_in_the_other(tmp_path):
    array = np.arange(12.0).reshape(3, 4)
    mine = MemoryMappedTensor.from_tensor(array, filename=tmp_path / "ours")
    other = THEIRS.from_tensor(torch.from_numpy(array), filename=tmp_path / "theirs")
    for index in (None, 1, slice(1, 3)):
        for path in ("ours", "theirs"):
            same(
                MemoryMappedTensor.from_filename(tmp_path / path, "float64", (3, 4), index),
                THEIRS.from_filename(tmp_path / path, torch.float64, (3, 4), index),
            )
    mine[0, 0] = other[0, 0] = -1
    for path in ("ours", "theirs"):
        assert np.fromfile(tmp_path / path)[0] == -1


def test_errors_and_identity(tmp_path):
    for cls, values in ((MemoryMappedTensor, np.ones(3)), (THEIRS, torch.ones(3))):
        path = tmp_path / cls.__module__
        x = cls.from_tensor(values, filename=path)
        assert cls.from_tensor(x, filename=path) is x
        raises(RuntimeError, "copy_existing=True", cls.from_tensor, x, filename=tmp_path / "other")
        with pytest.raises(RuntimeError, match="no file associated"):
            cls.from_tensor(values).filename  # noqa: B018
        (tmp_path / "link").symlink_to(path)
        raises(RuntimeError, r"symlink|symbolic link", cls.from_tensor, values, filename=tmp_path / "link")
        (tmp_path / "link").unlink()
        raises(RuntimeError, "Only CPU", cls.ones, 3, device="meta")


def test_pickles_by_place(tmp_path):
    td = tensordict.TensorDict({"a": torch.arange(4000)}, [4000]).memmap(tmp_path / "td")
    mine = lite.TensorDict.load_memmap(tmp_path / "td")
    for source in (td, mine, td[10:20], mine[10:20]):
        data = pickle.dumps(source)
        assert len(data) < 3000
        out = pickle.loads(data)
        out["a"][0] = -7
        assert int(source["a"][0]) == -7


SIDES = {
    "lite": SimpleNamespace(data=lite_data, TensorDict=lite.TensorDict),
    "reference": SimpleNamespace(data=reference, TensorDict=tensordict.TensorDict),
}
Run = Callable[[Any, Any, str], Any]


def _buffer(storage, kind, add=False):
    def run(side, td, path):
        buffer = getattr(side.data, kind)(storage=getattr(side.data, storage)(5), batch_size=1)
        if not add:
            buffer.extend(td)
        else:
            for row in td.unbind(0) if td.ndim else [td]:
                buffer.add(row)
        return buffer[:] if td.ndim or not add else buffer[0]

    return run


def _memmap(side, td, path):
    td.memmap(path)
    return side.TensorDict.load_memmap(path)


def _one_file(side, td, path):
    td.consolidate(path)
    return side.TensorDict.from_consolidated(path)


def _state(side, td, path):
    return td.detach().clone().zero_().load_state_dict(td.state_dict())


WRITERS = {
    "memmap": _memmap,
    "memmap_": lambda side, td, path: td.clone().memmap_(path),
    "consolidate": lambda side, td, path: td.consolidate(),
    "consolidate in a file": _one_file,
    "share_memory_": lambda side, td, path: td.clone().share_memory_(),
    "pickle": lambda side, td, path: pickle.loads(pickle.dumps(td)),
    "deepcopy": lambda side, td, path: copy.deepcopy(td),
    "to_struct_array": lambda side, td, path: side.TensorDict.from_struct_array(td.to_struct_array()),
    "to_dict": lambda side, td, path: side.TensorDict.from_dict(td.to_dict(), batch_size=td.batch_size),
    "state_dict": _state,
    **{
        f"{kind} {storage}{' add' * add}": _buffer(storage, kind, add)
        for kind in ("ReplayBuffer", "TensorDictReplayBuffer")
        for storage in ("LazyTensorStorage", "LazyMemmapStorage", "ListStorage", "LazyStackStorage")
        for add in (False, True)
    },
}


def theirs(kind):
    """The same entries in the reference, with gradients where lite's have them."""
    td = KINDS[kind]().to_torch()
    if kind == "parameter":
        return td.apply(torch.nn.Parameter)
    return td.apply(lambda x: x.requires_grad_() * 1) if "traced" in kind else td


def attempt(side, writer, td, path):
    try:
        back = WRITERS[writer](SIDES[side], td, str(path))
        back = back if side == "lite" else lite.from_torch(back.detach())
        return content(back.exclude("index"), classes=False)  # their buffers write it into the data
    except Exception as error:
        return error


@each_case("kind", [k for k in KINDS if "tensorclass" not in k and k != "typed"])
@pytest.mark.parametrize("writer", WRITERS)
def test_what_comes_back(writer, kind, tmp_path):
    ours = attempt("lite", writer, KINDS[kind](), tmp_path / "ours")
    wanted = attempt("reference", writer, theirs(kind), tmp_path / "theirs")
    whole = content(KINDS[kind](), classes=False)
    assert ours == whole or (isinstance(ours, Exception) and wanted != whole)
