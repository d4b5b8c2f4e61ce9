"""MultiStepTransform against torchrl's, on random streams cut into random chunks."""

import numpy as np
import pytest
import tensordict
import torch
from helpers.compared import assert_same_entries
from hypothesis import given, settings
from hypothesis import strategies as st
from torchrl.envs import transforms

from lite import TensorDict
from lite.data import MultiStepTransform

pytestmark = pytest.mark.filterwarnings("ignore")  # of the reference


def stream(rng, batch, length, rate, *, trailing, masked):
    shape = (*batch, length, 1) if trailing else (*batch, length)
    done = rng.random(shape) < rate
    entries = {
        "step": np.broadcast_to(np.arange(length), (*batch, length)).copy(),
        ("next", "done"): done,
        ("next", "terminated"): done & (rng.random(shape) < 0.5),
        ("next", "reward"): rng.normal(size=shape).astype(np.float32),
        ("next", "observation"): rng.normal(size=(*batch, length, 2)).astype(np.float32),
        ("next", "nested", "done"): done.copy(),
    }
    if masked:
        entries["mask"] = rng.random((*batch, length)) < 0.7
    return entries


@st.composite
def problems(draw):
    """A stream, and for each chunk its length and what n_steps is for it."""
    batch = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    chunks = draw(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 6)), min_size=1, max_size=6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    entries = stream(
        rng,
        batch,
        sum(length for length, _ in chunks),
        draw(st.sampled_from([0.0, 0.1, 0.5, 1.0])),
        trailing=draw(st.booleans()),
        masked=draw(st.booleans()),
    )
    return batch, entries, chunks, draw(st.sampled_from([0.5, 0.9, 1.0]))


def run(transform, batch, chunks, build):
    outs, start = [], 0
    for length, n_steps in chunks:
        transform.n_steps = n_steps
        outs.append(transform.inv(build(batch, start, start + length)))
        start += length
    return outs


def compare(problem, **settings_):
    batch, entries, chunks, gamma = problem

    def build(leaf, cls):
        def chunk(batch, start, stop):
            at = (slice(None),) * len(batch) + (slice(start, stop),)
            td = cls({}, batch_size=(*batch, stop - start))
            for key, value in entries.items():
                td.set(key, leaf(value[at].copy()))
            return td

        return chunk

    first = chunks[0][1]
    ours = run(
        MultiStepTransform(first, gamma, **settings_), batch, chunks, build(lambda array: array, TensorDict)
    )
    theirs = run(
        transforms.MultiStepTransform(first, gamma, **settings_),
        batch,
        chunks,
        build(torch.from_numpy, tensordict.TensorDict),
    )
    for out, expected in zip(ours, theirs, strict=True):
        assert (out is None) == (expected is None)
        if out is not None:
            assert_same_entries(out, expected)


@settings(max_examples=60)
@given(problems())
def test_same_frames(problem):
    compare(problem)


@settings(max_examples=20)
@given(problems())
def test_same_frames_for_other_keys(problem):
    compare(
        problem,
        reward_keys=["reward", "observation"],
        done_key=("nested", "done"),
        done_keys=["done", ("nested", "done")],
        mask_key="unknown",
    )


def test_attributes():
    a, b = MultiStepTransform(3, 0.9), transforms.MultiStepTransform(3, 0.9)
    for name in ("n_steps", "gamma", "reward_keys", "done_key", "done_keys", "mask_key"):
        assert getattr(a, name) == getattr(b, name), name
    assert list(a.state_dict()) == list(b.state_dict()) == []


@pytest.mark.parametrize("value", [0, -1, 1.5, "3"])
def test_n_steps_that_are_no_counts(value):
    for cls in (MultiStepTransform, transforms.MultiStepTransform):
        with pytest.raises(ValueError, match="integer"):
            cls(value, 0.9)


def test_samples_pass_through():
    for cls, td in (
        (MultiStepTransform, TensorDict({"a": np.zeros(3)}, batch_size=[3])),
        (transforms.MultiStepTransform, tensordict.TensorDict({"a": torch.zeros(3)}, batch_size=[3])),
    ):
        assert cls(3, 0.9)(td) is td


def test_other_keys_in_a_later_chunk_raise_the_same_error():
    for transform, td in (
        (
            MultiStepTransform(1, 0.9),
            TensorDict({"next": {"done": np.zeros(3, bool), "reward": np.zeros(3)}}, batch_size=[3]),
        ),
        (
            transforms.MultiStepTransform(1, 0.9),
            tensordict.TensorDict(
                {"next": {"done": torch.zeros(3, dtype=torch.bool), "reward": torch.zeros(3)}}, batch_size=[3]
            ),
        ),
    ):
        transform.inv(td)
        with pytest.raises(KeyError):
            transform.inv(td.exclude(("next", "reward")))
