"""A folder of memory-mapped files that is filled piece by piece, and appears when it is whole."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from lite import TensorDict, TensorDictBase
from lite._arrays.types import Path

Layout = dict[Path, tuple[tuple[int, ...], np.dtype[Any]]]  # of each entry, what one step has
PIECE = 1 << 24  # bytes that are read at a time
_MOST = 1 << 12  # bytes that one byte of a file may stand for: deflate reaches 1032, run lengths go beyond


def steps_at_a_time(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """How many steps of an entry are read at a time."""
    return max(1, PIECE // max(1, math.prod(shape) * dtype.itemsize))


def converted(
    folder: str | os.PathLike[str],
    layout: Layout,
    steps: int,
    source_bytes: int,
    fill: Callable[[TensorDictBase], None],
) -> TensorDictBase:
    """A TensorDict of batch size (steps,) in the files of a new folder, which `fill` writes to.

    The folder is written under another name beside its place: it is whole, or not there.

    Args:
        source_bytes: size of the files that are read; a result of more than 4096 times that is refused
            before anything is written.

    Raises:
        FileExistsError: `folder` exists.
        ValueError: the files say that they hold more than they can.
    """
    place = os.path.abspath(folder)
    if os.path.lexists(place):
        raise FileExistsError(
            f"there is something at {place} already; data sets are written to a new folder."
        )
    size = steps * sum(math.prod(shape) * dtype.itemsize for shape, dtype in layout.values())
    if size > max(source_bytes, 1 << 12) * _MOST:
        raise ValueError(
            f"refusing to make {size} bytes of files of {source_bytes} bytes: they are damaged or hostile."
        )
    os.makedirs(os.path.dirname(place), exist_ok=True)
    name = f".{os.path.basename(place)}."
    stage = tempfile.mkdtemp(prefix=name, suffix=".partial", dir=os.path.dirname(place))
    try:
        row = TensorDict({}, batch_size=[steps])
        for path, (shape, dtype) in layout.items():
            row.set(path, np.broadcast_to(np.zeros((), dtype), (steps, *shape)))
        inside = os.path.join(stage, "data")
        fill(row.memmap_like(inside))
        os.rename(inside, place)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return TensorDict.load_memmap(place)
