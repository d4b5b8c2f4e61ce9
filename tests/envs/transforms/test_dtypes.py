import numpy as np
import pytest
from helpers.teams_env import Teams

from lite import TensorDict
from lite.data import Composite, Unbounded
from lite.envs import DoubleToFloat, DTypeCastTransform, TransformedEnv


def test_all_entries_of_a_dtype():
    cast = DoubleToFloat()
    td = cast(TensorDict(x=np.ones(2), n=TensorDict(y=np.ones(2)), i=np.arange(2)))
    assert [td[key].dtype.name for key in ("x", ("n", "y"), "i")] == ["float32", "float32", "int64"]
    assert cast.inv(td)["n", "y"].dtype == np.float64
    with pytest.raises(ValueError, match="out_keys need in_keys"):
        DoubleToFloat(out_keys=["x"])(td)


def test_all_entries_of_an_environment():
    env = Teams()
    env.observation_spec = Composite(
        a=Composite(x=Unbounded((3, 1), dtype=np.float64), shape=(3,)), shape=(3,)
    )
    whole = TransformedEnv(env, cast := DoubleToFloat())
    assert whole.observation_spec["a", "x"].dtype == np.float32
    assert (cast.in_keys, cast.in_keys_inv) == ([("a", "x")], [])


def test_given_keys_go_one_way():
    cast = DTypeCastTransform("float64", "float16", ["x"], ["y"])
    td = cast(TensorDict(x=np.ones(2)))
    assert (td["x"].dtype, td["y"].dtype) == (np.float64, np.float16)
    assert cast.inv(td)["y"].dtype == np.float16


def test_specs():
    spec = DoubleToFloat(["x"]).transform_observation_spec(Composite(x=Unbounded(2, dtype=np.float64)))
    assert spec["x"] == Unbounded(2)
    double = Unbounded(1, dtype=np.float64)
    whole = Composite(full_action_spec=Composite(a=double), full_state_spec=Composite(s=double))
    given = DoubleToFloat(["r"], in_keys_inv=["a", "s"], out_keys_inv=["b", "s"])
    inputs = given.transform_input_spec(whole)
    assert (inputs["full_action_spec", "b"], inputs["full_state_spec", "s"]) == (Unbounded(1), Unbounded(1))
    assert given.transform_reward_spec(Composite(r=double))["r"] == Unbounded(1)
    assert repr(given).startswith("DoubleToFloat(in_keys=['r'], out_keys=['r'], in_keys_inv=['a', 's'], out")
    with pytest.raises(KeyError, match="there is no spec of 'c'"):
        DoubleToFloat(["r"], in_keys_inv=["c"]).transform_input_spec(whole)
    with pytest.raises(TypeError, match="the spec must have the dtype float64, got float32"):
        DoubleToFloat(["x"]).transform_observation_spec(spec)
