"""Draws in proportion to priorities, and what becomes of priorities."""

import pickle

import numpy as np
import pytest
from helpers.cases import raises
from helpers.data.ring_storage import RingStorage, check_state, filled

from lite.data import PrioritizedSampler


def made(priority, **options) -> PrioritizedSampler:
    options = {"alpha": 0.7, "beta": 0.9, "generator": 0} | options
    sampler = PrioritizedSampler(len(priority), **options)
    sampler.update_priority(np.arange(len(priority)), priority)
    return sampler


def test_probabilities_and_weights():
    for alpha, beta, dtype in ((0.7, 0.9, np.float32), (1.0, 0.0, np.float64), (0.0, 1.0, np.float32)):
        priority = np.array([0.5, 3.0, 0.1, 2.0, 1.0])
        sampler = made(priority, alpha=alpha, beta=beta, eps=0.01, dtype=dtype)
        index, info = sampler.sample(filled(5), 50_000)
        power = (priority + 0.01) ** alpha
        expected = 50_000 * power / power.sum()
        counts = np.bincount(index, minlength=5)
        np.testing.assert_array_less(((counts - expected) ** 2 / expected).sum(), 18.5)  # 4 degrees: 0.1%
        weight = info["priority_weight"]
        assert weight.dtype == dtype
        np.testing.assert_allclose(weight, ((power / power.min()) ** -beta)[index], rtol=1e-5)


def test_a_priority_of_zero_is_never_drawn_in_float32():
    """With eps so small that nothing is left of it beside the others."""
    priority = np.ones(10_000)
    priority[::2] = 0
    sampler = made(priority, eps=1e-30, alpha=1.0)
    index, _ = sampler.sample(filled(10_000), 100_000)
    assert (index % 2 == 1).all()


def test_new_entries_have_the_highest_priority_so_far():
    sampler = PrioritizedSampler(6, 1.0, 1.0, eps=0.0)
    assert sampler.default_priority == 1.0
    assert repr(sampler) == "PrioritizedSampler(alpha=1.0, beta=1.0, eps=0.0, reduction=max)"
    sampler.mark_update(0)
    sampler.update_priority([1, 2], [5.0, 2.0])
    sampler.update_priority(1, 0.5)
    sampler.mark_update(np.array([3, 4]))
    np.testing.assert_array_equal(sampler._leaves(), [1, 0.5, 2, 5, 5, 0])
    assert sampler.default_priority == 5.0


def test_the_highest_priority_that_is_stored_now():
    sampler = PrioritizedSampler(4, 0.5, 1.0, eps=0.0, dtype=np.float64, max_priority_within_buffer=True)
    sampler.update_priority(np.arange(4), [1.0, 9.0, 4.0, 2.0])
    assert sampler.default_priority == 9.0
    sampler.update_priority([1, 3], [3.0, 0.0])
    assert sampler.default_priority == pytest.approx(4.0)
    sampler.mark_update(np.array([2, 3]))  # written over; the new ones begin with what was the highest
    assert sampler.default_priority == 1.0
    np.testing.assert_allclose(sampler._leaves() ** 2, [1, 3, 4, 4])
    sampler.update_priority([0], 2.0)
    assert sampler.default_priority == pytest.approx(4.0)  # which the new ones have


def test_negative_indices_are_left_out():
    sampler = PrioritizedSampler(4, 1.0, 1.0, eps=0.0)
    sampler.update_priority([-1, 0, 1, -1], [9.0, 1.0, 2.0, 9.0])
    sampler.update_priority([-1], 9.0)
    sampler.update_priority(-1, 9.0)
    sampler.update_priority([], [])
    np.testing.assert_array_equal(sampler._leaves(), [1, 2, 0, 0])
    assert sampler.default_priority == 2.0


def test_any_form_of_index_and_priority():
    storage = filled(3, 2)
    sampler = PrioritizedSampler(6, 1.0, 1.0, eps=0.0)
    rows, columns = np.array([2, 0]), np.array([1, 1])
    sampler.update_priority((rows, columns), np.array([[3.0], [4.0]]), storage=storage)
    np.testing.assert_array_equal(sampler._leaves(), [0, 4, 0, 0, 0, 3])
    sampler.update_priority(np.stack([rows, columns], -1), 2, storage=storage)
    np.testing.assert_array_equal(sampler._leaves(), [0, 2, 0, 0, 0, 2])
    sampler.update_priority(3, np.float32(5))
    sampler.update_priority(np.int64(0), [1.0])
    np.testing.assert_array_equal(sampler._leaves(), [1, 2, 0, 5, 0, 2])
    index, _ = sampler.sample(storage, 100)
    assert isinstance(index, tuple)
    assert {(1, 1), (0, 1), (2, 1)} <= set(zip(index[0].tolist(), index[1].tolist(), strict=True))


def test_priorities_that_are_none_are_refused_and_change_nothing():
    for bad in (np.nan, -1.0, np.inf):
        sampler = made([1.0, 2.0, 3.0])
        before = pickle.dumps(sampler.state_dict())
        for index, priority in (([0, 1], [0.0, bad]), (1, bad), ([0, 1], bad)):
            with pytest.raises(ValueError, match=f"priority must be finite and at least 0, got {bad}"):
                sampler.update_priority(index, priority)
        assert pickle.dumps(sampler.state_dict()) == before


def test_wrong_arguments_are_named_and_change_nothing():
    sampler = made([1.0, 2.0, 3.0])
    before = pickle.dumps(sampler.state_dict())
    with pytest.raises(IndexError, match="index must be below max_capacity=3, got 3"):
        sampler.update_priority([0, 3], [5.0, 5.0])
    with pytest.raises(RuntimeError, match="priority must be one number or one for each index"):
        sampler.update_priority([0, 1], [1.0, 2.0, 3.0])
    raises(TypeError, "index must be integers", lambda: sampler.update_priority([0.5], 1.0))
    raises(RuntimeError, "storage must be given", lambda: sampler.update_priority(np.zeros((1, 2), int), 1.0))
    with pytest.raises(RuntimeError, match="index must have 1 parts"):
        sampler.update_priority(np.zeros((1, 2), int), 1.0, storage=filled(3))
    with pytest.raises(ValueError, match="values must be finite"):
        made([1.0], alpha=2.0).update_priority(0, 1e30)  # too large for float32, to the power of alpha
    assert pickle.dumps(sampler.state_dict()) == before
    for options in ({"alpha": -0.1}, {"beta": -0.1}, {"alpha": np.nan}):
        raises(ValueError, "must be at least 0", made, [1.0], **options)
    raises(NotImplementedError, "dtype must be", lambda: made([1.0], dtype=np.float16))
    raises(NotImplementedError, "reduction must be one of", lambda: made([1.0], reduction="first"))


def test_what_cannot_be_drawn_from_is_an_error():
    raises(RuntimeError, "empty storage", lambda: made([1.0, 1.0]).sample(RingStorage(2), 1))
    with pytest.raises(RuntimeError, match="priorities must sum to a positive number"):
        PrioritizedSampler(2, 1.0, 1.0).sample(filled(2), 1)
    raises(RuntimeError, "none be 0", lambda: made([1.0, 0.0], eps=0.0).sample(filled(2), 1))
    raises(RuntimeError, "the storage has 1 entries", lambda: made([1e-9, 1.0]).sample(filled(1), 100))


def test_alpha_can_be_changed():
    sampler = made([1.0, 2.0, 3.0, 0.0], alpha=0.5, eps=0.25, dtype=np.float64)
    sampler.alpha = 2.0
    np.testing.assert_allclose(sampler._leaves(), np.array([1.25, 2.25, 3.25, 0.25]) ** 2)
    np.testing.assert_allclose(sampler._sum_tree[1], sampler._leaves().sum())
    np.testing.assert_allclose(sampler._min_tree[1], 0.0625)
    assert sampler.default_priority == 3.0
    sampler.alpha = 0
    with pytest.warns(UserWarning, match="alpha was 0"):
        sampler.alpha = 1.0
    np.testing.assert_array_equal(sampler._leaves(), 1)
    sampler.beta = 0.25
    assert (sampler.alpha, sampler.beta) == (1.0, 0.25)
    with pytest.raises(ValueError, match="alpha must be at least 0, got -1"):
        sampler.alpha = -1
    with pytest.raises(ValueError, match="beta must be at least 0, got -1"):
        sampler.beta = -1
    half = PrioritizedSampler(4, 0.5, 1.0)
    half.update_priority([0, 1], [1.0, 2.0])
    half.alpha = 2.0
    assert not half._leaves()[2:].any()  # what is not written is never drawn


def test_the_state_can_be_restored(tmp_path):
    storage = filled(100)
    sampler = made(np.random.default_rng(0).random(100))
    sampler.sample(storage, 10)
    check_state(sampler, lambda: PrioritizedSampler(100, 0.1, 0.2, generator=1), tmp_path, storage, 30)
    state = sampler.state_dict()
    raises(RuntimeError, "max_capacity is 7", lambda: PrioritizedSampler(7, 1.0, 1.0).load_state_dict(state))
    raises(RuntimeError, "max_capacity is 7", PrioritizedSampler(7, 1.0, 1.0).loads, tmp_path)
    PrioritizedSampler(5, 1.0, 1.0).dumps(tmp_path / "fresh")  # which has no priorities
    other = made([1.0] * 4 + [9.0])
    other.loads(tmp_path / "fresh")
    assert other.default_priority == 1
    assert (np.fromfile(tmp_path / "fresh" / "mintree.memmap") == np.finfo(np.float32).max).all()
    before = pickle.dumps(sampler.state_dict())
    numbers = (
        {"_alpha": -1.0},
        {"_alpha": np.nan},
        {"_eps": -1.0},
        {"_beta": np.inf},
        {"_max_priority": np.nan},
    )
    for wrong in ({"_leaves": -state["_leaves"]}, *numbers):
        with pytest.raises(ValueError):
            sampler.load_state_dict(state | wrong)
    assert pickle.dumps(sampler.state_dict()) == before
    empty = PrioritizedSampler(100, 1.0, 1.0)
    empty.load_state_dict(PrioritizedSampler(100, 0.3, 1.0).state_dict())
    assert empty.default_priority == 1.0
    assert empty.alpha == 0.3
    sampler._empty()
    assert not sampler._leaves().any()
