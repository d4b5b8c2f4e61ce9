"""Replay buffers beside TorchRL's: writing, drawing, and how drawing depends on capacity.

`python bench/data_replay.py` prints the table; `--growth` times against capacity, to 10^8 frames in a sparse
file. `bench/test_data.py` joins the cases.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from side_by_side import measure, row

from lite import TensorDict
from lite.data import LazyMemmapStorage, LazyTensorStorage, TensorDictReplayBuffer

PEER = "torchrl 0.14.1"
# Of 256 frames more than use up the space that mapped files get ahead: each round pays for it.
_CALLS = 256


def arrays(count: int, keys: int, features: tuple[int, ...] = (4,)) -> dict[str, np.ndarray[Any, Any]]:
    """Random float32 entries."""
    rng = np.random.default_rng(0)
    return {f"key{i}": rng.random((count, *features), np.float32) for i in range(keys)}


def per_call(alternatives: dict[str, Callable[[], Any]], rounds: int = 15) -> dict[str, dict[str, float]]:
    """Milliseconds of one call, of many in a row."""
    return measure(alternatives, rounds, pause=0, times=_CALLS)


def torch_buffer(storage: str, capacity: int) -> Any:
    """TorchRL's buffer with a storage of the same name."""
    import torchrl.data as peer
    from torchrl import logger

    logger.setLevel("ERROR")
    return peer.TensorDictReplayBuffer(storage=getattr(peer, storage)(capacity))


def torch_data(entries: dict[str, np.ndarray[Any, Any]], count: int) -> Any:
    """The same data for it."""
    import torch
    from tensordict import TensorDict as Peer

    return Peer({key: torch.from_numpy(value) for key, value in entries.items()}, [count])


def extending(storage: str, count: int, rounds: int, full: bool = False) -> dict[str, Any]:
    """`extend` of frames of 10 keys of 4 floats; `full`: into a ring that writes over old ones."""
    entries = arrays(count, 10)
    capacity = 2048 if full else max(1_000_000, (rounds + 3) * _CALLS * count)
    kinds = {"LazyTensorStorage": LazyTensorStorage, "LazyMemmapStorage": LazyMemmapStorage}
    ours = TensorDictReplayBuffer(storage=kinds[storage](capacity))
    # Memory of a virtual machine that was never used costs many times what it costs later, whoever takes it.
    np.ones((20, capacity, 4), np.float32)
    data, theirs = TensorDict(entries, [count]), torch_data(entries, count)
    peer = torch_buffer(storage, capacity)
    for _ in range(-(-capacity // count) if full else 1):
        ours.extend(data)
        peer.extend(theirs)
    result = per_call({"lite": lambda: ours.extend(data), PEER: lambda: peer.extend(theirs)}, rounds)
    where = f"{storage}{', full' if full else ''}"
    return row(f"extend {count} x 10 keys, {where}", PEER, result)


def drawing(storage: str, rounds: int, capacity: int = 1_000_000) -> dict[str, Any]:
    """`sample(256)` of 4 float keys, uniformly."""
    entries = arrays(capacity, 4, (1,))
    kinds = {"LazyTensorStorage": LazyTensorStorage, "LazyMemmapStorage": LazyMemmapStorage}
    ours = TensorDictReplayBuffer(storage=kinds[storage](capacity), generator=0)
    ours.extend(TensorDict(entries, [capacity]))
    peer = torch_buffer(storage, capacity)
    peer.extend(torch_data(entries, capacity))
    result = per_call({"lite": lambda: ours.sample(256), PEER: lambda: peer.sample(256)}, rounds)
    return row(f"sample 256 x 4 keys of {capacity:,}, {storage}", PEER, result)


def growth(capacities: tuple[int, ...] = (10**4, 10**5, 10**6, 10**7, 10**8)) -> list[dict[str, Any]]:
    """`sample(256)` of 4 float keys from sparse files, of which pages that were drawn once are in memory.

    Frames are never written, as a file of 10^8 would not fit; holes are read as zeros. `first` is the time of
    the first calls, which map each page that they meet; the median is of calls after those.
    """
    out = []
    for capacity in capacities:
        folder = tempfile.mkdtemp()
        try:
            like = {key: np.broadcast_to(np.float32(0), (capacity, 1)) for key in arrays(1, 4)}
            TensorDict(like, [capacity]).memmap_like(folder)
            storage = LazyMemmapStorage(capacity, scratch_dir=folder, existsok=True)
            buffer = TensorDictReplayBuffer(storage=storage, generator=0)
            first = measure({"lite": lambda b=buffer: b.sample(256)}, 200, pause=0)["lite"]
            for array in storage._columns.arrays:
                array[:: 4096 // array[:1].nbytes].sum()
            result = per_call({"lite": lambda b=buffer: b.sample(256)})["lite"]
            out.append({"capacity": capacity, "first_ms": first["median_ms"], **result})
        finally:
            shutil.rmtree(folder)
    return out


def compressed() -> dict[str, Any]:
    """Images of 84 x 84 x 4 bytes and their successors, stored once and twice: bytes, and `sample(32)`."""
    obs = np.random.default_rng(0).integers(0, 255, (2001, 84, 84, 4), np.uint8)
    data = TensorDict({"obs": obs[:-1], "next": {"obs": obs[1:]}}, [2000])
    buffers = {}
    for name, compress in (("lite", True), ("lite without", False)):
        folder = tempfile.mkdtemp()
        storage = LazyMemmapStorage(2000, scratch_dir=f"{folder}/f", compress_next=compress)
        buffers[name] = TensorDictReplayBuffer(storage=storage, generator=0)
        for at in range(0, 2000, 250):
            buffers[name].extend(data[at : at + 250])
    used = {
        name: sum(path.stat().st_blocks * 512 for path in Path(b.storage.scratch_dir).rglob("*.memmap"))
        for name, b in buffers.items()
    }
    result = per_call({name: lambda b=b: b.sample(32) for name, b in buffers.items()}, 5)
    share = used["lite"] / used["lite without"]
    return row(
        f"sample 32 images and successors, compress_next ({share:.2f} of the bytes)", "lite without", result
    )


def case(rounds: int = 15) -> list[dict[str, Any]]:
    """All cases."""
    rows = []
    for storage in ("LazyTensorStorage", "LazyMemmapStorage"):
        rows += [extending(storage, 1, rounds), extending(storage, 256, rounds)]
        rows += [extending(storage, 1, rounds, full=True), extending(storage, 256, rounds, full=True)]
        rows.append(drawing(storage, rounds))
    return [*rows, compressed()]


CASES = {"replay": case}
