"""Processing of trajectories against TorchRL's: multi-step returns, splits, dense rewards."""

import functools

import numpy as np
import pytest
import tensordict
import torch
from helpers.compared import assert_same_entries
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torchrl.collectors.utils import split_trajectories as reference
from torchrl.data import DensifyReward as reference_dense
from torchrl.data import postprocs
from torchrl.envs import transforms

from lite import NonTensorStack, TensorDict, lazy_stack
from lite.data import DensifyReward, MultiStep, MultiStepTransform, split_trajectories

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


@settings(max_examples=50)
@given(problems())
def test_same_entries(problem):
    compare(ours(*problem), theirs(*problem))


@settings(max_examples=10)
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


@settings(max_examples=10)
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
def problems_stream(draw):
    """A stream, and for each chunk its length and what n_steps is for it."""
    batch = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    chunks = draw(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 6)), min_size=1, max_size=6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    entries = stream(
        rng, batch, sum(length for length, _ in chunks), draw(st.sampled_from([0.0, 0.1, 0.5, 1.0])),
        trailing=draw(st.booleans()), masked=draw(st.booleans()),
    )  # fmt: skip
    return batch, entries, chunks, draw(st.sampled_from([0.5, 0.9, 1.0]))


def run(transform, batch, chunks, build):
    outs, start = [], 0
    for length, n_steps in chunks:
        transform.n_steps = n_steps
        outs.append(transform.inv(build(batch, start, start + length)))
        start += length
    return outs


def compare_stream(problem, **settings_):
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


@settings(max_examples=20)
@given(problems_stream())
def test_same_frames(problem):
    compare_stream(problem)


@settings(max_examples=10)
@given(problems_stream())
def test_same_frames_for_other_keys(problem):
    compare_stream(
        problem, reward_keys=["reward", "observation"], done_key=("nested", "done"),
        done_keys=["done", ("nested", "done")], mask_key="unknown",
    )  # fmt: skip


@st.composite
def problems_split(draw, ids=False):
    """Entries of a batch of one or two dimensions; ids that no two trajectories share, or done."""
    batch = (*draw(st.lists(st.integers(1, 4), max_size=1)), draw(st.integers(2, 10)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    done = rng.random((*batch, 1)) < draw(st.sampled_from([0.0, 0.2, 0.6, 1.0]))
    entries = {
        "obs": rng.normal(size=(*batch, 2)).astype(np.float32),
        "count": rng.integers(0, 9, batch),
        ("next", "done"): done,
    }
    if draw(st.booleans()):
        entries["collector", "worker"] = rng.integers(0, 9, (*batch, 1))
    if ids:
        starts = np.ones(batch, bool)
        starts[..., 1:] = done[..., :-1, 0]
        names = rng.permutation(starts.sum())
        entries["collector", "traj_ids"] = names[np.cumsum(starts) - 1].reshape(batch)
        entries["sub", "ids"] = entries["collector", "traj_ids"]
    return batch, entries


def both(batch, entries, **keywords):
    td = TensorDict({}, batch_size=batch)
    other = tensordict.TensorDict({}, batch_size=batch)
    for key, value in entries.items():
        td.set(key, value)
        other.set(key, torch.from_numpy(value.copy()))
    return split_trajectories(td, **keywords), reference(other, **keywords)


compare_split = functools.partial(assert_same_entries, rtol=0)


@settings(max_examples=26)
@given(
    problems_split(),
    st.sampled_from([{}, {"prefix": "p"}, {"trajectory_key": ("p", "ids")}, {"done_key": "done"}]),
)
def test_same_entries_by_done(problem, keywords):
    compare_split(*both(*problem, **keywords))


@settings(max_examples=26)
@given(
    problems_split(ids=True),
    st.sampled_from([{}, {"prefix": "collector"}, {"trajectory_key": ("sub", "ids")}, {"prefix": "p"}]),
)
def test_same_entries_by_ids(problem, keywords):
    compare_split(*both(*problem, **keywords))


@settings(max_examples=13)
@given(problems_split())
def test_the_same_trajectories_unpadded(problem):
    assume(problem[1]["next", "done"][..., :-1, :].any())  # whole rows come back padded from torchrl
    ours, theirs = both(*problem, as_nested=True)
    assert set(ours.keys(True, True)) == set(theirs.keys(True, True))
    for key in ours.keys(True, True):
        for part, row in zip(ours.tensordicts, theirs.get(key).unbind(0), strict=True):
            np.testing.assert_array_equal(part.get(key), row.numpy(), err_msg=str(key))


def test_objects_are_padded_with_the_same():
    ids = np.array([0, 1, 1, 1])
    td = TensorDict({"traj_ids": ids, "word": NonTensorStack("a", "b", "c", "d")}, batch_size=[4])
    other = tensordict.TensorDict(
        {"traj_ids": torch.from_numpy(ids), "word": tensordict.NonTensorStack("a", "b", "c", "d")},
        batch_size=[4],
    )
    assert split_trajectories(td)["word"] == [list(row) for row in reference(other)["word"]]


@st.composite
def problems_dense(draw):
    batch = (*draw(st.lists(st.integers(1, 3), max_size=2)), draw(st.integers(1, 12)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = (*batch, draw(st.integers(1, 3)))
    done = rng.random(shape) < draw(st.sampled_from([0.0, 0.2, 0.8]))
    reward = rng.normal(size=shape).astype(draw(st.sampled_from([np.float32, np.float64])))
    return batch, reward, done, draw(st.sampled_from([0.5, 0.9, 1.0]))


@settings(max_examples=20)
@given(problems_dense(), st.sampled_from([None, "dense", ("sub", "dense")]))
def test_same_entries_dense(problem, out_key):
    batch, reward, done, discount = problem
    td = TensorDict({"next": {"reward": reward, "done": done}}, batch_size=batch)
    other = tensordict.TensorDict(
        {"next": {"reward": torch.from_numpy(reward.copy()), "done": torch.from_numpy(done)}},
        batch_size=batch,
    )
    assert DensifyReward(discount=discount, reward_key_out=out_key)(td) is td
    assert reference_dense(discount=discount, reward_key_out=out_key)(other) is other
    assert_same_entries(td, other, 2e-5)  # torchrl drops small terms
