"""`spec.space`."""

import numpy as np

from lite.data import (
    Binary,
    Bounded,
    Categorical,
    MultiCategorical,
    MultiOneHot,
    NonTensor,
    OneHot,
    Unbounded,
)
from lite.specs.base import BoxList, CategoricalBox


def test_classes():
    for spec, space in (
        (Categorical(3), CategoricalBox(3)),
        (Binary(4), CategoricalBox(2)),
        (OneHot(3), CategoricalBox(3)),
        (MultiOneHot([2, 3]), BoxList([CategoricalBox(2), CategoricalBox(3)])),
        (MultiCategorical([[2], [3]]), BoxList([BoxList([CategoricalBox(2)]), BoxList([CategoricalBox(3)])])),
        (NonTensor(), None),
    ):
        assert spec.space == space


def test_bounds():
    low, high = Bounded(-1, [1, 2]).space
    np.testing.assert_array_equal(low, [-1, -1])
    np.testing.assert_array_equal(high, [1, 2])
    assert Unbounded(2).space.low.tolist() == [np.finfo(np.float32).min] * 2
    assert Unbounded(1, dtype=np.int8).space.high.tolist() == [127]
    assert Unbounded(1, dtype=np.bool_).space.high.tolist() == [True]
    boxes = MultiCategorical([2, 3]).space
    assert (len(boxes), boxes[1].n) == (2, 3)
