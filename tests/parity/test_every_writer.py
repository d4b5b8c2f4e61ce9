"""What comes back of every kind of entry, beside tensordict and TorchRL: where theirs does, lite's does."""

import copy
import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import tensordict
import torch
from helpers.entry_kinds import KINDS, content
from torchrl import data as reference

import lite
from lite import data as lite_data

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


@pytest.mark.parametrize("kind", [k for k in KINDS if "tensorclass" not in k and k != "typed"])
@pytest.mark.parametrize("writer", WRITERS)
def test_what_comes_back(writer, kind, tmp_path):
    ours = attempt("lite", writer, KINDS[kind](), tmp_path / "ours")
    wanted = attempt("reference", writer, theirs(kind), tmp_path / "theirs")
    whole = content(KINDS[kind](), classes=False)
    assert ours == whole or (isinstance(ours, Exception) and wanted != whole)
