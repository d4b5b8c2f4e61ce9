"""Samplers beside torchrl's: draws, priorities, and slices of trajectories against the capacity.

`python bench/test_data.py --only uniform priorities slices prioritized_slices` runs them. A
row's time is that of CALLS calls. Draws of slices are measured while the buffer is written to, 8 rows before
each: torchrl keeps no boundaries then, as its `cache_values` is for data that does not change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensordict
import torch
import torchrl.data as peer
from side_by_side import measure, repeated, row

import lite.data
from lite import TensorDict
from lite.data import LazyTensorStorage, PrioritizedSampler, RandomSampler, ReplayBuffer

CALLS, BATCH = 100, 256
EPISODE = 500  # steps
Rows = list[dict[str, Any]]


def entries(count: int, start: int = 0) -> dict[str, Any]:
    """An observation, and ends of episodes in one entry."""
    steps = np.arange(start, start + count)
    done = (steps % EPISODE == EPISODE - 1)[:, None]
    return {"observation": steps[:, None].astype(np.float32), "next": {"done": done}}


def filled(capacity: int, sampler: Any) -> ReplayBuffer:
    buffer = ReplayBuffer(storage=LazyTensorStorage(capacity), sampler=sampler)
    for start in range(0, capacity, 1_000_000):
        count = min(1_000_000, capacity - start)
        buffer.extend(TensorDict(entries(count, start), [count]))
    return buffer


def filled_peer(capacity: int, sampler: Any) -> Any:
    buffer = peer.ReplayBuffer(storage=peer.LazyTensorStorage(capacity), sampler=sampler)
    for start in range(0, capacity, 1_000_000):
        count = min(1_000_000, capacity - start)
        buffer.extend(tensordict.TensorDict(entries(count, start), [count]))
    return buffer


def uniform(rounds: int) -> Rows:
    """The index of a uniform batch alone."""
    capacity = 1_000_000
    ours = filled(capacity, RandomSampler(generator=0))
    theirs = filled_peer(capacity, peer.RandomSampler())
    result = measure(
        {
            "lite": repeated(lambda: ours.sampler.sample(ours.storage, BATCH), CALLS),
            "torchrl": repeated(lambda: theirs.sampler.sample(theirs._storage, BATCH), CALLS),
        },
        rounds,
    )
    return [row(f"RandomSampler, index of {BATCH} of 10^6, {CALLS} times", "torchrl", result)]


def has_trees() -> bool:
    """Whether torchrl's extension loads, which has its trees: that of a wheel does beside one torch alone."""
    try:
        peer.PrioritizedSampler(2, 0.5, 0.5)
    except RuntimeError as error:
        print(f"torchrl's prioritized samplers are left out: {error}")
        return False
    return True


def beside(
    title: str, alternatives: dict[str, Callable[[], Any]], rounds: int, **more: Any
) -> dict[str, Any]:
    """A row of lite beside torchrl, or alone."""
    result = measure(alternatives, rounds)
    if "torchrl" not in result:
        nothing = dict.fromkeys(result["lite"], float("nan"))
        return row(title, "not measured", result | {"not measured": nothing}, **more)
    return row(title, "torchrl", result, **more)


def priorities(rounds: int) -> Rows:
    """Draw a batch of indices, and give these new priorities."""
    capacity = 1_000_000
    rng = np.random.default_rng(0)
    first = rng.random(capacity).astype(np.float32)
    errors = rng.random(BATCH).astype(np.float32)
    storage = LazyTensorStorage(capacity)
    storage.set(range(capacity), TensorDict({"x": np.zeros(capacity, np.float32)}, [capacity]))
    ours = PrioritizedSampler(capacity, 0.6, 0.4, generator=0)
    ours.update_priority(np.arange(capacity), first)
    new = np.arange(BATCH)

    def draw_and_update() -> None:
        index, _ = ours.sample(storage, BATCH)
        ours.update_priority(index, errors)

    drawn = {"lite": repeated(draw_and_update, CALLS)}
    marked = {"lite": repeated(lambda: ours.mark_update(new), CALLS)}
    if has_trees():
        their_storage = peer.LazyTensorStorage(capacity)
        their_storage.set(range(capacity), tensordict.TensorDict({"x": torch.zeros(capacity)}, [capacity]))
        theirs = peer.PrioritizedSampler(capacity, 0.6, 0.4)
        theirs.update_priority(torch.arange(capacity), torch.from_numpy(first))
        their_errors, their_new = torch.from_numpy(errors), torch.arange(BATCH)

        def their_draw() -> None:
            index, _ = theirs.sample(their_storage, BATCH)
            theirs.update_priority(index, their_errors)

        drawn["torchrl"] = repeated(their_draw, CALLS)
        marked["torchrl"] = repeated(lambda: theirs.mark_update(their_new), CALLS)
    return [
        beside(f"PrioritizedSampler, sample and update {BATCH} of 10^6, {CALLS} times", drawn, rounds),
        beside(f"PrioritizedSampler, {BATCH} new entries of 10^6, {CALLS} times", marked, rounds),
    ]


def written_and_drawn(
    name: str, capacity: int, rounds: int, with_peer: bool, **options: Any
) -> dict[str, Any]:
    """16 slices of 16 steps from a full buffer of episodes of 500 steps, while it is written to."""
    new = entries(8)
    ours_new, theirs_new = TensorDict(new, [8]), tensordict.TensorDict(new, [8])
    options |= {"num_slices": 16, "end_key": ("next", "done")}
    ours = filled(capacity, getattr(lite.data, name)(**options, generator=0))

    def draw() -> None:
        ours.extend(ours_new)
        ours.sampler.sample(ours.storage, BATCH)

    title = f"{name} of {capacity:.0e} steps, extend 8 and draw, {CALLS} times"
    if not with_peer:
        return beside(title, {"lite": repeated(draw, CALLS)}, rounds, capacity=capacity)
    theirs = filled_peer(capacity, getattr(peer, name)(**options))

    def their_draw() -> None:
        theirs.extend(theirs_new)
        theirs.sampler.sample(theirs._storage, BATCH)

    # One call stands for all: of a large buffer it takes what a hundred of ours do.
    result = measure({"lite": repeated(draw, CALLS), "torchrl": their_draw}, rounds)
    result["torchrl"] = {key: CALLS * value for key, value in result["torchrl"].items()}
    return row(title, "torchrl", result, capacity=capacity)


def slices(rounds: int, capacities: tuple[int, ...] = (10**4, 10**5, 10**6, 10**7, 10**8)) -> Rows:
    """Slices against the capacity."""
    return [written_and_drawn("SliceSampler", size, rounds, size <= 10**7) for size in capacities]


def prioritized_slices(rounds: int) -> Rows:
    """The same with priorities; torchrl's takes seconds from 10^6 steps."""
    name, trees = "PrioritizedSliceSampler", has_trees()
    return [
        written_and_drawn(name, size, rounds, trees and size <= 10**4, max_capacity=size, alpha=0.6, beta=0.4)
        for size in (10**4, 10**6)
    ]


CASES = {case.__name__: case for case in (uniform, priorities, slices, prioritized_slices)}
