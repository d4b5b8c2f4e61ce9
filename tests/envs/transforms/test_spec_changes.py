import numpy as np
from helpers.cases import raises

from lite.data import Bounded, Categorical, Composite, NonTensor, OneHot, Unbounded
from lite.envs import CatTensors, SignTransform, SqueezeTransform
from lite.envs.transforms.spec_changes import mapped


def test_bounds_stay_in_order():
    spec = mapped(Bounded([-1, -2], [3, 4]), lambda value: -value)
    assert spec == Bounded([-3, -4], [1, 2])


def test_shape_and_dtype_are_those_of_the_values():
    spec = mapped(Bounded(0, 255, (2, 3), dtype=np.uint8), lambda value: value.T / np.float32(255))
    assert spec == Bounded(0, 1, (3, 2), dtype=np.float32)
    assert mapped(Unbounded((2, -1)), lambda value: value[None]) == Unbounded((1, 2, 1))
    assert mapped(Categorical(3, (2,)), lambda value: value[:1]) == Categorical(3, (1,))
    assert mapped(OneHot(3), lambda value: value / np.float32(2)) == Unbounded(3)
    assert mapped(OneHot(3), lambda value: value.astype(np.float32)) == OneHot(3, dtype=np.float32)


def test_shapes_that_differ_are_refused_by_their_key():
    games = np.stack([Composite(a=Bounded(0, 1, (size,))) for size in (2, 3)])
    one = np.stack([Composite(a=Bounded(0, high, (2,))) for high in (1, 2)])
    wrong = r" takes 'a' in one shape, and environments have \(2, -1\)"
    for transform, spec in (
        (SignTransform(["a"]).transform_observation_spec, games),
        (CatTensors(["a"], "b").transform_observation_spec, games),
        (SqueezeTransform(-1, in_keys_inv=["a"]).transform_state_spec, games),
    ):
        raises(NotImplementedError, wrong, transform, spec)
    assert SignTransform(["a"]).transform_observation_spec(one)["a"] == Bounded(-1, 1, (2, 2))


def test_objects_stay():
    spec = NonTensor((2,))
    assert mapped(spec, lambda value: value + 1) is spec
