"""How often the value network is called, with what, and what becomes of it."""

import itertools

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.rollouts import Counted, rollout

from lite import TensorDict
from lite.data import GAE, TD0Estimator
from lite.nn import Linear, Sequential, TensorDictModule


def estimator(net, **options):
    return GAE(gamma=0.9, lmbda=0.8, value_network=net.module, **options)


def test_twice_and_on_nothing_but_its_inputs():
    net, td = Counted(), rollout((3, 8))
    estimator(net)(td)
    assert net.seen == [(3, 8, 4)] * 2
    np.testing.assert_allclose(td["state_value"], net._value(td["obs"]))
    np.testing.assert_allclose(td["next", "state_value"], net._value(td["next", "obs"]))


@each_case(
    ("options", "sizes"),
    [
        ({"value_chunk_size": 2}, [(2, 6, 4), (2, 6, 4), (1, 6, 4)]),
        ({"num_chunks": 2}, [(3, 6, 4), (2, 6, 4)]),
        ({"num_chunk": 9, "value_chunk_dim": -1}, [(5, 1, 4)] * 6),
        ({"value_chunk_size": 4, "value_chunk_dim": 1}, [(5, 4, 4), (5, 2, 4)]),
        ({"value_chunk_size": 100}, [(5, 6, 4)]),
    ],
)
def test_in_pieces(options, sizes):
    net, td = Counted(), rollout((5, 6))
    whole = estimator(Counted())(td.clone())
    out = estimator(net, **options)(td)
    assert net.seen == sizes * 2
    np.testing.assert_allclose(out["advantage"], whole["advantage"], rtol=1e-6, atol=1e-6)
    net.seen.clear()
    empty = rollout((0, 6))
    assert estimator(net, **options)(empty)["advantage"].shape == (0, 6, 1)


def test_no_such_dimension_to_cut():
    for dim in (2, -3):
        with pytest.raises(ValueError, match=f"no value_chunk_dim {dim} in batch_size"):
            estimator(Counted(), num_chunks=2, value_chunk_dim=dim)(rollout((5, 6)))
    net = Counted()
    estimator(net, num_chunks=9, value_chunk_dim=-2)(rollout((5, 6)))
    assert len(net.seen) == 10  # of five rows


def test_values_that_are_there_are_kept_on_request():
    net, td = Counted(), rollout((3, 8))
    td["state_value"] = np.ones((3, 8, 1), np.float32)
    td["next", "state_value"] = np.full((3, 8, 1), 2, np.float32)
    expected = GAE(gamma=0.9, lmbda=0.8, value_network=None)(td.clone())["advantage"]
    np.testing.assert_array_equal(estimator(net, skip_existing=True)(td)["advantage"], expected)
    assert net.seen == []
    estimator(net)(td)
    assert len(net.seen) == 2


def test_parameters_of_the_call():
    net = TensorDictModule(Sequential(Linear(4, 3, rng=0), Linear(3, 1, rng=1)), ["obs"], ["state_value"])
    td = rollout((3, 8))
    own = TensorDict.from_module(net)
    other = own.apply(lambda p: np.asarray(p) * 2)
    module = GAE(gamma=0.9, lmbda=0.8, value_network=net)
    plain = module(td.clone())
    np.testing.assert_array_equal(module(td.clone(), params=own)["advantage"], plain["advantage"])
    doubled = module(td.clone(), params=other)
    assert not np.allclose(doubled["state_value"], plain["state_value"])
    target = module(td.clone(), params=own, target_params=other)
    np.testing.assert_array_equal(target["state_value"], plain["state_value"])
    np.testing.assert_array_equal(target["next", "state_value"], doubled["next", "state_value"])
    raises(ValueError, "target_params", lambda: module(td, target_params=other))
    with pytest.raises(ValueError, match="one set of parameters"):
        GAE(gamma=0.9, lmbda=0.8, value_network=net, shifted=True)(td, params=own, target_params=other)
    expected = TD0Estimator(gamma=0.9, value_network=net)(td.clone(), params=own, target_params=other)
    found = TD0Estimator(gamma=0.9, value_network=net).value_estimate(td, target_params=other)
    np.testing.assert_array_equal(found, expected["value_target"])


# -- NaN next observations at resets (torchrl 3744) ---------------------------------------------------------


@each_case("shifted", [False, True])
def test_nan_next_observations_at_resets_poison_nothing(shifted):
    net, td = Counted(), rollout((3, 8), rate=0.2)
    clean = td.clone()
    done = td["next", "done"][..., 0]
    assert done.any()
    td["next", "obs"][done] = np.nan
    clean["next", "obs"][done] = clean["obs"][done]
    before = td["next", "obs"].copy()
    options = {"shifted": shifted, "shifted_budget": 9}
    out = estimator(net, **options)(td)
    assert np.isfinite(out["advantage"]).all()
    assert np.isfinite(out["value_target"]).all()
    np.testing.assert_allclose(out["advantage"], estimator(net, **options)(clean)["advantage"], atol=1e-6)
    np.testing.assert_array_equal(td["next", "obs"], before)  # the TensorDict keeps what it had


def test_the_start_of_sequences_is_kept_apart():
    """A recurrent network must take next observations of starts for starts."""
    seen = []

    def value(obs, is_init):
        seen.append(is_init.copy())
        return obs[..., :1]

    net = TensorDictModule(value, ["obs", "is_init"], ["state_value"])
    td = rollout((2, 4))
    td["is_init"] = np.array([[1, 0, 0, 0], [1, 0, 1, 0]], bool)[..., None]
    td["next", "is_init"] = np.zeros((2, 4, 1), bool)
    GAE(gamma=0.9, lmbda=0.8, value_network=net)(td)
    np.testing.assert_array_equal(seen[0], seen[1])
    assert not td["next", "is_init"].any()


def test_what_the_network_lacks_is_named():
    td = rollout((2, 4))
    net = TensorDictModule(lambda x: x + 1, ["absent"], ["state_value"])
    raises(KeyError, "", lambda: GAE(gamma=0.9, lmbda=0.8, value_network=net)(td))
    lying = TensorDictModule(lambda x: x, ["obs"], ["other"])
    raises(KeyError, "state_value", lambda: GAE(gamma=0.9, lmbda=0.8, value_network=lying)(td))


@each_case("shifted", [False, True])
def test_an_error_after_the_call_leaves_the_tensordict_as_it_was(shifted):
    td = rollout((2, 4))
    td["next", "reward"] = np.zeros((2, 4))
    keys = set(td.keys(True, True))
    for module in (
        estimator(Counted(), shifted=shifted),
        TD0Estimator(gamma=0.9, value_network=Counted().module, shifted=shifted, average_rewards=True),
    ):
        raises(RuntimeError, "one shape", module, td)
        assert set(td.keys(True, True)) == keys
    locked = rollout((2, 4)).lock_()
    raises(RuntimeError, "lock", lambda: estimator(Counted(), shifted=shifted)(locked))
    assert set(locked.keys(True, True)) == keys


# -- one call ------------------------------------------------------------------------------------------------


@each_case(("batch", "more"), itertools.product([(9,), (3, 9), (2, 2, 9)], [(), (1,)]))
def test_one_call_gives_what_two_give(batch, more):
    net, td = Counted(), rollout(batch, more, rate=0.3)

    def value(obs):
        return net._value(obs).reshape(*obs.shape[:-1], *more)

    scalar = TensorDictModule(value, ["obs"], ["state_value"])
    expected = GAE(gamma=0.9, lmbda=0.8, value_network=scalar)(td.clone())
    net.seen.clear()
    out = GAE(gamma=0.9, lmbda=0.8, value_network=scalar, shifted=True, shifted_budget=9)(td)
    assert net.seen == [(*batch[:-1], 18, 4)]
    assert out["shifted_valid"].all()
    assert out["shifted_valid"].shape == batch
    terminated = td["next", "terminated"]
    # After a termination the next observation is the following row's: it does not count.
    np.testing.assert_allclose(
        np.where(terminated, 0, out["next", "state_value"]),
        np.where(terminated, 0, expected["next", "state_value"]),
        rtol=1e-5,
        atol=1e-5,
    )
    np.testing.assert_allclose(out["advantage"], expected["advantage"], rtol=1e-5, atol=1e-5)


def test_one_call_of_agents_of_whom_one_terminated_before_the_episode_was_cut_off():
    net, td = Counted(), rollout((1, 6), (2, 1), rate=0.0)
    td["next", "done"][0, 2], td["next", "terminated"][0, 2, 1] = True, True
    td["next", "obs"][0, 2] = 100
    agents = TensorDictModule(lambda obs: net._value(obs)[..., None] * [[1.0], [2]], ["obs"], ["state_value"])
    expected = GAE(gamma=0.9, lmbda=0.8, value_network=agents)(td.clone())["advantage"]
    out = GAE(gamma=0.9, lmbda=0.8, value_network=agents, shifted=True, shifted_budget=2)(td)
    np.testing.assert_allclose(out["advantage"], expected, rtol=1e-5, atol=1e-5)


def test_steps_without_room_are_told_and_get_nothing():
    net, td = Counted(), rollout((1, 6), rate=0.0)
    td["next", "done"][0, 2] = True  # cut off: its next observation takes the place of the last step's
    td["next", "terminated"][:] = False
    td["next", "obs"][0, 2] = 100
    out = GAE(gamma=0.9, lmbda=0.8, value_network=net.module, shifted=True)(td.clone())
    assert out["shifted_valid"].tolist() == [[True] * 5 + [False]]
    assert out["advantage"][0, 5] == out["value_target"][0, 5] == 0
    whole = estimator(Counted())(td[:, :5].clone())
    np.testing.assert_allclose(out["advantage"][:, :5], whole["advantage"], rtol=1e-5)
    assert not td["next", "done"][0, 4]  # the TensorDict's flags are its own
