"""The rows of a decoder for a call, filled with prompts so that shared prefixes run once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lite.models.decoder.device_logits import Logits, stacked
from lite.models.decoder.protocol import Decoder, rewindable
from lite.models.generation.prefix_cache import (
    SHORTEST,
    PrefixCache,
    adapter_of,
    common_length,
    release_left_behind,
)

_CANDIDATES = 64  # prompts that one is compared with: the first that begins alike, and the latest

Ids = NDArray[np.int64]


@dataclass
class _Plan:
    """How a prompt gets into its row.

    Attributes:
        row: the row.
        length: tokens at its start that need not run.
        source: the busy row that has them; with none of the three, `row` itself.
        after: the prompt of this call that has them once it has run.
        cached: the cache has them.
    """

    row: int
    length: int = 0
    source: int | None = None
    after: int | None = None
    cached: bool = False


class Rows:
    """Rows of a decoder, some of them free.

    A prompt that begins as another row does starts from a copy of that row; one that begins as its own row
    does (as samples of one prompt do that follow each other) goes on from there; `PrefixCache` has more.
    What a row is filled with is the same either way, to rounding.

    Args:
        decoder: the model.
        count: how many rows to take.
        cache: where rows come from and go to beside.
    """

    def __init__(self, decoder: Decoder, count: int, cache: PrefixCache | None = None) -> None:
        release_left_behind(decoder)
        self.decoder = decoder
        self._rewindable = rewindable(decoder)
        self._shares = self._rewindable is not None and self._rewindable.bytes_per_token > 0
        self._cache = cache
        self._adapter = None if cache is None else adapter_of(decoder)
        self._reserved = (0, 0)
        self._known: tuple[Ids, Logits] | None = None  # the last prompt, and the logits (1, V) after it
        self._taken = decoder.acquire(count)
        self._free: dict[int, Ids] = dict.fromkeys(self._taken, _NOTHING)  # and what they hold

    def reserve(self, length: int) -> None:
        """Expect rows of up to so many tokens."""
        rows = len(self._taken) + (self._cache.rows if self._cache else 0)
        if length > self._reserved[0] or rows > self._reserved[1]:
            self._reserved = max(length, self._reserved[0]), max(rows, self._reserved[1])
            self.decoder.reserve(*self._reserved)

    def fill(self, prompts: Sequence[Ids], busy: Mapping[int, Ids]) -> tuple[list[int], Logits]:
        """Put prompts into free rows.

        Args:
            prompts: token ids (L,), as many as there are free rows at most.
            busy: rows that are not free, and what they hold.

        Returns:
            The row of each prompt, and the logits after it, float32 (n, V).
        """
        plans = self._plan(prompts, busy)
        for plan in plans:
            del self._free[plan.row]
        found: dict[int, Logits] = {}  # the logits (1, V) of prompts
        waiting, done = list(range(len(prompts))), set[int | None]([None])
        while waiting:
            ready = [i for i in waiting if plans[i].after in done]
            self._run(ready, plans, prompts, found)
            done.update(ready)
            waiting = [i for i in waiting if i not in done]
        logits = found[0] if len(prompts) == 1 else stacked([found[i] for i in range(len(prompts))])
        self._known = prompts[-1], stacked([logits[-1:]])
        return [plan.row for plan in plans], logits

    def take(self, count: int) -> list[int]:
        """Rows to copy others to, whatever they hold; as many as are free at most."""
        order = sorted(self._free, key=lambda row: len(self._free[row]))  # what holds least is the least loss
        for row in order[:count]:
            del self._free[row]
        return order[:count]

    def extend(self, count: int) -> None:
        """Add rows up to this number."""
        if count > len(self._taken):
            more = self.decoder.acquire(count - len(self._taken))
            self._taken += more
            self._free.update(dict.fromkeys(more, _NOTHING))

    def free(self, row: int, ids: Ids) -> None:
        """Release a row that holds `ids`; the cache may keep it, and frees another one instead."""
        if self._cache is not None and adapter_of(self.decoder) == self._adapter:
            other = self._cache.keep(row, ids, self._adapter)
            self._taken[self._taken.index(row)] = other
            row, ids = other, _NOTHING
        self._free[row] = ids

    def empty(self) -> None:
        """Forget what free rows hold: nothing is to come."""
        for row, ids in self._free.items():
            if len(ids):
                self.decoder.reset(row)
                self._free[row] = _NOTHING

    def release(self) -> None:
        """Give all rows back."""
        self.decoder.release(self._taken)

    # -- what a prompt has in common with rows -----------------------------------------------------

    def _plan(self, prompts: Sequence[Ids], busy: Mapping[int, Ids]) -> list[_Plan]:
        plans: list[_Plan] = []
        holding = {row: ids for row, ids in self._free.items() if len(ids)}
        spare = sorted(set(self._free) - set(holding)) + sorted(holding)
        same: dict[bytes, int] = {}  # prompt -> place
        alike: dict[bytes, list[int]] = {}  # how it begins -> places
        for i, ids in enumerate(prompts):
            content = ids.tobytes()
            twin = same.setdefault(content, i)
            plan = self._own(ids, holding, spare)
            if self._shares:
                self._compare(plan, ids, busy)
                group = alike.setdefault(content[: SHORTEST * ids.itemsize], [])
                for place in [*group[:1], *group[1:][1 - _CANDIDATES :]]:
                    length = common_length(prompts[place], ids[:-1])
                    if length >= max(plan.length + (not plan.cached), SHORTEST):
                        plan.length, plan.after, plan.source, plan.cached = length, place, None, False
                group.append(i)
            if twin != i and plan.length < len(ids):
                plan = _Plan(plan.row, len(ids), after=twin)
            holding.pop(plan.row, None)
            spare.remove(plan.row)
            plans.append(plan)
        return plans

    def _own(self, ids: Ids, holding: Mapping[int, Ids], spare: Sequence[int]) -> _Plan:
        """The free row that begins like the prompt, or any."""
        best = _Plan(spare[0])
        for row, held in holding.items() if self._shares else ():
            length = self._usable(held, ids)
            if length > best.length:
                best = _Plan(row, length)
        return best

    def _compare(self, plan: _Plan, ids: Ids, busy: Mapping[int, Ids]) -> None:
        """Look for more of the prompt in busy rows and in the cache."""
        for row, held in busy.items():
            length = self._usable(held, ids)
            if length > plan.length:
                plan.length, plan.source = length, row
        if self._cache is not None and plan.length < len(ids):
            length = self._cache.longest(ids)
            if length > max(plan.length, SHORTEST - 1):
                plan.length, plan.source, plan.cached = length, None, True

    def _usable(self, held: Ids, ids: Ids) -> int:
        """Tokens of a prompt that need not run where a row holds `held`: all, if the logits are known."""
        length = common_length(held, ids)
        if length == len(ids):
            if self._known is not None and np.array_equal(self._known[0], ids):
                return length
            length -= 1
        return length if length >= SHORTEST else 0

    # -- runs -------------------------------------------------------------------------------------

    def _run(
        self, places: Sequence[int], plans: list[_Plan], prompts: Sequence[Ids], found: dict[int, Logits]
    ) -> None:
        """Fill the rows of prompts whose sources are there."""
        new: list[int] = []
        longer: list[int] = []
        for i in places:
            plan = plans[i]
            if self._cache is not None and (plan.cached or not plan.length):
                row, plan.length = self._cache.fetch(prompts[i], plan.row)
                self._taken[self._taken.index(plan.row)] = plan.row = row
            else:
                source = plan.source if plan.after is None else plans[plan.after].row
                if source is not None:
                    self.decoder.fork(source, plan.row)
                if self._rewindable is not None and plan.length:
                    self._rewindable.truncate(plan.row, plan.length)
            if plan.length < len(prompts[i]):
                (longer if plan.length else new).append(i)
            elif plan.after is not None:
                found[i] = found[plan.after]
            elif self._known is not None:
                found[i] = self._known[1]
        if new:
            logits = self.decoder.prefill_rows([plans[i].row for i in new], [prompts[i] for i in new])
            found |= {i: logits[at : at + 1] for at, i in enumerate(new)}
        if longer and self._rewindable is not None:
            rest = [prompts[i][plans[i].length :] for i in longer]
            logits = self._rewindable.continue_rows([plans[i].row for i in longer], rest)
            found |= {i: logits[at : at + 1] for at, i in enumerate(longer)}


_NOTHING = np.empty(0, np.int64)
