"""One process of `MultiSyncCollector` and `MultiAsyncCollector`: a `Collector`, whose batches are shared."""

from __future__ import annotations

import pickle
import traceback
from typing import Any

import numpy as np

from lite._processes.orphans import end_with_parent
from lite.data.collectors.collector import Collector
from lite.envs.env_worker import rows_of

IDS = ("collector", "traj_ids")
ID_BITS = 40  # of a trajectory's id count within a process; the bits above are the number of the process


def serve(connection: Any, made: bytes, index: int) -> None:
    """Answer requests until the parent closes the connection, or ends.

    Requests are (name, argument) pairs; answers are ("ok", result) or ("failed", message). The first answer,
    before any request, is the number of frames of a batch.

    Args:
        connection: a pipe to the parent.
        made: the pickled (create_env_fn, keyword arguments) of `Collector`.
        index: the number of the process, which makes ids of trajectories differ between processes.
    """
    end_with_parent()
    collector: Collector | None = None
    try:
        create_env_fn, kwargs = pickle.loads(made)
        collector = Collector(create_env_fn, **kwargs)
        connection.send(("ok", collector.requested_frames_per_batch))
        shared = _SharedBatch()
        while (request := connection.recv())[0] != "close":
            connection.send(("ok", _answer(collector, shared, index, *request)))
    except (EOFError, BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        pass  # the parent ended, or ends
    except Exception as error:
        connection.send(("failed", f"{type(error).__name__}: {error}\n{traceback.format_exc()}"))
    finally:
        if collector is not None:
            collector.shutdown(raise_on_error=False)


def _answer(collector: Collector, shared: _SharedBatch, index: int, name: str, given: Any) -> Any:
    """The result of a request; a request for a batch may bring new weights in `given`."""
    if name == "seed":
        return collector.set_seed(*given)
    if name == "load":
        return collector.load_state_dict(given[0], strict=given[1])
    if given is not None:
        collector.update_policy_weights_(weights=given)
    if name == "state":
        return collector.state_dict()
    data = collector.next()
    if IDS in data:
        ids = data.get(IDS)
        ids[ids >= 0] += index << ID_BITS
    return shared.take(data)


class _SharedBatch:
    """The memory of batches, which the parent maps too; sent again only if entries or shapes change.

    Objects and lazy stacks are sent each time.
    """

    def __init__(self) -> None:
        self._batch: Any = None
        self._layout: Any = None

    def take(self, data: Any) -> Any:
        """Store a batch in the shared memory; returns the batch if that memory is new, else None."""
        rows: Any = rows_of(data)
        arrays = type(rows) is list and all(isinstance(value, np.ndarray) for _, value in rows)
        layout = [(key, value.shape, value.dtype) for key, value in rows] if arrays else None
        if layout is None or layout != self._layout:
            self._batch, self._layout = data.clone().share_memory_(), layout
            return self._batch
        self._batch.update_(data)
        return None
