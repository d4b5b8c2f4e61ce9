import numpy as np
from helpers.cases import raises
from helpers.transformed import Steps

from lite import TensorDict
from lite.data import Bounded, Composite
from lite.envs import (
    BatchSizeTransform,
    FlattenObservation,
    PermuteTransform,
    SqueezeTransform,
    TransformedEnv,
    UnsqueezeTransform,
    check_env_specs,
)


def test_there_and_back():
    for transform, shape in (
        (UnsqueezeTransform(-2, in_keys=["x"], in_keys_inv=["x"]), (2, 3, 1, 4)),
        (UnsqueezeTransform(0, allow_positive_dim=True, in_keys=["x"], in_keys_inv=["x"]), (1, 2, 3, 4)),
        (PermuteTransform((-1, -3, -2), in_keys=["x"], in_keys_inv=["x"]), (4, 2, 3)),
        (PermuteTransform((-2, -1, -3), in_keys=["x"], in_keys_inv=["x"]), (3, 4, 2)),
    ):
        x = np.arange(24.0).reshape(2, 3, 4)
        td = transform(TensorDict(x=x))
        assert td["x"].shape == shape
        np.testing.assert_array_equal(transform.inv(td)["x"], x)
        assert transform.transform_observation_spec(Bounded(0, x)).shape == shape


def test_more_dims_than_an_entry_has():
    wrong = r"dims=\(-2, -1\) are of 2 dimensions, got an entry of shape \(3,\)"
    raises(RuntimeError, wrong, PermuteTransform((-2, -1), ["x"]), TensorDict(x=np.ones(3)))


def test_a_scalar_has_no_dimension_to_squeeze():
    assert SqueezeTransform(-1, in_keys=["x"])(TensorDict(x=1.0))["x"].shape == ()
    raises(IndexError, "", SqueezeTransform(-2, in_keys=["x"]), TensorDict(x=1.0))


def test_specs_of_inputs():
    spec = Composite(
        full_action_spec=Composite(a=Bounded(0, 1, (2, 1))),
        full_state_spec=Composite(s=Bounded(0, 1, (2, 3))),
    )
    squeezed = SqueezeTransform(-1, in_keys_inv=["a"], out_keys_inv=["b"]).transform_input_spec(spec)
    assert squeezed["full_action_spec"].keys() == ["b"]
    assert squeezed["full_action_spec", "b"].shape == (2,)
    turned = PermuteTransform((-1, -2), in_keys_inv=["s"]).transform_input_spec(spec)
    assert turned["full_state_spec", "s"].shape == (3, 2)


def test_specs_of_states_and_rewards():
    spec = Composite(a=Bounded(0, 1, (3,)))
    last = UnsqueezeTransform(-1, in_keys=["a"], in_keys_inv=["a"])
    assert last.transform_reward_spec(spec)["a"].shape == (3, 1)
    assert last.transform_state_spec(spec)["a"].shape == (3, 1)
    text = "UnsqueezeTransform(dim=-1, in_keys=['a'], out_keys=['a'], in_keys_inv=['a'], out_keys_inv=['a'])"
    assert repr(last) == text


def test_dims():
    for make in (
        lambda: UnsqueezeTransform(0, in_keys=["x"]),
        lambda: PermuteTransform((-1, -1), in_keys=["x"]),
        lambda: FlattenObservation(0, -1),
        lambda: FlattenObservation(-2, 1),
    ):
        raises((RuntimeError, ValueError), "must be", make)


def test_flatten():
    flat = FlattenObservation(1, 2, ["x"], allow_positive_dim=True)
    assert flat(TensorDict(x=np.zeros((2, 3, 4, 5))))["x"].shape == (2, 12, 5)
    assert repr(flat) == "FlattenObservation(first_dim=1, last_dim=2, in_keys=['x'], out_keys=['x'])"
    env = TransformedEnv(Steps(3), FlattenObservation(-1, -1, ["x"], ["y"]))
    np.testing.assert_array_equal(env.reset()["y"], [0])


def test_another_batch_size():
    env = TransformedEnv(Steps(3), BatchSizeTransform(reshape_fn=lambda td: td.reshape(1, 1)))
    assert env.batch_size == (1, 1)
    assert env.action_spec.shape == (1, 1, 1)
    td = env.rollout(6, break_when_any_done=False)
    np.testing.assert_array_equal(td["x"].ravel(), [0, 1, 2, 0, 1, 2])
    check_env_specs(env)


def test_a_batch_size_of_a_module():
    td = TensorDict({"x": np.ones((2, 3))}, [2])
    assert BatchSizeTransform(reshape_fn=lambda td: td.unsqueeze(0))(td)["x"].shape == (1, 2, 3)
    assert BatchSizeTransform(batch_size=[2])(td) is td
    raises(ValueError, "one of batch_size and reshape_fn", BatchSizeTransform)
