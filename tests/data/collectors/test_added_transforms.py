"""Transforms that a collector adds to those that it is given."""

import numpy as np
import pytest
from helpers.cases import raises
from helpers.counting_env import CountingEnv

from lite.data import Collector
from lite.data.collectors.added_transforms import with_counter, with_primers
from lite.envs import InitTracker, RewardSum, StepCounter, TransformedEnv
from lite.nn import ConsistentDropoutModule, GRUModule, Linear, TensorDictModule, TensorDictSequential


def policy():
    gru = GRUModule(input_size=1, hidden_size=3, in_key="observation", out_key="hidden")
    return TensorDictSequential(gru, TensorDictModule(Linear(3, 1), ["hidden"], ["action"]))


def test_a_counter():
    summed = RewardSum()
    assert with_counter([summed], 0)[1:] == [summed]
    assert with_counter([], 7)[0].max_steps == 7
    own = StepCounter(3)
    assert with_counter([own], 0) == [own]
    raises(ValueError, "not both", with_counter, [own], 7)
    raises(TypeError, "must be StepTransforms, got int", with_counter, [7], 0)


def test_what_a_recurrent_policy_starts_with():
    env = CountingEnv()
    tracker, primer = with_primers([], env, policy())
    assert isinstance(tracker, InitTracker)
    assert list(primer.primers.keys()) == ["recurrent_state"]
    assert with_primers([tracker], env, len) == [tracker]
    own = policy()
    ready = TransformedEnv(env, InitTracker()).append_transform(own[0].make_tensordict_primer())
    assert with_primers([], ready, own) == []


def test_a_collector_adds_them():
    words = {"frames_per_batch": 7, "auto_register_policy_transforms": True}
    td = Collector(CountingEnv(), policy(), **words).next()
    np.testing.assert_array_equal(td["is_init"].ravel(), [1, 0, 0, 1, 0, 0, 1])
    np.testing.assert_array_equal(td["recurrent_state"].any((-1, -2)), [0, 1, 1, 0, 1, 1, 0])


def test_a_policy_that_would_have_no_memory_is_told():
    """As TorchRL does; entries that the environment or a given transform has are kept."""
    env = TransformedEnv(CountingEnv(), InitTracker())
    with pytest.warns(UserWarning, match=r"hand \['recurrent_state'\] .*policy_transforms=True"):
        td = Collector(env, policy(), frames_per_batch=7).next()
    assert "recurrent_state" not in td
    mask = ConsistentDropoutModule(0.5, "hidden")
    with pytest.warns(UserWarning, match=r"hand \['recurrent_state'\] "):  # mask has no shape
        Collector(env, TensorDictSequential(policy()[0], mask, policy()[1]), frames_per_batch=7)
    shaped = ConsistentDropoutModule(0.5, "observation", input_shape=(1,))
    one = TensorDictSequential(shaped, TensorDictModule(Linear(1, 1), ["observation"], ["action"]))
    with pytest.warns(UserWarning, match=r"hand \['mask_\d+'\] "):
        Collector(env, one, frames_per_batch=7)
    Collector(env, one.eval(), frames_per_batch=7)
    own = policy()
    primer = own[0].make_tensordict_primer()
    for words in ({"transforms": [primer]}, {"auto_register_policy_transforms": False}):
        Collector(env, own, frames_per_batch=7, **words)  # a warning is an error here
    assert with_primers([primer], env, own) == [primer]
