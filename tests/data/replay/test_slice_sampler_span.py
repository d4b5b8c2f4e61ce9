"""Slices that reach over the edges of trajectories, and batches of a fixed size."""

from collections import Counter

import numpy as np
import pytest
from helpers.cases import raises
from helpers.data.ring_storage import RingStorage, elements, pieces
from hypothesis import given, settings
from hypothesis import strategies as st

from lite.data import PrioritizedSliceSampler, SliceSampler

SPANS = st.one_of(st.booleans(), st.integers(0, 3))


def filled(rng, rows: int, lanes: tuple[int, ...], counts: list[int]) -> RingStorage:
    """A ring of random episodes that was written in pieces."""
    storage = RingStorage(rows, *lanes, done=bool)
    for count in counts:
        storage.write(count, done=rng.random((count, *lanes)) < 0.3)
    return storage


def allowed(
    trajectories: list[list[tuple[int, ...]]], length: int, strict: bool, left: bool | int, right: bool | int
) -> Counter[tuple[tuple[int, ...], ...]]:
    """Every slice, as often as there are places for its first step, within or before the trajectory."""
    found: Counter[tuple[tuple[int, ...], ...]] = Counter()
    for rows in trajectories:
        if strict and len(rows) < length:
            continue
        steps = min(length, len(rows))
        over = [steps - 1 if side is True else min(int(side), steps - 1) for side in (left, right)]
        for start in range(-over[0], len(rows) - steps + over[1] + 1):
            found[tuple(rows[max(start, 0) : start + steps])] += 1
    return found


@settings(max_examples=30)
@given(
    st.integers(1, 12), st.sampled_from([(), (3,)]), st.lists(st.integers(1, 12), min_size=1, max_size=3),
    st.booleans(), st.integers(1, 4), SPANS, SPANS, st.booleans(), st.integers(0, 2**32),
)  # fmt: skip
def test_which_slices_there_are(rows, lanes, counts, strict, more, left, right, padded, seed):
    length = 3 + more
    storage = filled(np.random.default_rng(seed), rows, lanes, counts)
    sampler = SliceSampler(
        slice_len=length, strict_length=strict, span=(left, right),
        pad_output=padded and not strict, generator=seed,
    )  # fmt: skip
    expected = allowed(storage.trajectories("done"), length, strict, left, right)
    if not expected:
        raises(RuntimeError, "no trajectory", sampler.sample, storage, length)
        return
    index, info = sampler.sample(storage, 40 * length)
    if sampler.pad_output:
        real = info["collector", "mask"]
        assert real.shape == (40 * length,)
        by_slice, places = real.reshape(40, length), np.array(elements(index)).reshape(40, length, -1)
        assert (np.diff(by_slice.astype(int), axis=1) <= 0).all()  # steps first, then what fills up
        for steps, row in zip(by_slice.sum(1), places, strict=True):
            assert (row[steps:] == row[steps - 1]).all()
        np.testing.assert_array_equal(
            np.flatnonzero(info["next", "truncated"]), np.arange(40) * length + by_slice.sum(1) - 1
        )
        flags = {("next", "truncated"): info["next", "truncated"][real]}
        index = tuple(part[real] for part in index) if isinstance(index, tuple) else index[real]
        assert {tuple(piece) for piece in pieces(index, flags)} <= set(expected)
    else:
        assert ("collector", "mask") not in info
        found = pieces(index, info)
        assert len(found) == 40
        assert {tuple(piece) for piece in found} <= set(expected)


def test_places_are_drawn_uniformly():
    for span in ((True, True), (2, True), (False, 1), (1, False)):
        storage = RingStorage(7, done=bool)
        storage.write(7, done=[0, 0, 0, 0, 0, 0, 1])
        sampler = SliceSampler(slice_len=3, span=span, generator=0)
        found = Counter(tuple(piece) for piece in pieces(*sampler.sample(storage, 3 * 20_000)))
        expected = allowed(storage.trajectories("done"), 3, True, *span)
        assert found.keys() == expected.keys()
        share = 20_000 / sum(expected.values())
        chi = sum((found[key] - share * count) ** 2 / (share * count) for key, count in expected.items())
        assert chi < 26.1  # 8 degrees: 0.1%


@settings(max_examples=25)
@given(
    st.integers(1, 12), st.sampled_from([(), (3,)]), st.lists(st.integers(1, 12), min_size=1, max_size=5),
    st.booleans(), SPANS, st.booleans(), st.integers(0, 2**32),
)  # fmt: skip
def test_slices_by_priority_reach_over_ends(rows, lanes, counts, strict, right, each, seed):
    """They start where enough of the trajectory is left, also when the ring is written over."""
    rng = np.random.default_rng(seed)
    storage = RingStorage(rows, *lanes, done=bool)
    sampler = PrioritizedSliceSampler(
        storage.max_size, 1.0, 1.0, slice_len=4, strict_length=strict, span=(False, right), generator=seed
    )
    least = 1 if right is True else 4 - int(right)
    for step, count in enumerate(counts):
        places = storage.write(count, done=rng.random((count, *lanes)) < 0.3)
        written = np.arange(storage.max_size).reshape(rows, -1)[places].reshape(-1)
        sampler.update_priority(written, np.ones(len(written)), storage=storage)
        if not each and step + 1 < len(counts):
            continue
        expected = {
            tuple(steps[i : i + 4])
            for steps in storage.trajectories("done")
            for i in range(len(steps))
            if len(steps) - i >= least or (i == 0 and not strict)
        }
        assert sampler.can_sample(storage, 4) == bool(expected)
        if not expected:
            raises(RuntimeError, "no trajectory", sampler.sample, storage, 4)
            continue
        index, info = sampler.sample(storage, 4 * 60)
        found = {tuple(piece) for piece in pieces(index, info)}
        assert found <= expected
        assert len(info["priority_weight"]) == len(elements(index))


def test_arguments_and_errors():
    storage = RingStorage(8, done=bool)
    storage.write(8, done=np.zeros(8))
    with pytest.raises(ValueError, match="pad_output=True needs strict_length=False"):
        SliceSampler(slice_len=2, pad_output=True)
    for wrong in (-1, (1, -2), "left", (True,), 0.5):
        raises((TypeError, ValueError), "span must be", SliceSampler, slice_len=2, span=wrong)
    assert SliceSampler(slice_len=2, span=[False, 1]).span == (False, 1)
    with pytest.raises(ValueError, match="span must be below the 3 steps of a slice, got 3"):
        SliceSampler(slice_len=3, span=(False, 3)).sample(storage, 6)
    with pytest.warns(UserWarning, match="start at the step that was drawn"):
        sampler = PrioritizedSliceSampler(8, 1.0, 1.0, slice_len=3, span=True)
    assert sampler.span == (False, True)
