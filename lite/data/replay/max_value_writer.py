"""A writer that keeps the elements of the highest rank."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import NestedKey
from lite._arrays.public import belong_to
from lite._arrays.types import stored
from lite.data.replay.columns import is_container
from lite.data.replay.storages import Storage, stacked
from lite.data.replay.writers import Writer

_REDUCTIONS: dict[str, Any] = {"sum": np.sum, "max": np.max, "min": np.min, "mean": np.mean}


class TensorDictMaxValueWriter(Writer):
    """Fill the storage, then replace the element of the lowest rank by elements of higher rank.

    Args:
        rank_key: the entry that ranks an element. None: `("next", "reward")`.
        reduction: what makes one number of it: "sum", "max", "min", "mean" or "median" (the
            lower one of two).

    Raises:
        ValueError: an unknown reduction; or, when registered, a storage with `ndim` > 1.

    Source:
        `TensorDictMaxValueWriter` of TorchRL, https://github.com/pytorch/rl.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import LazyTensorStorage, TensorDictMaxValueWriter, TensorDictReplayBuffer
        >>> buffer = TensorDictReplayBuffer(
        ...     storage=LazyTensorStorage(2), writer=TensorDictMaxValueWriter(rank_key="score")
        ... )
        >>> buffer.extend(TensorDict({"score": np.array([3.0, 1.0, 2.0])}, [3]))
        array([ 0, -1,  1])
        >>> buffer[:]["score"]
        array([3., 2.])
    """

    def __init__(self, rank_key: NestedKey | None = None, reduction: str = "sum") -> None:
        super().__init__()
        if reduction not in (*_REDUCTIONS, "median"):
            raise ValueError(f"reduction must be one of {[*_REDUCTIONS, 'median']}, got {reduction!r}.")
        self._rank_key = ("next", "reward") if rank_key is None else rank_key
        self._reduction = reduction
        self._heap: list[tuple[float, int]] = []
        self._takeovers = 0

    def register_storage(self, storage: Storage) -> None:
        if storage.ndim > 1:
            raise ValueError(f"TensorDictMaxValueWriter needs a storage with ndim=1, got {storage.ndim}.")
        super().register_storage(storage)
        self._rank_what_is_there()

    def _rank_what_is_there(self) -> None:
        """Empty, as ranks are computed from the stored elements."""
        count = len(self._storage)
        ranks = self._ranks(stacked(self._storage.get(slice(None)))) if count else np.zeros(0)
        self._heap = list(zip(ranks.tolist(), range(count), strict=True))
        heapq.heapify(self._heap)

    def _ranks(self, data: Any) -> NDArray[Any]:
        """One number for each row of `data`."""
        if not is_container(data):
            raise RuntimeError(f"TensorDictMaxValueWriter needs a TensorDict, got {type(data).__name__}.")
        entry = data.get(self._rank_key, None)
        if entry is None:
            raise KeyError(f"Rank key {self._rank_key} not found in data.")
        flat = np.asarray(stored(entry)).reshape(data.shape[0], -1)
        if self._reduction == "median":
            return np.sort(flat, 1)[:, (flat.shape[1] - 1) // 2]
        return _REDUCTIONS[self._reduction](flat, axis=1)

    def get_insert_index(self, data: Any) -> int | None:
        """The index that one element would be written to; None if it would be discarded. Nothing changes."""
        place = self._places(data.unsqueeze(0), self._heap.copy())[0]
        return None if place < 0 else int(place)

    def _places(self, data: Any, heap: list[tuple[float, int]]) -> NDArray[np.int64]:
        """The index for each row of `data`, -1 for discarded rows; updates `heap`."""
        size = self._storage.max_size
        ranks = self._ranks(data)
        places = np.full(len(ranks), -1, np.int64)
        full = max(0, size - len(heap))
        for row, rank in enumerate(ranks[:full].tolist()):
            places[row] = len(heap)
            heapq.heappush(heap, (rank, len(heap)))
        rest = ranks[full:]
        # The lowest stored rank only rises, so rows that do not exceed it now never will.
        for row in np.flatnonzero(rest > heap[0][0]).tolist() if heap else ():
            rank = rest[row].item()
            if rank > heap[0][0]:
                places[full + row] = heap[0][1]
                heapq.heapreplace(heap, (rank, heap[0][1]))
        return places

    def add(self, data: Any) -> int | None:
        """Write one element, if its rank is high enough; gives its index, or None."""
        index = int(self.extend(data.unsqueeze(0))[0])
        return None if index < 0 else index

    def extend(self, data: Any) -> NDArray[np.int64]:
        """Write the elements whose rank is high enough; gives their indices, -1 for those left out.

        Raises:
            KeyError: the entry of ranks is missing.
            RuntimeError: `data` is not a TensorDict, or has no batch dimension.
        """
        if not is_container(data):
            raise RuntimeError(f"TensorDictMaxValueWriter needs a TensorDict, got {type(data).__name__}.")
        if not self._storage._length_of(data):
            return np.zeros(0, np.int64)
        data = data.exclude("index")
        takeovers = self._storage._take_over()
        if takeovers != self._takeovers:  # another process may have written
            self._rank_what_is_there()
        self._takeovers = takeovers
        heap = self._heap.copy()
        places = self._places(data, heap)
        # Of several that go to one place, the last one stays.
        kept, last = np.unique(places[::-1], return_index=True)
        rows = len(places) - 1 - last[kept >= 0]
        if len(rows):
            self._storage._write_rows(places[rows], data[rows], int((places >= 0).sum()))
        self._heap = heap
        lost = np.ones(len(places), bool)
        lost[rows] = False
        places[lost] = -1
        return places

    @property
    def _write_count(self) -> int:
        return self._storage._position.writes

    def _empty(self, empty_write_count: bool = True) -> None:
        self._heap = []

    def state_dict(self) -> dict[str, Any]:
        return {"_cursor": len(self._heap) % self._storage.max_size, "_write_count": self._write_count}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        length = len(self._storage)
        self._storage._commit(length, length % self._storage.max_size, int(state_dict["_write_count"]))
        self._rank_what_is_there()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rank_key={self._rank_key}, reduction={self._reduction!r})"


belong_to("lite.data", TensorDictMaxValueWriter)
