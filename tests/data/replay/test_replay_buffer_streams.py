"""Whatever the chunks that frames come in, a buffer holds what `MultiStep` gives for the whole stream.

60 random streams, or as many as LITE_STREAM_CASES says.
"""

import itertools
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lite import TensorDict
from lite.data import (
    LazyMemmapStorage,
    LazyTensorStorage,
    MultiStep,
    MultiStepTransform,
    TensorDictReplayBuffer,
)


@st.composite
def streams(draw):
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=8))
    seed = draw(st.integers(0, 2**32 - 1))
    rate = draw(st.sampled_from([0.0, 0.1, 0.5]))
    return sizes, seed, rate


def whole(count: int, seed: int, rate: float) -> TensorDict:
    rng = np.random.default_rng(seed)
    obs = rng.integers(0, 99, (count + 1, 2)).astype(np.float32)
    end = rng.random((count, 1)) < rate
    return TensorDict(
        {
            "obs": obs[:-1],
            "id": np.arange(count),
            "next": {"obs": np.where(end, -1, obs[1:]), "reward": rng.normal(size=(count, 1)), "done": end},
        },
        [count],
    )


def bits(td: TensorDict) -> dict:
    return {key: (leaf.dtype, leaf.shape, leaf.tobytes()) for key, leaf in td.items(True, True)}


def check(storage, stream, n_steps: int, one_by_one: bool) -> None:
    sizes, seed, rate = stream
    count = sum(sizes)
    frames = whole(count, seed, rate)
    buffer = TensorDictReplayBuffer(storage=storage, transform=MultiStepTransform(n_steps, 0.9))
    indices = []
    for a, b in itertools.pairwise([0, *itertools.accumulate(sizes)]):
        if one_by_one:
            indices += [np.atleast_1d(buffer.add(frames[i])) for i in range(a, b)]
        else:
            indices.append(buffer.extend(frames[a:b]))
        assert len(buffer) == min(max(0, b - n_steps), storage.max_size)
    indices.append(buffer.flush())
    rows = storage.max_size
    np.testing.assert_array_equal(np.concatenate(indices), np.arange(count) % rows)
    expected = MultiStep(0.9, n_steps, mask_key="mask")(frames)
    kept = np.arange(max(0, count - rows), count)
    assert bits(buffer.storage.get(kept % rows)) == bits(expected[kept])


CASES = int(os.environ.get("LITE_STREAM_CASES", "60"))


@pytest.mark.depth
@settings(max_examples=CASES)
@given(streams(), st.integers(1, 6), st.sampled_from([7, 20, 100]), st.booleans(), st.booleans())
def test_in_memory(stream, n_steps, capacity, compress, one_by_one) -> None:
    check(LazyTensorStorage(capacity, compress_next=compress), stream, n_steps, one_by_one)


@settings(max_examples=max(1, CASES // 10))
@given(streams(), st.integers(1, 6), st.sampled_from([7, 20, 100]), st.booleans(), st.booleans())
def test_in_mapped_files(stream, n_steps, capacity, compress, one_by_one) -> None:
    check(LazyMemmapStorage(capacity, compress_next=compress), stream, n_steps, one_by_one)
