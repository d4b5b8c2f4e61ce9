"""Functions along axes of one element are functions along the next axes of all."""

import numpy as np
from helpers.cases import raises

from lite._transforms.registry import NoRule
from lite._transforms.vmap.along import along, shifted_axes, shifted_axis
from lite._transforms.vmap.level import Level


def test_axes_are_shifted_by_one_and_must_exist() -> None:
    assert [shifted_axis(axis, 2) for axis in (0, 1, -1, -2)] == [1, 2, 2, 1]
    assert shifted_axes((0, -1), 3) == (1, 3)
    raises(np.exceptions.AxisError, "axis 2 is out of bounds", shifted_axis, 2, 2)


def test_the_mapped_dimension_stays() -> None:
    for axis in (None, 0, -1, (0, 1)):
        x = np.arange(24.0).reshape(2, 3, 4)
        level = Level(1, 2)
        got = along(level, np.add.reduce, level.wrap(x), axis, {"keepdims": True}).value
        np.testing.assert_array_equal(got, [np.sum(part, axis, keepdims=True) for part in x])


def test_another_argument_that_is_mapped_has_no_rule() -> None:
    level = Level(1, 2)
    mapped = level.wrap(np.ones((2, 3)))
    raises(NoRule, "", along, level, np.add.reduce, mapped, 0, {"initial": level.wrap(np.ones(2))})
