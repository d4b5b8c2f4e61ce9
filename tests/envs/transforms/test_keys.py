import numpy as np
import pytest
from helpers.cases import raises
from helpers.counting_env import CountingEnv

from lite import TensorDict, lazy_stack
from lite.data import Composite, Unbounded
from lite.envs import ExcludeTransform, RenameTransform, SelectTransform, TransformedEnv


def test_rename():
    rename = RenameTransform(["a"], [("n", "b")], ["x"], ["y"])
    td = rename(TensorDict(a=np.ones(2)))
    assert list(td.keys(True, True)) == [("n", "b")]
    assert list(rename.inv(TensorDict(y=1)).keys()) == ["x"]
    raises(KeyError, "RenameTransform reads 'a', which is missing", rename, td)
    rename.set_missing_tolerance(True)
    assert rename(td) is td
    copying = RenameTransform(["a"], ["b"], create_copy=True)
    ragged = copying(lazy_stack([TensorDict(a=np.zeros(1)), TensorDict(a=np.ones(2))]))
    np.testing.assert_array_equal(ragged[1]["b"], [1, 1])
    kept = copying(TensorDict(a=1))
    assert sorted(kept.keys()) == ["a", "b"]
    raises(ValueError, "no key may be in in_keys and out_keys", RenameTransform, ["a", "b"], ["b", "c"])


def outputs():
    part = Composite(a=Unbounded(1), n=Composite(b=Unbounded(1)))
    return Composite(
        full_observation_spec=part,
        full_reward_spec=Composite(reward=Unbounded(1)),
        full_done_spec=Composite(),
    )


def test_specs():
    spec = ExcludeTransform("reward", ("n", "b")).transform_output_spec(outputs())
    assert spec.keys(True, True) == [("full_observation_spec", "a")]
    with pytest.raises(KeyError, match="ExcludeTransform drops 'c', of which there is no spec"):
        ExcludeTransform("c").transform_output_spec(outputs())
    spec = SelectTransform("a", keep_rewards=False).transform_output_spec(outputs())
    assert spec.keys(True, True) == [("full_observation_spec", "a")]
    spec = RenameTransform(["reward"], ["r"], create_copy=True).transform_output_spec(outputs())
    assert spec["full_reward_spec"].keys() == ["reward", "r"]


def test_what_is_kept_and_dropped():
    td = TensorDict(a=1, b=2, reward=3.0, done=True)
    for transform, once, inverse in (
        (ExcludeTransform("a"), ["b", "done", "reward"], ["a", "b", "done", "reward"]),
        (ExcludeTransform("a", inverse=True), ["a", "b", "done", "reward"], ["b", "done", "reward"]),
        (SelectTransform("a"), ["a", "done", "reward"], ["a", "b", "done", "reward"]),
        (SelectTransform("a", keep_dones=False), ["a", "reward"], ["a", "b", "done", "reward"]),
        (SelectTransform("a", keep_rewards=False), ["a", "done"], ["a", "b", "done", "reward"]),
    ):
        for found in (transform(td), transform._reset(td, td.copy()), transform._call(td)):
            assert sorted(found.keys()) == once
        assert sorted(transform.inv(td).keys()) == inverse
    assert ExcludeTransform("a", inverse=True).transform_output_spec(outputs()) == outputs()


def test_a_state_stays():
    env = CountingEnv()
    env.state_spec = Composite(memory=Unbounded(1), nested=Composite(memory=Unbounded(1)))
    whole = TransformedEnv(env, SelectTransform("other"))
    td = TensorDict(memory=1, nested={"memory": 4, "other": 5}, observation=2, reward=3)
    td.update({"done": True, "terminated": False})
    kept = {"done", "memory", ("nested", "memory"), "reward", "terminated"}
    assert {*whole.transform._call(td).keys(True, True)} == kept


def test_bad_keys():
    for cls in (ExcludeTransform, SelectTransform):
        raises(TypeError, "must be strings or tuples of strings", cls, 3)
