"""Every writer, reader and buffer with every kind of entry: values come back, or an error says what to do."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.entry_kinds import KINDS, content

import lite
from lite import TensorDict
from lite.data import (
    LazyMemmapStorage,
    LazyStackStorage,
    LazyTensorStorage,
    ListStorage,
    PrioritizedSampler,
    ReplayBuffer,
    TensorDictMaxValueWriter,
    TensorDictReplayBuffer,
)

Writer = Callable[[Any, Path], Any]


def _torch_and_back(td: Any, path: Path) -> Any:
    pytest.importorskip("tensordict")
    return lite.from_torch(td.to_torch())


def _pandas_and_back(td: Any, path: Path) -> Any:
    return TensorDict.from_pandas(td.to_pandas())


def _saved(suffix: str) -> Writer:
    def run(td: Any, path: Path) -> Any:
        td.save(f"{path}{suffix}")
        return TensorDict.load(f"{path}{suffix}")

    return run


def _mapped(td: Any, path: Path) -> Any:
    td.memmap(path)
    return TensorDict.load_memmap(path)


def _entry_by_entry(td: Any, path: Path) -> Any:
    out = td.exclude(*td.keys(True, True)).memmap_(path)
    for key, entry in td.items(True, True):
        out.make_memmap_from_tensor(key, entry)
    return TensorDict.load_memmap(path)


def _h5(td: Any, path: Path) -> Any:
    td.to_h5(f"{path}.h5")
    return TensorDict.from_h5(f"{path}.h5")


def _parquet(td: Any, path: Path) -> Any:
    td.to_parquet(f"{path}.parquet")
    return TensorDict.from_parquet(f"{path}.parquet")


def _one_file(td: Any, path: Path) -> Any:
    td.consolidate(path)
    return TensorDict.from_consolidated(path)


def _state(td: Any, path: Path) -> Any:
    return td.detach().clone().zero_().load_state_dict(td.state_dict())


def _out_of_band(td: Any, path: Path) -> Any:
    buffers: list[Any] = []
    return pickle.loads(pickle.dumps(td, 5, buffer_callback=buffers.append), buffers=buffers)


def _buffer(storage: Callable[[int], Any], kind: Any = ReplayBuffer, **options: Any) -> Writer:
    def run(td: Any, path: Path) -> Any:
        kept = kind(storage=storage(5), batch_size=1, **{key: make() for key, make in options.items()})
        kept.extend(td)
        return kept[:]

    return run


def _added(td: Any, path: Path) -> Any:
    kept = ReplayBuffer(storage=LazyTensorStorage(5))
    for row in td.unbind(0) if td.ndim else [td]:
        kept.add(row)
    return kept[:] if td.ndim else kept[0]


def _written_over(td: Any, path: Path) -> Any:
    kept = ReplayBuffer(storage=LazyTensorStorage(5))
    kept.extend(td.detach().clone().zero_())
    kept[:] = td
    return kept[:]


def _dumped(td: Any, path: Path) -> Any:
    kept, other = (ReplayBuffer(storage=LazyTensorStorage(5)) for _ in range(2))
    kept.extend(td)
    kept.dumps(path)
    other.loads(path)
    return other[:]


def _buffer_state(td: Any, path: Path) -> Any:
    kept, other = (ReplayBuffer(storage=LazyStackStorage(5)) for _ in range(2))
    kept.extend(td)
    other.load_state_dict(kept.state_dict())
    return other[:]


def _buffer_pickled(td: Any, path: Path) -> Any:
    kept = ReplayBuffer(storage=ListStorage(5))
    kept.extend(td)
    return pickle.loads(pickle.dumps(kept))[:]


BUFFERS: dict[str, Writer] = {
    "LazyTensorStorage": _buffer(LazyTensorStorage),
    "LazyMemmapStorage": _buffer(LazyMemmapStorage),
    "ListStorage": _buffer(ListStorage),
    "LazyStackStorage": _buffer(LazyStackStorage),
    "TensorDictReplayBuffer": _buffer(LazyTensorStorage, TensorDictReplayBuffer),
    "TensorDictReplayBuffer of lists": _buffer(ListStorage, TensorDictReplayBuffer),
    "TensorDictMaxValueWriter": _buffer(LazyTensorStorage, writer=lambda: TensorDictMaxValueWriter("x")),
    "PrioritizedSampler": _buffer(
        LazyTensorStorage,
        TensorDictReplayBuffer,
        sampler=lambda: PrioritizedSampler(5, 1.0, 1.0),
        priority_key=lambda: "x",
    ),
    "written over": _written_over,
    "dumps": _dumped,
    "state of a buffer": _buffer_state,
    "pickled buffer": _buffer_pickled,
}
WRITERS: dict[str, Writer] = {
    "memmap": _mapped,
    "memmap_": lambda td, path: td.clone().memmap_(path),
    "memmap without a folder": lambda td, path: td.memmap(),
    "make_memmap_from_tensor": _entry_by_entry,
    "save": _saved(""),
    "tdz": _saved(".tdz"),
    "npz": _saved(".npz"),
    "safetensors": _saved(".safetensors"),
    "h5": _h5,
    "parquet": _parquet,
    "consolidate": lambda td, path: td.consolidate(),
    "consolidate in a file": _one_file,
    "share_memory_": lambda td, path: td.clone().share_memory_(),
    "pickle": lambda td, path: pickle.loads(pickle.dumps(td)),
    "pickle out of band": _out_of_band,
    "deepcopy": lambda td, path: copy.deepcopy(td),
    "to_torch": _torch_and_back,
    "to_pandas": _pandas_and_back,
    "to_struct_array": lambda td, path: TensorDict.from_struct_array(td.to_struct_array()),
    "to_dict": lambda td, path: TensorDict.from_dict(td.to_dict(), batch_size=td.batch_size),
    "numpy": lambda td, path: TensorDict.from_dict(td.numpy(), batch_size=td.batch_size),
    "state_dict": _state,
    "add": _added,
    **BUFFERS,
}

LISTS = {
    "ListStorage", "LazyStackStorage", "TensorDictReplayBuffer of lists", "state of a buffer",
    "pickled buffer",
}  # fmt: skip
TABLES = {"parquet", "to_pandas"}
RAGGED = {"ragged", "ragged traced"}
NUMBERS = {"0-d", "0-d traced"}
# What gives plain TensorDicts for tensorclasses, and what for typed TensorDicts, too.
PLAIN = {*TABLES, "h5", "to_torch", "to_struct_array", "to_dict", "numpy"}
UNTYPED = {*PLAIN, "memmap", "make_memmap_from_tensor", "save", "tdz", "npz", "safetensors", "dumps"}
# Writers, kinds of entries, and what the error says.
REFUSALS: list[tuple[set[str], set[str], str]] = [
    (set(BUFFERS), NUMBERS, r"add\(data\) stores it"),
    (
        {"add", *BUFFERS} - LISTS - {"TensorDictMaxValueWriter"},
        RAGGED,
        "LazyStackStorage and ListStorage hold rows of different shapes",
    ),
    (
        {
            "h5", "to_struct_array", "to_dict", "numpy", "state_dict", "make_memmap_from_tensor",
            "TensorDictMaxValueWriter",
        },
        RAGGED,
        "as_padded_tensor=True",
    ),
    ({"make_memmap_from_tensor"}, {"lazy"}, "its rows live in the files of its parts"),
    (TABLES, NUMBERS, "needs a batch dimension"),
    (TABLES, {"nested", "traced", "nested tensorclass"}, "is not a name of a column"),
    ({"to_pandas"}, {"array", "lazy", *RAGGED}, "a column holds one dimension"),
    ({"h5"}, {"object"}, "HDF5 holds arrays, and texts"),
    ({"numpy"}, {"traced", "0-d traced"}, r"use detach\(\) instead"),
    ({"LazyMemmapStorage"}, {"object", "tensorclass", "nested tensorclass"}, "use LazyTensorStorage"),
    (
        {"TensorDictReplayBuffer", "TensorDictReplayBuffer of lists", "PrioritizedSampler"},
        {"tensorclass"},
        "takes TensorDicts, got Row",
    ),
    ({"TensorDictMaxValueWriter"}, {"nested tensorclass"}, "Rank key x not found"),
]  # fmt: skip
REFUSED = {
    (writer, kind): message for writers, kinds, message in REFUSALS for writer in writers for kind in kinds
}


# Kinds that most writers treat like another one: a fifth of the writers each.
ALIKE = ["array", "parameter", "0-d traced", "ragged traced", "typed"]
PAIRS = [(writer, kind) for writer in WRITERS for kind in KINDS if kind not in ALIKE]
PAIRS += [(writer, kind) for n, kind in enumerate(ALIKE) for writer in list(WRITERS)[n::5]]
# Rows of a Parquet file that differ in length come back as lists (tests/convert/test_tables.py).
PAIRS = [pair for pair in PAIRS if pair not in {("parquet", kind) for kind in RAGGED}]


@each_case(("writer", "kind"), PAIRS)
def test_values_come_back(writer: str, kind: str, tmp_path: Path) -> None:
    td = KINDS[kind]()
    wanted = content(td)
    error = REFUSED.get((writer, kind))
    if error is not None:
        raises((KeyError, RuntimeError, TypeError, ValueError), error, WRITERS[writer], td, tmp_path / "td")
    else:
        plain = writer in (UNTYPED if kind == "typed" else PLAIN)
        plain |= writer == "consolidate in a file" and kind in ("typed", "tensorclass")
        assert content(WRITERS[writer](td, tmp_path / "td")) == (content(td, False) if plain else wanted)
    assert content(td) == wanted


# What only holds arrays holds those inside a vmap, too.
HOLDERS = {"deepcopy", "to_dict", "state_dict", *LISTS} - {"pickled buffer"}


@each_case("writer", WRITERS)
def test_inside_vmap(writer: str, tmp_path: Path) -> None:
    def run(x: Any) -> Any:
        return WRITERS[writer](TensorDict({"x": x}, [3]), tmp_path / "td")["x"]

    x = np.arange(6.0).reshape(2, 3)
    if writer in HOLDERS:
        np.testing.assert_array_equal(lite.vmap(run)(x), x)
    else:
        raises(TypeError, r"inside (a )?vmap", lite.vmap(run), x)
