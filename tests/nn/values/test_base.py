"""Keys, options and errors that all estimators have."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, noting, raises
from helpers.rollouts import Counted, rollout, with_values

from lite import TensorDict, default_dtype
from lite.data import GAE, TD0Estimator, TD1Estimator, TDLambdaEstimator
from lite.kernels import Advantage
from lite.nn import TensorDictSequential, set_composite_lp_aggregate
from lite.nn.values.base import AdvantageEstimator

MAKE = {
    "td0": lambda **k: TD0Estimator(gamma=0.9, **k),
    "td1": lambda **k: TD1Estimator(gamma=0.9, **k),
    "td lambda": lambda **k: TDLambdaEstimator(gamma=0.9, lmbda=0.8, **k),
    "gae": lambda **k: GAE(gamma=0.9, lmbda=0.8, **k),
}


@each_case(("name", "make"), MAKE.items())
def test_keys(name, make):
    module = make(value_network=Counted().module)
    assert module.in_keys == [
        "obs", ("next", "reward"), ("next", "done"), ("next", "terminated"), ("next", "obs"),
    ]  # fmt: skip
    assert module.out_keys == ["advantage", "value_target"]
    assert module.tensor_keys.value == "state_value"
    assert module.tensor_keys.sample_log_prob == "action_log_prob"
    module.set_keys(advantage=("a", ("gain",)), value_target="goal", reward=("agents", "r"))
    module.set_keys(done="d")
    assert module.out_keys == [("a", "gain"), "goal"]
    assert module.in_keys[1:3] == [("next", "agents", "r"), ("next", "d")]
    with set_composite_lp_aggregate(True):
        assert make(value_network=None).tensor_keys.sample_log_prob == "sample_log_prob"
    assert make(value_network=None).in_keys == []
    assert make(value_network=None, group_key="task").in_keys == ["task"]


@each_case(("name", "make"), MAKE.items())
def test_keys_that_are_none(name, make):
    module = make(value_network=Counted().module)
    raises(KeyError, "'adv' is not a key of", module.set_keys, adv="x")
    for wrong in (None, 3):
        raises(ValueError, "a key must be a string or a tuple", module.set_keys, advantage=wrong)
    raises(KeyError, "the value network writes", module.set_keys, value="other")
    assert module.out_keys == ["advantage", "value_target"]
    make(value_network=None).set_keys(value="other")


@each_case(("name", "make"), MAKE.items())
def test_entries_go_where_the_keys_say(name, make):
    td = with_values(rollout((3, 6)))
    expected = make(value_network=None)(td.clone())
    moved = td.clone()
    for old, new in [
        ("state_value", "v"),
        (("next", "state_value"), ("next", "v")),
        (("next", "reward"), ("next", "agents", "reward")),
        (("next", "done"), ("next", "d")),
        (("next", "terminated"), ("next", "t")),
    ]:
        moved.rename_key_(old, new)
    module = make(value_network=None)
    module.set_keys(value="v", reward=("agents", "reward"), done="d", terminated="t", advantage=("a", "gain"))
    assert module(moved) is moved
    np.testing.assert_array_equal(moved["a", "gain"], expected["advantage"])
    np.testing.assert_array_equal(moved["value_target"], expected["value_target"])


@each_case(("name", "make"), MAKE.items())
def test_in_a_sequence_and_copied(name, make):
    net, td = Counted(), with_values(rollout((2, 6)))
    expected = make(value_network=None)(td.clone())["advantage"]
    module = make(value_network=None)
    for copied in (
        TensorDictSequential(module),
        copy.deepcopy(module),
        pickle.loads(pickle.dumps(module)),
    ):
        np.testing.assert_array_equal(copied(td.clone())["advantage"], expected)
    assert "value_network" not in dict(make(value_network=net.module).named_modules())


@each_case(("name", "make"), MAKE.items())
def test_factors_are_buffers_of_the_default_type(name, make):
    module = make(value_network=None)
    assert module.state_dict()["gamma"] == np.float32(0.9)
    assert module.gamma.dtype == np.float32
    with default_dtype(np.float64):
        assert make(value_network=None).gamma.dtype == np.float64
    module.load_state_dict({name: np.float32(0.5) for name in module.state_dict()})
    td = with_values(rollout((2, 6)))
    assert not np.allclose(module(td.clone())["advantage"], make(value_network=None)(td)["advantage"])


@each_case(("name", "make"), MAKE.items())
def test_options_that_are_refused(name, make):
    for options, error, message in [
        ({"advantage_key": "a"}, RuntimeError, r"set_keys\(advantage='a'\)"),
        ({"value_target_key": "a"}, RuntimeError, r"set_keys\(value_target='a'\)"),
        ({"value_key": "a"}, RuntimeError, r"set_keys\(value='a'\)"),
        ({"device": "cuda"}, ValueError, "device must be 'cpu'"),
        ({"shifted": "legacy"}, ValueError, "shifted must be True or False"),
        ({"shifted_budget": 0}, ValueError, "shifted_budget must be at least 1"),
        ({"value_chunk_size": 0}, ValueError, "value_chunk_size must be at least 1"),
        ({"num_chunks": True}, TypeError, "num_chunks must be an integer"),
        ({"value_chunk_dim": 1.0}, TypeError, "value_chunk_dim must be an integer"),
        ({"num_chunks": 2, "num_chunk": 3}, ValueError, "num_chunks and num_chunk are the same"),
        ({"num_chunks": 2, "value_chunk_size": 3}, ValueError, "not both"),
        ({"unknown": 2}, TypeError, "unknown"),
    ]:
        with noting(options, error, message), pytest.raises(error, match=message):
            make(value_network=None, **options)


@each_case(("name", "make"), MAKE.items())
def test_errors_leave_the_tensordict_as_it_was(name, make):
    td = with_values(rollout((2, 6)))
    module = make(value_network=None)
    cases = [
        (td.exclude(("next", "reward")), KeyError, "reward"),
        (td.exclude(("next", "done")), KeyError, "done"),
        (td.exclude("state_value"), ValueError, "no values under 'state_value'"),
        (
            td.exclude(("next", "state_value")),
            ValueError,
            r"no values under \('next', 'state_value'\)",
        ),
        (td.clone().set(("next", "reward"), np.zeros((2, 6))), RuntimeError, "one shape"),
        (td.clone().set(("next", "done"), np.zeros((2, 6, 2), bool)), RuntimeError, "one shape"),
        (td.clone().set("state_value", np.zeros((2, 6))), RuntimeError, "one shape"),
        (td.clone().set(("next", "terminated"), np.zeros((2, 6, 1))), TypeError, "must be boolean"),
        (TensorDict({}), RuntimeError, "with a batch dimension"),
    ]
    for bad, error, message in cases:
        before = {key: bad.get(key).copy() for key in bad.keys(True, True)}
        raises(error, message, module, bad)
        assert set(bad.keys(True, True)) == set(before)
        for key, array in before.items():
            np.testing.assert_array_equal(bad.get(key), array)
    raises(TypeError, "needs a TensorDict, got dict", module.value_estimate, {})


class Fixed(AdvantageEstimator):
    """Advantages 1, 2, ..., targets ten times that; `averaged` doubles them."""

    def __init__(self, averaged: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.averaged = averaged

    def _estimates(self, tensordict: Any, params: Any, target_params: Any, time_dim: Any) -> Any:
        steps = np.arange(1.0, len(tensordict) + 1)
        self.asked = params, target_params, time_dim
        return Advantage(steps, 10 * steps), tensordict.get("shifted_valid", None), {("state_value",): -steps}

    def _averaged(self, advantage: Any, valid: Any, tensordict: Any) -> Any:
        if self.averaged and "broken" in tensordict:
            raise ValueError("broken")
        return 2 * advantage if self.averaged else advantage


def test_estimates_and_values_are_written() -> None:
    td = TensorDict({}, [3])
    estimator = Fixed()
    assert estimator(td, params=1, target_params=2, time_dim=0) is td
    assert estimator.asked == (1, 2, 0)
    assert set(td.keys()) == {"advantage", "value_target", "state_value"}
    np.testing.assert_array_equal(td["advantage"], [1, 2, 3])
    np.testing.assert_array_equal(td["value_target"], [10, 20, 30])
    np.testing.assert_array_equal(Fixed(averaged=True)(td)["advantage"], [2, 4, 6])


def test_steps_without_a_value_get_zero() -> None:
    td = TensorDict({"shifted_valid": np.array([True, False, True])}, [3])
    out = Fixed(averaged=True)(td)
    np.testing.assert_array_equal(out["advantage"], [2, 0, 6])
    np.testing.assert_array_equal(out["value_target"], [10, 0, 30])


def test_value_estimate_writes_the_values_alone() -> None:
    td = TensorDict({}, [2])
    np.testing.assert_array_equal(Fixed().value_estimate(td, 1, 2, 0), [10, 20])
    assert set(td.keys()) == {"state_value"}


def test_an_error_leaves_the_tensordict_as_it_was() -> None:
    td = TensorDict({"broken": np.ones(2)}, [2])
    with pytest.raises(ValueError, match="broken"):
        Fixed(averaged=True)(td)
    assert set(td.keys()) == {"broken"}
