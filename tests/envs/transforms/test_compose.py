import pickle

import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict
from lite.data import Bounded, Composite, MultiStepTransform, Unbounded
from lite.envs import Compose, RewardClipping, RewardScaling, SqueezeTransform, UnsqueezeTransform


def test_order():
    both = Compose(
        UnsqueezeTransform(-1, in_keys=["x"], in_keys_inv=["a"]),
        lambda td: td.set("y", td["x"] + 1),
        SqueezeTransform(-1, in_keys=["y"], in_keys_inv=["b"]),
    )
    assert both(TensorDict(x=np.ones(2)))["y"].shape == (2,)
    assert both.inv(TensorDict(a=np.ones((2, 1)), b=np.ones(2)))["b"].shape == (2, 1)
    assert (both.in_keys, both.out_keys) == (["x", "y"], ["x", "y"])
    assert Compose(transforms=[RewardClipping(-1, 1)]).in_keys == ["reward"]
    assert len(Compose([RewardClipping(-1, 1)])) == 1


def test_specs_go_through_each():
    both = Compose(UnsqueezeTransform(-1, in_keys=["x"]), RewardScaling(1, 2), RewardClipping(-1, 1))
    reward, other = Unbounded(1), Unbounded(2)
    assert both.transform_reward_spec(Composite(reward=reward))["reward"] == Bounded(-1, 1, (1,))
    for name in ("action", "done", "state"):
        spec = Composite(a=other)
        assert getattr(both, f"transform_{name}_spec")(spec.clone()) == spec
    td = both._call(TensorDict(x=np.ones(2), reward=np.full(1, 3.0)))
    assert (td["x"].shape, td["reward"]) == ((2, 1), 1)


def test_as_a_list():
    first, second, third = RewardScaling(0, 2), RewardScaling(1, 1), RewardClipping(-1, 1)
    both = Compose(first)
    both.append(Compose(third))
    both.insert(-1, second)
    assert list(both) == [first, second, third]
    assert both[1:][0].loc is second.loc
    assert both.pop() is third
    assert third._container is None
    both[0] = third
    assert both[-2] is third
    del both[0]
    assert list(both) == [second]
    assert not second.training or both.training
    raises(ValueError, "index must be from -1 to 1, got 2", both.insert, 2, third)
    raises(ValueError, "transforms must be a Transform or a function, got int", Compose, 3)
    with pytest.raises(AttributeError, match="in_keys of a Compose"):
        both.in_keys = ["a"]


def test_copies_and_states():
    both = Compose(RewardScaling(0, 2), RewardClipping(-1, 1))
    for twin in (both.clone(), pickle.loads(pickle.dumps(both))):
        assert twin.state_dict().keys() == both.state_dict().keys()
        assert next(iter(both.state_dict())) == "transforms.0.standard_normal"
        assert [part._container() for part in twin] == [twin, twin]
    both.set_missing_tolerance(True)
    assert list(both(TensorDict(x=1)).keys()) == ["x"]


def test_one_that_withholds():
    with pytest.raises(ValueError, match="MultiStepTransform is a transform of replay buffers alone"):
        Compose(MultiStepTransform(2, 0.5))


def test_specs_that_are_none():
    class Wrong(RewardClipping):
        def transform_observation_spec(self, observation_spec):
            return 3

    with pytest.raises(
        TypeError, match="transform_observation_spec of Wrong must give a TensorSpec, got int"
    ):
        Compose(Wrong(-1, 1)).transform_observation_spec(Unbounded(1))
