import numpy as np

from lite.data import Bounded, Categorical, NonTensor, Unbounded
from lite.envs.transforms.spec_changes import mapped


def test_bounds_stay_in_order():
    spec = mapped(Bounded([-1, -2], [3, 4]), lambda value: -value)
    assert spec == Bounded([-3, -4], [1, 2])


def test_shape_and_dtype_are_those_of_the_values():
    spec = mapped(Bounded(0, 255, (2, 3), dtype=np.uint8), lambda value: value.T / np.float32(255))
    assert spec == Bounded(0, 1, (3, 2), dtype=np.float32)
    assert mapped(Unbounded((2, -1)), lambda value: value[None]) == Unbounded((1, 2, 1))
    assert mapped(Categorical(3, (2,)), lambda value: value[:1]) == Categorical(3, (1,))


def test_objects_stay():
    spec = NonTensor((2,))
    assert mapped(spec, lambda value: value + 1) is spec
