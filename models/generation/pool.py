"""Decoders of one model that run at the same time, and rows spread over them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from lite.kernels._threads import submit
from lite.models.decoder.protocol import Decoder

Row = TypeVar("Row")
Result = TypeVar("Result")
Work = Callable[[Decoder, Sequence[Row]], list[Result]]

_guard = threading.Lock()
_pools: WeakValueDictionary[int, Pool] = WeakValueDictionary()  # by the id of the model, which a pool holds


_LOOK_AGAIN = 1.0  # seconds after which who waits looks again: an interrupt may have swallowed the notice


def check_sessions(sessions: Any) -> None:
    """Raise ValueError unless the value is a number of sessions."""
    if isinstance(sessions, bool) or not isinstance(sessions, int) or sessions < 1:
        raise ValueError(f"sessions must be an integer of at least 1, got {sessions!r}")


class Pool:
    """Decoders of one model, each for one thread at a time.

    A decoder computes one run after the other. Several of them, with the same weights and rows of their own,
    use cores that a run of a small graph leaves idle. There is one pool of a model, which all its wrappers
    share. Who waits longest is next. Earlier decoders are taken first, so a single caller always gets the
    same one.

    Args:
        model: the decoder; others are made by its method `sibling` when they are asked for.

    Example:
        >>> from lite.models import OnnxDecoder, embedded_model_path, score
        >>> pool = Pool.of(OnnxDecoder(embedded_model_path()), 2)
        >>> rows = [[10, 20, 30], [40, 50]]
        >>> [scores.shape for scores in pool.run(score, rows, most=2)]
        [(3,), (2,)]
    """

    def __init__(self, model: Decoder) -> None:
        self._all = [model]
        # What each call holds; a decoder in none of these lists is free. Taking and giving back is one method
        # of a list, which an interrupt (it comes between instructions of Python) cannot cut in two.
        self._leases: dict[int, list[Decoder]] = {}
        # By lease, in the order in which they came; each is woken alone, as to wake a thousand takes 7 ms.
        self._waiting: dict[int, threading.Condition] = {}
        self._used: dict[int, Decoder] = {}  # by thread
        # Taken by itself: an interrupt within a condition's own methods could leave it taken.
        self._lock = threading.Lock()
        self._one_alone = threading.Lock()  # of two that take all, neither may keep a part

    @classmethod
    def of(cls, model: Decoder, size: int = 1) -> Pool:
        """The pool of a model, with at least `size` decoders.

        Raises:
            ValueError: `size` is not a positive integer.
            TypeError: it is more than 1, and the model has no method `sibling`.
        """
        check_sessions(size)
        if size > 1 and not hasattr(model, "sibling"):
            raise TypeError(
                f"sessions={size} needs a model that can be run several times at once, as a path or an "
                f"OnnxDecoder; {type(model).__name__} has no method sibling"
            )
        with _guard:
            pool = _pools.get(id(model))
            if pool is None:
                pool = _pools[id(model)] = cls(model)
        with pool._lock:
            new: list[Any] = [model.sibling() for _ in range(size - len(pool._all))]  # type: ignore[attr-defined]
            pool._all.extend(new)
            pool._wake_first()
        return pool

    def is_running_here(self) -> bool:
        """Whether this thread runs one of the decoders, so that what asks is a function of the user."""
        return threading.get_ident() in self._used

    def run(self, work: Work[Row, Result], rows: Sequence[Row], *, most: int) -> list[Result]:
        """The results of `work(decoder, rows)` in the order of the rows.

        Waits for a free decoder. If there are more, up to `most`, each gets a part of the rows.

        Raises:
            Exception: what the first part raises that fails; the other parts are run to their end.
        """
        mine = self._used.get(threading.get_ident())
        if mine is not None:  # called by what this thread runs on it
            return work(mine, rows)
        lease = self._new_lease()
        try:
            self._take(lease, max(1, min(most, len(rows))))
            if len(lease) == 1:
                return self._part(work, lease[0], rows)
            ends = [len(rows) * i // len(lease) for i in range(len(lease) + 1)]
            parts = [rows[start:end] for start, end in pairwise(ends)]
            decoders = list(lease)
            from concurrent.futures import ThreadPoolExecutor  # not needed to open a model

            with ThreadPoolExecutor(len(decoders) - 1) as threads:
                others = [
                    submit(threads, self._other_part, work, decoder, lease, part)
                    for decoder, part in zip(decoders[1:], parts[1:], strict=True)
                ]
                try:
                    results = self._part(work, decoders[0], parts[0])
                finally:  # others may have it before the last part ends
                    lease.remove(decoders[0])
                    self._notify()
                for other in others:
                    results = results + other.result()
            return results
        finally:
            lease.clear()  # here, as calling a method of our own can be interrupted before it begins
            self._end(lease)

    @contextmanager
    def alone(self) -> Iterator[list[Decoder]]:
        """All decoders, for oneself: waits for the calls that run now, and others wait for the body's end.

        Raises:
            RuntimeError: this thread runs one of the decoders.
        """
        if self.is_running_here():
            raise RuntimeError("a function that is called while the model runs cannot wait for it to end")
        lease = self._new_lease()
        with self._one_alone:
            try:
                while len(lease) < len(self._all):
                    self._take(lease, len(self._all))
                yield list(lease)
            finally:
                lease.clear()
                self._end(lease)

    def _part(self, work: Work[Row, Result], decoder: Decoder, rows: Sequence[Row]) -> list[Result]:
        """Do the work in this thread."""
        thread = threading.get_ident()
        try:
            self._used[thread] = decoder
            return work(decoder, rows)
        finally:
            self._used.pop(thread, None)

    def _other_part(
        self, work: Work[Row, Result], decoder: Decoder, lease: list[Decoder], rows: Sequence[Row]
    ) -> list[Result]:
        """Do the work in a thread that outlives the call if that is interrupted, under a lease of its own."""
        own = self._new_lease()
        try:
            own.append(decoder)
            lease.remove(decoder)
            return self._part(work, decoder, rows)
        finally:
            own.clear()
            self._end(own)

    def _new_lease(self) -> list[Decoder]:
        lease: list[Decoder] = []
        self._leases[id(lease)] = lease
        return lease

    def _end(self, lease: list[Decoder]) -> None:
        self._leases.pop(id(lease), None)
        self._notify()

    def _take(self, lease: list[Decoder], most: int) -> None:
        """Wait for a free decoder, behind who waits already; take it and, up to `most`, others."""
        key = id(lease)
        with self._lock:
            if not self._waiting and (free := self._free()):
                lease.extend(free[:most])
                return
            try:
                mine = self._waiting[key] = threading.Condition(self._lock)
                while next(iter(self._waiting)) != key or not (free := self._free()):
                    mine.wait(_LOOK_AGAIN)
                lease.extend(free[:most])
            finally:
                self._waiting.pop(key, None)  # first, as an interrupt could come after any call
                self._wake_first()

    def _free(self) -> list[Decoder]:
        held = {id(decoder) for lease in list(self._leases.values()) for decoder in lease}
        return [decoder for decoder in self._all if id(decoder) not in held]

    def _notify(self) -> None:
        with self._lock:
            self._wake_first()

    def _wake_first(self) -> None:
        for condition in self._waiting.values():
            condition.notify()
            break
