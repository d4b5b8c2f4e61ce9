import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
from helpers.cases import raises
from helpers.compared import assert_same
from helpers.multistep_vectors import assert_entries, build, cases
from hypothesis import given, settings
from hypothesis import strategies as st

from lite import TensorDict, cat
from lite.data import MultiStep, MultiStepTransform
from lite.nn import Module


def stream(length=30, batch=(), *, rate=0.1, seed=0, start=0):
    """Frames numbered from `start`; the next step is numbered one more."""
    rng = np.random.default_rng(seed)
    shape = (*batch, length)
    step = np.broadcast_to(np.arange(start, start + length), shape).copy()
    return TensorDict(
        {
            "step": step,
            "next": {
                "step": step + 1,
                "reward": rng.normal(size=(*shape, 1)).astype(np.float32),
                "done": rng.random((*shape, 1)) < rate,
            },
        },
        batch_size=shape,
    )


def feed(transform, frames, chunks):
    """What comes out for each chunk."""
    edges = np.cumsum([0, *chunks])
    return [transform.inv(frames[..., a:b]) for a, b in pairwise(edges)]


def joined(outs):
    return cat([out for out in outs if out is not None], -1)


def test_vectors():
    for case in cases("MultiStepTransform"):
        transform = MultiStepTransform(case["n_steps"], case["gamma"])
        counts = case["n_steps_per_call"] or [case["n_steps"]] * len(case["calls"])
        for call, count in zip(case["calls"], counts, strict=True):
            td = build(call["input"], call["batch_size"])
            before = td.clone()
            transform.n_steps = count
            out = transform.inv(td)
            assert (out is None) == (call["expected"] is None)
            if out is not None:
                assert out.batch_size == tuple(call["expected"]["batch_size"])
                assert_entries(out, call["expected"]["entries"])
            assert_same(td, before)


def test_construction():
    transform = MultiStepTransform(3, 0.9)
    assert isinstance(transform, Module)
    assert (transform.n_steps, transform.gamma) == (3, 0.9)
    assert transform.reward_keys == ["reward"]
    assert transform.done_key == "done"
    assert transform.done_keys == ["done", "truncated", "terminated"]
    assert transform.mask_key == "mask"
    assert not transform.state_dict()
    assert MultiStepTransform(True, 1.0).n_steps == 1
    assert MultiStepTransform(np.int64(2), 1.0).n_steps == 2


def test_n_steps_that_are_no_counts():
    for value in (0, -1, 1.5, None, "3"):
        message = "n_steps must be an integer of at least 1, got "
        raises(ValueError, message, MultiStepTransform, value, 0.9)
        transform = MultiStepTransform(3, 0.9)
        with pytest.raises(ValueError, match=message):
            transform.n_steps = value
        assert transform.n_steps == 3


def test_gamma_out_of_range():
    for gamma in (0.0, 5.0, float("nan")):
        raises(ValueError, r"gamma must be in \(0, 1\], got", MultiStepTransform, 3, gamma)


@st.composite
def streams(draw):
    batch = draw(st.sampled_from([(), (2,), (2, 3)]))
    chunks = draw(st.lists(st.integers(0, 7), min_size=1, max_size=8))
    rate, seed = draw(st.sampled_from([0.0, 0.1, 0.5, 1.0])), draw(st.integers(0, 2**32))
    frames = stream(sum(chunks), batch, rate=rate, seed=seed)
    if draw(st.booleans()):
        frames["mask"] = np.random.default_rng(seed).random(frames.batch_size) < 0.8
    return frames, chunks, draw(st.integers(1, 9)), draw(st.booleans())


@settings(max_examples=40)
@given(streams())
def test_any_stream_in_any_chunks(problem):
    """With what `flush` gives, chunks come out as `MultiStep` gives the whole stream."""
    frames, chunks, n_steps, shift_done = problem
    transform = MultiStepTransform(n_steps, 0.9, shift_done=shift_done)
    outs = [*feed(transform, frames, chunks), transform.flush()]
    expected = MultiStep(0.9, n_steps, mask_key="mask", shift_done=shift_done)(frames)
    if frames.batch_size[-1]:
        assert_same(joined(outs), expected)
    else:
        assert outs == [None] * len(outs)


def test_single_frames():
    """Without batch dimensions a TensorDict is one frame."""
    for single in ((), (1,)):
        frames = stream(10, rate=0.0)
        frames["next", "reward"] = np.arange(10, dtype=np.float32)[:, None]
        transform = MultiStepTransform(3, 1.0)
        out = joined([transform.inv(frames[t].reshape(single)) for t in range(10)])
        assert out.batch_size == (7,)
        assert (out["steps_to_next_obs"] == 3).all()
        np.testing.assert_array_equal(out["next", "original_reward"][:, 0], np.arange(7))
        np.testing.assert_array_equal(out["next", "reward"][:, 0], 3 * np.arange(7) + 3)


def test_flush_ends_the_stream():
    transform = MultiStepTransform(3, 0.9)
    transform.inv(stream(12))
    assert len(transform.flush()) == 3
    assert transform.flush() is None
    assert transform.inv(stream(3)) is None


def test_reset_forgets():
    transform = MultiStepTransform(3, 0.9)
    transform.inv(stream(12))
    transform.reset()
    assert_same(transform.inv(stream(9)), MultiStepTransform(3, 0.9).inv(stream(9)))


def test_recycled_buffers_do_not_reach_earlier_frames():
    """Neither what is withheld nor what came out shares memory with the arrays of a chunk."""
    transform = MultiStepTransform(3, 0.9)
    frames, buffer = stream(20), stream(5)
    outs = []
    for start in range(0, 20, 5):
        buffer.update_(frames[start : start + 5])
        outs.append(transform.inv(buffer))
        for array in buffer.values(True, True):
            array[...] = 1
    assert_same(joined(outs), MultiStepTransform(3, 0.9).inv(frames))


def test_writing_to_what_came_out_does_not_reach_withheld_frames():
    transform, expected = MultiStepTransform(3, 0.9), MultiStepTransform(3, 0.9)
    out = transform.inv(stream(9))
    expected.inv(stream(9))
    for array in out.values(True, True):
        array[...] = 1
    assert_same(transform.flush(), expected.flush())


def test_withheld_frames_keep_no_memory_of_others():
    transform = MultiStepTransform(3, 0.9)
    transform.inv(stream(1000))
    assert all(array.base is None or len(array.base) <= 3 for array in transform._withheld.values(True, True))


def test_no_frames_are_none():
    transform = MultiStepTransform(2, 0.9)
    for shape, none in (((2, 0), True), ((0,), True), ((0, 2), False), ((2,), False)):
        transform.withheld = TensorDict(batch_size=shape)
        assert (transform.withheld is None) is none, shape


def test_after_an_error_the_withheld_frames_are_what_they_were():
    transform, expected = MultiStepTransform(3, 0.9), MultiStepTransform(3, 0.9)
    transform.inv(stream(9))
    expected.inv(stream(9))
    raises(KeyError, "step", lambda: transform.inv(stream(4).exclude("step")))
    raises(RuntimeError, "batch sizes must agree", lambda: transform.inv(stream(4, (2,))))
    transform.done_key = "over"
    for call in (lambda: transform.inv(stream(4)), transform.flush):
        raises(KeyError, r"MultiStepTransform reads the entry \('next', 'over'\), which the", call)
    transform.done_key = None
    transform.gamma = 5.0
    raises(ValueError, r"gamma must be in \[0, 1\], got 5.0", lambda: transform.inv(stream(4)))
    transform.gamma = 0.9
    assert_same(transform.inv(stream(4, seed=1)), expected.inv(stream(4, seed=1)))


def test_a_chunk_that_fails_first_is_not_kept():
    transform = MultiStepTransform(3, 0.9)
    raises(KeyError, "reward", lambda: transform.inv(stream(9).exclude(("next", "reward"))))
    assert transform.flush() is None


def test_what_is_no_tensordict_is_a_type_error():
    with pytest.raises(TypeError, match="MultiStepTransform needs a TensorDict, got dict"):
        MultiStepTransform(3, 0.9).inv({"next": {}})


def test_copies_go_on_by_themselves():
    for copied in (copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))):
        transform = MultiStepTransform(3, 0.9)
        transform.inv(stream(9))
        other = copied(transform)
        transform.reset()
        np.testing.assert_array_equal(other.flush()["step"], [6, 7, 8])
