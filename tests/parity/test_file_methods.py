"""Methods of memory-mapped TensorDicts, and what comes back of every kind of entry, beside the reference."""

import copy
import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensordict
import torch
from helpers.cases import each_case
from helpers.entry_kinds import KINDS, content
from torchrl import data as reference

import lite
from lite import MemoryMappedTensor
from lite import data as lite_data

pytestmark = pytest.mark.filterwarnings("ignore")  # of the reference


METHODS = [
    "memmap", "memmap_", "memmap_like", "save", "dumps", "load", "load_", "load_memmap", "load_memmap_",
    "memmap_refresh_", "is_memmap", "make_memmap", "make_memmap_from_tensor", "consolidate",
    "from_consolidated", "is_consolidated", "to_h5", "from_h5",
]  # fmt: skip
FUNCTIONS = [
    "save", "load", "memmap", "load_memmap", "from_consolidated", "from_h5", "pack_memmap", "unpack_memmap",
    "is_memmap_archive", "refresh_archive_checksums",
]  # fmt: skip
CHOSEN = {("allow_pickle", None, False)}  # argument, default there, default here


def parameters(function):
    """By name, with those behind a typed `**options` written out."""
    found = {}
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        typed = getattr(parameter.annotation, "__args__", ())
        if parameter.kind is parameter.VAR_KEYWORD and typed:
            target = lite.TensorDict.memmap
            found |= {key: inspect.signature(target).parameters[key] for key in typed[0].__annotations__}
        else:
            found[name] = parameter
    return found


def missing(theirs, ours):
    """What a call of the one can say and one of the other cannot, or means something else there."""
    mine = parameters(ours)
    open_ended = any(p.kind is p.VAR_KEYWORD for p in mine.values())
    out = []
    named = [
        p
        for p in inspect.signature(theirs).parameters.values()
        if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    ]
    for position, parameter in enumerate(named):
        other = mine.get(parameter.name)
        if other is None:
            if (parameter.kind is parameter.KEYWORD_ONLY and not open_ended) or (
                parameter.kind is not parameter.KEYWORD_ONLY and position >= len(mine)
            ):
                out.append(parameter.name)
        elif (parameter.name, parameter.default, other.default) not in CHOSEN:
            if parameter.default != other.default:
                out.append(f"{parameter.name}={parameter.default!r}")
            if parameter.kind is not parameter.KEYWORD_ONLY and list(mine).index(parameter.name) != position:
                out.append(f"{parameter.name} at {position}")
    return out


@each_case("name", METHODS)
@each_case("cls", ["TensorDict", "LazyStackedTensorDict"])
def test_methods_take_what_tensordicts_take(cls, name):
    assert missing(getattr(getattr(tensordict, cls), name), getattr(getattr(lite, cls), name)) == []


@each_case("name", FUNCTIONS)
def test_functions_take_what_tensordicts_take(name):
    assert missing(getattr(tensordict, name), getattr(lite, name)) == []


def test_the_comparison_can_fail():
    assert missing(lambda a, b=1, *, c=2, d=3: 0, lambda a, b=2, *, d=3: 0) == ["b=1", "c"]
    assert missing(lambda a, b: 0, lambda b, a: 0) == ["a at 0", "b at 1"]


def test_every_file_method_is_compared():
    words = ("memmap", "save", "load", "dump", "consolidat", "h5")
    names = {name for name in dir(tensordict.TensorDict) if any(word in name for word in words)}
    known = {*METHODS, "saved_path", "make_memmap_from_storage", "load_state_dict", "memory_format"}
    assert {name for name in names if not name.startswith("_")} <= known


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
        with pytest.raises(RuntimeError, match="copy_existing=True"):
            cls.from_tensor(x, filename=tmp_path / "other")
        with pytest.raises(RuntimeError, match="no file associated"):
            cls.from_tensor(values).filename  # noqa: B018
        (tmp_path / "link").symlink_to(path)
        with pytest.raises(RuntimeError, match=r"symlink|symbolic link"):
            cls.from_tensor(values, filename=tmp_path / "link")
        (tmp_path / "link").unlink()
        with pytest.raises(RuntimeError, match="Only CPU"):
            cls.ones(3, device="meta")


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
