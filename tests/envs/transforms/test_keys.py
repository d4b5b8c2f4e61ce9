import numpy as np
import pytest

from lite import TensorDict
from lite.data import Composite, Unbounded
from lite.envs import ExcludeTransform, RenameTransform, SelectTransform


def test_rename():
    rename = RenameTransform(["a"], [("n", "b")], ["x"], ["y"])
    td = rename(TensorDict(a=np.ones(2)))
    assert list(td.keys(True, True)) == [("n", "b")]
    assert list(rename.inv(TensorDict(y=1)).keys()) == ["x"]
    with pytest.raises(KeyError, match="RenameTransform reads 'a', which is missing"):
        rename(td)
    rename.set_missing_tolerance(True)
    assert rename(td) is td
    kept = RenameTransform(["a"], ["b"], create_copy=True)(TensorDict(a=1))
    assert sorted(kept.keys()) == ["a", "b"]
    with pytest.raises(ValueError, match="no key may be in in_keys and out_keys"):
        RenameTransform(["a", "b"], ["b", "c"])


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


def test_bad_keys():
    for cls in (ExcludeTransform, SelectTransform):
        with pytest.raises(TypeError, match="must be strings or tuples of strings"):
            cls(3)
