import numpy as np
import pytest
from helpers.transformed import Steps

from lite import TensorDict, is_grad_enabled
from lite.data import Composite, Unbounded
from lite.envs import ModuleTransform, TransformedEnv
from lite.nn import TensorDictModule


def double(source, target):
    return TensorDictModule(lambda x: 2 * x, [source], [target])


def test_features_of_an_environment():
    change = lambda spec: Composite({**dict(spec.items()), "y": Unbounded(1)})  # noqa: E731
    env = TransformedEnv(Steps(3), lambda td: td).append_transform(
        ModuleTransform(module_factory=lambda: double("x", "y"), observation_spec_transform=change)
    )
    td = env.rollout(2)
    np.testing.assert_array_equal(td["next", "y"], 2 * td["next", "x"])
    assert env.observation_spec["y"] == Unbounded(1)


def test_on_the_way_in():
    transform = ModuleTransform(module=double("a", "action"), inverse=True)
    assert (transform.in_keys, transform.in_keys_inv, transform.out_keys_inv) == ([], ["action"], ["a"])
    assert float(transform.inv(TensorDict(a=1.0))["action"]) == 2
    assert "action" not in transform(TensorDict(a=1.0))
    fixed = Composite(reward=Unbounded(3))
    assert (
        ModuleTransform(module=double("a", "b"), reward_spec_transform=fixed).transform_reward_spec(
            Composite()
        )
        is fixed
    )


def test_gradients_are_not_recorded():
    seen = []
    module = TensorDictModule(lambda x: seen.append(is_grad_enabled()) or x, ["x"], ["y"])
    ModuleTransform(module=module, no_grad=True)(TensorDict(x=1.0))
    assert seen == [False]
    with pytest.raises(ValueError, match="give module or module_factory"):
        ModuleTransform()
