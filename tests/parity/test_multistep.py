"""MultiStep against torchrl's, on random data."""

import numpy as np
import pytest
import tensordict
import torch
from helpers.compared import assert_same_entries
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torchrl.data import postprocs

from lite import TensorDict, lazy_stack
from lite.data import MultiStep

pytestmark = pytest.mark.filterwarnings("ignore")  # of the reference


@st.composite
def layouts(draw):
    """Batch, shape of done and of rewards, in the families that the reference accepts."""
    batch = (*draw(st.lists(st.integers(1, 3), max_size=2)), draw(st.integers(1, 12)))
    agents = draw(st.integers(2, 3))
    done = draw(st.sampled_from(["batch", "trailing one", "per agent"]))
    shape = {"batch": batch, "trailing one": (*batch, 1), "per agent": (*batch, agents)}[done]
    lead = shape if done == "per agent" else batch
    features = draw(st.sampled_from([(), (1,), (3,), (3, 1)]))
    return batch, shape, (*lead, *features), lead


@st.composite
def problems(draw):
    batch, done_shape, reward_shape, lead = draw(layouts())
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    done = rng.random(done_shape) < draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))
    entries = {
        ("observation",): rng.normal(size=(*lead, 2)).astype(np.float32),
        ("next", "done"): done,
        ("next", "terminated"): done & (rng.random(done_shape) < 0.5),
        ("next", "reward"): rng.normal(size=reward_shape).astype(dtype),
        ("next", "observation"): rng.normal(size=(*lead, 2)).astype(np.float32),
        ("next", "nested", "count"): rng.integers(0, 99, (*lead, 1)),
        ("next", "nested", "done"): done.copy(),
    }
    if draw(st.booleans()):
        entries["collector", "mask"] = rng.random(lead) < 0.7
    gamma, n_steps = draw(st.sampled_from([0.5, 0.9, 0.99, 1.0])), draw(st.integers(1, 15))
    return batch, entries, gamma, n_steps


def theirs(batch, entries, gamma, n_steps, **attributes):
    td = tensordict.TensorDict({}, batch_size=batch)
    for key, value in entries.items():
        td.set(key, torch.from_numpy(value.copy()))
    step = postprocs.MultiStep(gamma, n_steps)
    for name, value in attributes.items():
        setattr(step, name, value)
    return step(td)


def ours(batch, entries, gamma, n_steps, **attributes):
    td = TensorDict({}, batch_size=batch)
    for key, value in entries.items():
        td.set(key, value)
    return MultiStep(gamma, n_steps, **attributes)(td)


def compare(ours, theirs):
    assert_same_entries(ours, theirs)
    assert ours["next"].batch_size == tuple(theirs["next"].batch_size)


@settings(max_examples=150)
@given(problems())
def test_same_entries(problem):
    compare(ours(*problem), theirs(*problem))


@settings(max_examples=30)
@given(problems(), st.sampled_from(["done_keys", "reward_keys", "mask_key"]))
def test_same_entries_for_other_keys(problem, which):
    batch, entries, gamma, n_steps = problem
    if which == "done_keys":
        attributes = {"done_keys": ("done", ("nested", "done"))}
    elif which == "reward_keys":
        reward = entries["next", "reward"]
        assume(reward.dtype == np.float32)
        entries["next", "group", "reward"] = reward * 2 + 1
        attributes = {"reward_keys": ("reward", ("group", "reward"))}
    else:
        attributes = {"mask_key": None}
    compare(
        ours(batch, entries, gamma, n_steps, **attributes),
        theirs(batch, entries, gamma, n_steps, **attributes),
    )


@settings(max_examples=20)
@given(problems(), st.booleans())
def test_same_entries_for_lazy_stacks(problem, last):
    batch, entries, gamma, n_steps = problem
    assume(entries["next", "done"].shape in (batch, (*batch, 1)))
    dim = len(batch) - 1 if last else 0
    td = TensorDict({}, batch_size=batch)
    reference = tensordict.TensorDict({}, batch_size=batch)
    for key, value in entries.items():
        td.set(key, value)
        reference.set(key, torch.from_numpy(value.copy()))
    out = MultiStep(gamma, n_steps)(lazy_stack(list(td.unbind(dim)), dim))
    expected = postprocs.MultiStep(gamma, n_steps)(tensordict.lazy_stack(list(reference.unbind(dim)), dim))
    compare(out, expected)


@pytest.mark.parametrize("n_steps", [1, 3, 6])
def test_the_same_state_dict(n_steps):
    step, reference = MultiStep(0.9, n_steps), postprocs.MultiStep(0.9, n_steps)
    assert list(step.state_dict()) == list(reference.state_dict())
    np.testing.assert_allclose(step.gammas, reference.gammas.numpy(), rtol=1e-6)


def test_incompatible_shapes_raise_the_same_error():
    done, action = np.zeros((2, 5, 3), bool), np.zeros((2, 5))
    entries = {
        ("action",): action,
        ("next", "done"): done,
        ("next", "reward"): np.zeros((2, 5, 3), np.float32),
    }
    for run in (ours, theirs):
        with pytest.raises(RuntimeError, match="tensordict shape must be compatible"):
            run((2, 5), entries, 0.9, 3)
