import numpy as np
import pytest

from lite import TensorDict
from lite.data import Bounded, Composite
from lite.envs import FlattenObservation, PermuteTransform, SqueezeTransform, UnsqueezeTransform


@pytest.mark.parametrize(
    ("transform", "shape"),
    [
        (UnsqueezeTransform(-2, in_keys=["x"], in_keys_inv=["x"]), (2, 3, 1, 4)),
        (UnsqueezeTransform(0, allow_positive_dim=True, in_keys=["x"], in_keys_inv=["x"]), (1, 2, 3, 4)),
        (PermuteTransform((-1, -3, -2), in_keys=["x"], in_keys_inv=["x"]), (4, 2, 3)),
        (PermuteTransform((-2, -1, -3), in_keys=["x"], in_keys_inv=["x"]), (3, 4, 2)),
    ],
)
def test_there_and_back(transform, shape):
    x = np.arange(24.0).reshape(2, 3, 4)
    td = transform(TensorDict(x=x))
    assert td["x"].shape == shape
    np.testing.assert_array_equal(transform.inv(td)["x"], x)
    assert transform.transform_observation_spec(Bounded(0, x)).shape == shape


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


@pytest.mark.parametrize(
    "make",
    [
        lambda: UnsqueezeTransform(0, in_keys=["x"]),
        lambda: PermuteTransform((-1, -1), in_keys=["x"]),
        lambda: FlattenObservation(0, -1),
        lambda: FlattenObservation(-2, 1),
    ],
)
def test_dims(make):
    with pytest.raises((RuntimeError, ValueError), match="must be"):
        make()


def test_flatten():
    flat = FlattenObservation(1, 2, ["x"], allow_positive_dim=True)
    assert flat(TensorDict(x=np.zeros((2, 3, 4, 5))))["x"].shape == (2, 12, 5)
    assert repr(flat) == "FlattenObservation(first_dim=1, last_dim=2, in_keys=['x'], out_keys=['x'])"
