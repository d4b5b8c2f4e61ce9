import numpy as np
from helpers.cases import raises

from lite import TensorDict
from lite.data import Bounded, Categorical, Composite
from lite.nn import RandomPolicy


def test_actions_are_drawn_from_the_spec():
    td = TensorDict(batch_size=[5])
    assert RandomPolicy(Categorical(3, (5,)), generator=0)(td) is td
    assert td["action"].dtype == np.int64
    np.testing.assert_array_equal(td["action"], Categorical(3, (5,)).rand(rng=0))
    RandomPolicy(Bounded(-1, 1, (5, 2)), ("agent", "action"))(td)
    assert Bounded(-1, 1, (5, 2)).is_in(td["agent", "action"])


def test_composite_specs_name_the_keys():
    spec = Composite({"action": {"a": Categorical(3, (5,)), "b": Bounded(-1, 1, (5, 2))}}, shape=(5,))
    td = RandomPolicy(spec)(TensorDict(batch_size=[5]))
    assert set(td.keys(True, True)) == {("action", "a"), ("action", "b")}
    assert spec.is_in(td)


def test_seeds():
    draws = [
        RandomPolicy(Categorical(100, (9,)), generator=seed)(TensorDict())["action"] for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).any()


def test_errors():
    raises(RuntimeError, "has no action_spec", RandomPolicy(), TensorDict())
    raises(TypeError, "action_spec must be a spec, got int", RandomPolicy, 3)
