"""split_trajectories against torchrl's, where that keeps the rows of a batch apart."""

import functools

import numpy as np
import pytest
import tensordict
import torch
from helpers.compared import assert_same_entries
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torchrl.collectors.utils import split_trajectories as reference

from lite import NonTensorStack, TensorDict
from lite.data import split_trajectories

pytestmark = pytest.mark.filterwarnings("ignore")  # of the reference


@st.composite
def problems(draw, ids=False):
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


compare = functools.partial(assert_same_entries, rtol=0)


@settings(max_examples=80)
@given(
    problems(), st.sampled_from([{}, {"prefix": "p"}, {"trajectory_key": ("p", "ids")}, {"done_key": "done"}])
)
def test_same_entries_by_done(problem, keywords):
    compare(*both(*problem, **keywords))


@settings(max_examples=80)
@given(
    problems(ids=True),
    st.sampled_from([{}, {"prefix": "collector"}, {"trajectory_key": ("sub", "ids")}, {"prefix": "p"}]),
)
def test_same_entries_by_ids(problem, keywords):
    compare(*both(*problem, **keywords))


@settings(max_examples=40)
@given(problems())
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
