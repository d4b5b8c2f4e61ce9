"""DensifyReward against torchrl's, where time is the dimension that torchrl always takes."""

import numpy as np
import pytest
import tensordict
import torch
from helpers.compared import assert_same_entries
from hypothesis import given, settings
from hypothesis import strategies as st
from torchrl.data import DensifyReward as reference

from lite import TensorDict
from lite.data import DensifyReward


@st.composite
def problems(draw):
    batch = (*draw(st.lists(st.integers(1, 3), max_size=2)), draw(st.integers(1, 12)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = (*batch, draw(st.integers(1, 3)))
    done = rng.random(shape) < draw(st.sampled_from([0.0, 0.2, 0.8]))
    reward = rng.normal(size=shape).astype(draw(st.sampled_from([np.float32, np.float64])))
    return batch, reward, done, draw(st.sampled_from([0.5, 0.9, 1.0]))


@settings(max_examples=60)
@given(problems(), st.sampled_from([None, "dense", ("sub", "dense")]))
def test_same_entries(problem, out_key):
    batch, reward, done, discount = problem
    td = TensorDict({"next": {"reward": reward, "done": done}}, batch_size=batch)
    other = tensordict.TensorDict(
        {"next": {"reward": torch.from_numpy(reward.copy()), "done": torch.from_numpy(done)}},
        batch_size=batch,
    )
    assert DensifyReward(discount=discount, reward_key_out=out_key)(td) is td
    assert reference(discount=discount, reward_key_out=out_key)(other) is other
    assert_same_entries(td, other, 2e-5)  # torchrl drops small terms


def test_keys():
    for keywords in ({}, {"reward_key": ("a", ("r",)), "done_key": "d", "reward_key_out": "o"}):
        assert DensifyReward(**keywords).in_keys == reference(**keywords).in_keys
        assert DensifyReward(**keywords).out_keys == reference(**keywords).out_keys


def test_shapes_that_differ_raise_the_same_error():
    reward, done = np.zeros((4, 1), np.float32), np.zeros((4, 2), bool)
    with pytest.raises(RuntimeError, match="shape"):
        DensifyReward()(TensorDict({"next": {"reward": reward, "done": done}}, batch_size=[4]))
    td = tensordict.TensorDict(
        {"next": {"reward": torch.from_numpy(reward), "done": torch.from_numpy(done)}}, batch_size=[4]
    )
    with pytest.raises(RuntimeError, match="shape"):
        reference()(td)
