"""Every writer, reader and buffer with every kind of entry: values come back, or an error says what to do."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lite
from lite import NonTensorStack, TensorClass, TensorDict, TypedTensorDict, lazy_stack, nn
from lite.data import (
    LazyMemmapStorage,
    LazyStackStorage,
    LazyTensorStorage,
    ListStorage,
    ReplayBuffer,
    TensorDictReplayBuffer,
)


class Row(TensorClass):
    x: np.ndarray
    note: str = "n"


class Obs(TypedTensorDict):
    x: np.ndarray


def _traced() -> TensorDict:
    p = nn.Parameter(np.arange(3, dtype=np.float32))
    with lite.enable_grad():
        return TensorDict({"x": p * 2, "y": p[:, None] + 1}, [3])


def _traced_number() -> TensorDict:
    with lite.enable_grad():
        return TensorDict(x=nn.Parameter(np.ones(3, np.float32)).sum(), y=2.0)


KINDS: dict[str, Callable[[], Any]] = {
    "array": lambda: TensorDict({"x": np.arange(3), "y": np.ones((3, 2), np.float16)}, [3]),
    "nested": lambda: TensorDict({"x": np.arange(3), "n": TensorDict({"y": np.ones((3, 2))}, [3])}, [3]),
    "traced": _traced,
    "parameter": lambda: TensorDict({"x": nn.Parameter(np.arange(3, dtype=np.float32))}, [3]),
    "0-d": lambda: TensorDict(x=np.float32(1.5), y=np.array(2)),
    "0-d traced": _traced_number,
    "ragged": lambda: lazy_stack([TensorDict(x=np.arange(n)) for n in (1, 3, 2)]),
    "object": lambda: TensorDict({"x": np.arange(3), "s": NonTensorStack("a", "b", "c"), "k": "one"}, [3]),
    "typed": lambda: Obs(x=np.arange(3), batch_size=[3]),
    "tensorclass": lambda: TensorDict({"row": Row(x=np.arange(3), batch_size=[3])}, [3]),
}


def _torch_and_back(td: Any, path: Path) -> Any:
    pytest.importorskip("tensordict")
    return lite.from_torch(td.to_torch())


def _saved(suffix: str) -> Callable[[Any, Path], Any]:
    def run(td: Any, path: Path) -> Any:
        td.save(f"{path}{suffix}")
        return TensorDict.load(f"{path}{suffix}")

    return run


def _mapped(td: Any, path: Path) -> Any:
    td.memmap(path)
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


def _buffer(buffer: Callable[..., Any], storage: Callable[[int], Any]) -> Callable[[Any, Path], Any]:
    def run(td: Any, path: Path) -> Any:
        kept = buffer(storage=storage(5), batch_size=1)
        kept.extend(td)
        return kept[:]

    return run


BUFFERS: dict[str, Callable[[Any, Path], Any]] = {
    "LazyTensorStorage": _buffer(ReplayBuffer, LazyTensorStorage),
    "LazyMemmapStorage": _buffer(ReplayBuffer, LazyMemmapStorage),
    "ListStorage": _buffer(ReplayBuffer, ListStorage),
    "LazyStackStorage": _buffer(ReplayBuffer, LazyStackStorage),
    "TensorDictReplayBuffer": _buffer(TensorDictReplayBuffer, LazyTensorStorage),
    "TensorDictReplayBuffer of lists": _buffer(TensorDictReplayBuffer, ListStorage),
}
WRITERS: dict[str, Callable[[Any, Path], Any]] = {
    "memmap": _mapped,
    "memmap_": lambda td, path: td.clone().memmap_(path),
    "memmap without a folder": lambda td, path: td.memmap(),
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
    "deepcopy": lambda td, path: copy.deepcopy(td),
    "to_torch": _torch_and_back,
    "to_dict": lambda td, path: TensorDict.from_dict(td.to_dict(), batch_size=td.batch_size),
    "state_dict": _state,
    **BUFFERS,
}
_RAGGED = "different shapes"
_ONE = "stores one element|at least one element"
# (writer, kind): what the error says.
REFUSED: dict[tuple[str, str], str] = {
    ("h5", "object"): "HDF5 holds arrays and text",
    ("h5", "ragged"): _RAGGED,
    ("to_dict", "ragged"): _RAGGED,
    ("state_dict", "ragged"): _RAGGED,
    ("parquet", "ragged"): _RAGGED,
    ("share_memory_", "traced"): r"td\.detach\(\)",
    ("share_memory_", "0-d traced"): r"td\.detach\(\)",
    **{("parquet", kind): "needs a separator" for kind in ("nested", "tensorclass")},
    **{("parquet", kind): "needs a batch dimension" for kind in ("0-d", "0-d traced")},
    **{(storage, "ragged"): _RAGGED for storage in ("LazyTensorStorage", "LazyMemmapStorage")},
    ("TensorDictReplayBuffer", "ragged"): _RAGGED,
    **{("LazyMemmapStorage", kind): "mapped files hold numbers alone" for kind in ("object", "tensorclass")},
    **{(buffer, kind): _ONE for buffer in BUFFERS for kind in ("0-d", "0-d traced")},
}


def content(td: Any) -> Any:
    """The entries of each row as nested lists; of results of gradients their numbers."""
    if td.ndim:
        return [content(row) for row in td.unbind(0)]
    return td.detach().to_dict(convert_tensors=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("writer", WRITERS)
def test_values_come_back(writer: str, kind: str, tmp_path: Path) -> None:
    td = KINDS[kind]()
    wanted = content(td)
    error = REFUSED.get((writer, kind))
    if error is not None:
        with pytest.raises((RuntimeError, TypeError, ValueError), match=error):
            WRITERS[writer](td, tmp_path / "td")
    else:
        assert content(WRITERS[writer](td, tmp_path / "td")) == wanted
    assert content(td) == wanted
