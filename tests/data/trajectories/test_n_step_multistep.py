import numpy as np
import pytest
from helpers.cases import raises
from helpers.compared import assert_same
from helpers.multistep_vectors import as_key, assert_entries, build, cases

from lite import TensorDict
from lite.data import MultiStep
from lite.nn import Module


def test_vectors():
    for case in cases("MultiStep"):
        td = build(case["input"], case["batch_size"])
        before = td.clone()
        step = MultiStep(case["gamma"], case["n_steps"])
        step.done_key = as_key(case["done_key"])
        step.done_keys = tuple(as_key(k) for k in case["done_keys"])
        step.reward_keys = tuple(as_key(k) for k in case["reward_keys"])
        step.mask_key = as_key(case["mask_key"])
        out = step(td)
        assert out.batch_size == tuple(case["batch_size"])
        assert_entries(out, case["expected"])
        assert_same(td, before)


def data(batch=(3, 8), *, done_shape=None, reward_shape=None, rate=0.2, seed=0, **entries):
    rng = np.random.default_rng(seed)
    return TensorDict(
        {
            "action": rng.normal(size=batch).astype(np.float32),
            "next": {
                "observation": rng.normal(size=(*batch, 4)).astype(np.float32),
                "reward": rng.normal(size=reward_shape or (*batch, 1)).astype(np.float32),
                "done": rng.random(done_shape or (*batch, 1)) < rate,
            },
            **entries,
        },
        batch_size=batch,
    )


def test_construction():
    step = MultiStep(0.9, 3)
    assert isinstance(step, Module)
    assert repr(step) == "MultiStep()"
    assert (step.gamma, step.n_steps) == (0.9, 3)
    assert step.done_key == "done"
    assert step.done_keys == ("done", "truncated", "terminated")
    assert step.reward_keys == ("reward",)
    assert step.mask_key == ("collector", "mask")
    assert list(step.state_dict()) == ["gammas"]
    assert step.gammas.dtype == np.float32
    np.testing.assert_allclose(step.gammas, [[[1, 0.9, 0.81, 0.729]]], rtol=1e-6)
    other = MultiStep(0.5, 3)
    other.load_state_dict(step.state_dict())
    np.testing.assert_array_equal(other.gammas, step.gammas)
    assert MultiStep(1.0, True).n_steps == 1


def test_construction_errors():
    for gamma, n_steps, error, message in (
        (0.9, -1, ValueError, "n_steps must be at least 0, got -1"),
        (0.9, 2.5, TypeError, "n_steps must be an integer"),
        (0.0, 3, ValueError, r"gamma must be in \(0, 1\], got 0.0"),
        (1.1, 3, ValueError, "gamma must be"),
        (float("nan"), 3, ValueError, "gamma must be"),
    ):
        raises(error, message, MultiStep, gamma, n_steps)


def test_zero_steps_change_no_entry():
    td = data()
    td.set(("next", "count"), np.arange(24).reshape(3, 8))
    td.set(("next", "reward"), np.arange(24).reshape(3, 8, 1))  # integers stay integers
    out = MultiStep(0.9, 0)(td)
    assert_same(out.select(*td.keys(True, True)), td, strict=True)
    assert out["next", "original_reward"] is td["next", "reward"]
    assert (out["steps_to_next_obs"] == 1).all()
    np.testing.assert_allclose(out["gamma"], 0.9, rtol=1e-6)
    assert not out["nonterminal"].any()
    one = MultiStep(0.9, 1)(data())
    assert set(one.keys(True, True)) == set(out.keys(True, True)) - {("next", "count")}


def test_n_steps_may_change_between_calls():
    step = MultiStep(0.9, 3)
    step.n_steps = 5
    assert_same(step(data()), MultiStep(0.9, 5)(data()))
    assert step.gammas.shape == (1, 1, 4)
    step.n_steps = -1
    raises(ValueError, "n_steps must be at least 0", lambda: step(data()))


def test_the_input_is_left_alone_and_may_be_locked():
    td = data()
    before = td.clone()
    containers = td["next"]
    td.lock_()
    for array in td.values(True, True):
        array.flags.writeable = False
    out = MultiStep(0.9, 3)(td)
    assert not out.is_locked
    assert not out["next"].is_locked
    assert td.is_locked
    assert td["next"] is containers
    assert_same(td, before)
    assert out["action"] is td["action"]
    assert out["next", "done"] is td["next", "done"]
    assert out["next", "original_reward"] is td["next", "reward"]


def test_nan_does_not_reach_other_episodes():
    td = data((1, 6), rate=0.0)
    td["next", "done"][0, 2] = True
    td["next", "reward"][0, 4] = np.nan
    out = MultiStep(0.9, 3)(td)
    assert np.isnan(out["next", "reward"][0, :, 0]).tolist() == [False, False, False, True, True, False]


def test_errors():
    step = MultiStep(0.9, 3)
    raises(ValueError, r"time dimension, got batch_size=\(\)", lambda: step(data(())))
    raises(KeyError, r"\('next', 'done'\)", lambda: step(data().exclude(("next", "done"))))
    raises(KeyError, r"\('next', 'reward'\)", lambda: step(data().exclude(("next", "reward"))))
    raises(KeyError, "next", lambda: step(data().exclude("next")))
    raises(RuntimeError, "tensordict shape must be compatible", lambda: step(data(done_shape=(3, 8, 2))))
    floating = data().set(("next", "done"), np.zeros((3, 8)))
    raises(TypeError, "done must be boolean or integer", lambda: step(floating))
    with pytest.raises(RuntimeError, match=r"must have the shape \(3, 8\), got \(3, 8, 3\)"):
        step(data(collector={"mask": np.ones((3, 8, 3), bool)}))
    raises(TypeError, "must be boolean, got int64", step, data(collector={"mask": np.ones((3, 8), np.int64)}))


def test_what_is_no_tensordict_or_no_array_is_a_type_error() -> None:
    raises(TypeError, "needs a TensorDict, got dict", lambda: MultiStep(0.9, 2)({"next": {}}))
    td = TensorDict({"next": {"reward": ["a", "b"], "done": np.zeros(2, bool)}}, batch_size=[2])
    raises(TypeError, "as an array, got NonTensorStack", lambda: MultiStep(0.9, 2)(td))
