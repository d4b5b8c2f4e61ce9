"""Uniform samplers, on a storage that has only what samplers may read."""

import json

import numpy as np
import pytest
from helpers.cases import raises
from helpers.data.ring_storage import RingStorage, check_state, filled

from lite import TensorDict
from lite.data import (
    LazyTensorStorage,
    ListStorage,
    RandomSampler,
    ReplayBuffer,
    SamplerWithoutReplacement,
    StalenessAwareSampler,
)


def test_an_empty_storage_is_an_error():
    for sampler in (RandomSampler(), SamplerWithoutReplacement()):
        for shape in ((4,), (4, 2)):
            assert not sampler.can_sample(RingStorage(*shape), 3)
            assert sampler.can_sample(filled(1), 3)
            raises(RuntimeError, "empty storage", sampler.sample, RingStorage(*shape), 3)


def test_random_indices_are_uniform_over_what_is_filled():
    storage = RingStorage(10)
    storage.write(7)
    index, info = RandomSampler(generator=0).sample(storage, 70_000)
    assert info == {}
    assert isinstance(index, np.ndarray)
    assert index.dtype == np.int64
    counts = np.bincount(index)
    assert counts.shape == (7,)
    np.testing.assert_array_less(((counts - 10_000) ** 2 / 10_000).sum(), 22.5)  # chi-square, 6 degrees: 0.1%


def test_how_much_was_shown():
    sampler = SamplerWithoutReplacement(generator=0)
    assert repr(sampler) == "SamplerWithoutReplacement( 0.0000% sampled)"
    sampler.sample(filled(4), 1)
    assert repr(sampler) == "SamplerWithoutReplacement( 75.0000% sampled)"  # what is left, as in TorchRL


def test_without_replacement_shows_everything_once():
    sampler, storage = SamplerWithoutReplacement(generator=0), filled(10)
    for _ in range(3):
        batches = []
        for left in (2, 1, 3):
            batches.append(sampler.sample(storage, 4)[0])
            assert sampler.ran_out == (left == 3)
            assert sampler._remaining_batches == left
        assert [len(batch) for batch in batches] == [4, 4, 2]
        assert sorted(np.concatenate(batches)) == list(range(10))


def test_without_replacement_can_drop_the_last_batch():
    sampler, storage = SamplerWithoutReplacement(drop_last=True, generator=0), filled(10)
    for _ in range(3):
        first = sampler.sample(storage, 4)[0]
        assert not sampler.ran_out
        second = sampler.sample(storage, 4)[0]
        assert sampler.ran_out
        assert len(set(first) | set(second)) == 8
    assert len(set(sampler.sample(storage, 10)[0])) == 10
    assert [sampler.can_sample(storage, size) for size in (10, 11)] == [True, False]
    with pytest.raises(ValueError, match="batch_size must be at most"):
        sampler.sample(storage, 11)


def test_without_replacement_and_shuffling_goes_in_order():
    sampler, storage = SamplerWithoutReplacement(shuffle=False), filled(3, 2)
    rows, columns = sampler.sample(storage, 4)[0]
    assert rows.tolist() == [0, 0, 1, 1]
    assert columns.tolist() == [0, 1, 0, 1]


def test_a_storage_that_grew_is_shown_anew():
    sampler, storage = SamplerWithoutReplacement(generator=0), RingStorage(6)
    storage.write(3)
    sampler.sample(storage, 2)
    storage.write(2)
    assert sorted(sampler.sample(storage, 5)[0]) == [0, 1, 2, 3, 4]
    sampler._empty()
    assert sorted(sampler.sample(storage, 9)[0]) == [0, 1, 2, 3, 4]


def test_the_state_can_be_restored(tmp_path):
    for kind in (RandomSampler, SamplerWithoutReplacement):
        for after in (0, 3):
            sampler, storage = kind(generator=0), filled(50)
            for _ in range(after):
                sampler.sample(storage, 16)
            check_state(sampler, lambda kind=kind: kind(generator=1), tmp_path / "state", storage, 16)


def test_a_state_that_is_none_changes_nothing():
    sampler, storage = SamplerWithoutReplacement(generator=0), filled(5)
    sampler.sample(storage, 2)
    state = sampler.state_dict()
    for wrong in ({"_sample_list": [5]}, {"_sample_list": [-1]}, {"_sample_list": [[1]]}, {"len_storage": 1}):
        raises(ValueError, "_sample_list", sampler.load_state_dict, state | wrong)
    raises(KeyError, "", lambda: sampler.load_state_dict({"len_storage": 1}))
    np.testing.assert_array_equal(sampler.state_dict()["_sample_list"], state["_sample_list"])
    assert json.loads(sampler.state_dict()["rng"]) == json.loads(state["rng"])


def test_a_restored_generator_is_not_the_buffers():
    shared = np.random.default_rng(5)
    sampler = RandomSampler()
    sampler._rng = shared
    before = shared.bit_generator.state
    state = RandomSampler(generator=3).state_dict()
    sampler.load_state_dict(state)
    assert shared.bit_generator.state == before
    assert sampler.state_dict() == state
    storage = filled(100)
    np.testing.assert_array_equal(
        sampler.sample(storage, 9)[0], RandomSampler(generator=3).sample(storage, 9)[0]
    )


def test_priorities_are_refused_with_a_warning():
    with pytest.warns(UserWarning, match="RandomSampler is not a prioritized sampler"):
        RandomSampler().update_priority(0, 1.0)
    assert RandomSampler().default_priority == 1.0


def versioned(versions, ndim=1, kind=LazyTensorStorage):
    versions = np.asarray(versions)
    words = {} if kind is ListStorage else {"ndim": ndim}
    buffer = ReplayBuffer(storage=kind(versions.size, **words))
    buffer.extend(TensorDict({"policy_version": versions}, versions.shape))
    return buffer.storage


def test_fresh_entries_are_drawn_more_often():
    for kind in (LazyTensorStorage, ListStorage):
        sampler = StalenessAwareSampler(max_staleness=3, generator=0)
        sampler.consumer_version = 4
        index, info = sampler.sample(versioned([0, 1, 2, 4, 3], kind=kind), 70_000)
        assert index.dtype == np.int64
        counts = np.bincount(index, minlength=5)
        assert counts[0] == 0  # too stale
        wanted = 70_000 * np.array([1 / 4, 1 / 3, 1, 1 / 2]) / (25 / 12)
        assert ((counts[1:] - wanted) ** 2 / wanted).sum() < 16.3  # chi-square, 3 degrees: 0.1%
        np.testing.assert_array_equal(info["staleness"], np.float32([4, 3, 2, 0, 1])[index])
        assert info["staleness"].dtype == np.float32


def test_different_entries_where_there_are_enough():
    sampler = StalenessAwareSampler(staleness_weight_fn=lambda staleness: staleness + 1, generator=0)
    assert sorted(sampler.sample(versioned(np.zeros(6)), 6)[0]) == list(range(6))
    sampler.consumer_version = 8
    index, info = sampler.sample(versioned(np.arange(8).reshape(4, 2), 2), 8)
    # time is first there
    assert sorted(zip(*index, strict=True)) == [(i, j) for i in range(2) for j in range(4)]
    np.testing.assert_array_equal(info["staleness"], np.float32(8 - index[0] - 2 * index[1]))


def test_versions_and_errors():
    sampler = StalenessAwareSampler(max_staleness=1)
    sampler.increment_consumer_version()
    other = StalenessAwareSampler()
    other.load_state_dict(sampler.state_dict())
    assert (other.consumer_version, other.max_staleness) == (1, 1)
    assert repr(other) == "StalenessAwareSampler(consumer_version=1, max_staleness=1)"
    of_now = StalenessAwareSampler(max_staleness=0)
    of_now.consumer_version = 2
    assert set(of_now.sample(versioned([0, 2, 1, 2]), 20)[0].tolist()) == {1, 3}
    sampler.consumer_version = 9
    with pytest.raises(RuntimeError, match="all 3 entries are staler than max_staleness=1"):
        sampler.sample(versioned([0, 1, 2]), 2)
    raises(RuntimeError, "empty storage", lambda: sampler.sample(LazyTensorStorage(3), 2))
    raises(KeyError, "version", StalenessAwareSampler(version_key="version").sample, versioned([0]), 2)
    sampler._empty()
    assert sampler.consumer_version == 0
    for weights, wrong in (
        (None, "inf for a staleness of -1.0"),  # whoever learns has not counted
        (lambda staleness: staleness - 1, "-1.0 for a staleness of 0.0"),
        (lambda staleness: staleness * np.nan, "nan for a staleness of 0.0"),
        (lambda staleness: staleness[:1], r"of shape \(1,\), expected \(3,\)"),
    ):
        wild = StalenessAwareSampler(staleness_weight_fn=weights)
        wild.consumer_version = 0 if weights is None else 2
        with (
            pytest.raises(RuntimeError, match=f"staleness_weight_fn .*{wrong}"),
            np.errstate(divide="ignore"),
        ):
            wild.sample(versioned([2, 1, 0] if weights else [0, 1, 0]), 2)
    once = StalenessAwareSampler(staleness_weight_fn=lambda staleness: staleness == 0)
    once.consumer_version = 2
    with pytest.raises(RuntimeError, match="1 of 3 entries have a weight above 0, and batch_size is 2"):
        once.sample(versioned([2, 1, 0]), 2)
    assert once.sample(versioned([2, 1, 0]), 5)[0].tolist() == [0] * 5
    for kind, words, message in (
        (TypeError, {"max_staleness": 1.5}, "max_staleness must be an integer, got 1.5"),
        (ValueError, {"max_staleness": -2}, "max_staleness must be from -1 on, got -2"),
        (TypeError, {"staleness_weight_fn": 3}, "staleness_weight_fn must be callable, got 3"),
    ):
        raises(kind, message, StalenessAwareSampler, **words)
