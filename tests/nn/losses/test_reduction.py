"""Distances, and from losses per element to one number."""

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite.nn.losses.reduction import (
    clipped_value_loss,
    distance_loss,
    expanded,
    reduced,
    require_loss_function,
    require_reduction,
    squeezed,
)


def test_distances() -> None:
    a, b = np.array([0.0, 0.5, -3.0]), np.zeros(3)
    np.testing.assert_array_equal(distance_loss(a, b, "l2"), [0, 0.25, 9])
    np.testing.assert_array_equal(distance_loss(a, b, "l1"), [0, 0.5, 3])
    np.testing.assert_array_equal(distance_loss(a, b, "smooth_l1"), [0, 0.125, 2.5])
    assert distance_loss(a.astype(np.float32), b.astype(np.float32), "smooth_l1").dtype == np.float32
    with pytest.raises(
        NotImplementedError, match="loss_function must be 'l2', 'l1' or 'smooth_l1', got 'l3'"
    ):
        distance_loss(a, b, "l3")


def test_shapes_do_not_broadcast_silently() -> None:
    a, b = np.zeros(3), np.zeros((3, 1))
    raises(RuntimeError, r"must have one shape, got \(3,\) and \(3, 1\)", lambda: distance_loss(a, b, "l2"))
    assert distance_loss(a, b, "l2", strict_shape=False).shape == (3, 3)
    with pytest.raises(ValueError, match=r"priority weights must have the loss's shape \(3,\), got \(3, 1\)"):
        reduced(a, "mean", weights=b)
    with pytest.raises(ValueError, match=r"the mask of shape \(2,\) does not fit a loss of shape \(3,\)"):
        expanded(np.ones(2, bool), a)
    raises(RuntimeError, "old and new values must have one shape", clipped_value_loss, b, a, 0.1, a, a, "l2")


def test_names_are_checked() -> None:
    assert require_reduction(None) == "mean"
    raises(ValueError, "reduction must be 'mean', 'sum' or 'none', got 'max'", require_reduction, "max")
    raises(ValueError, "loss_function must be", lambda: require_loss_function(None))


@each_case(("reduction", "expected"), [("mean", 2.0), ("sum", 4.0), ("none", [1.0, 0.0, 3.0])])
def test_what_is_masked_may_be_nan(reduction: str, expected: object) -> None:
    loss, mask = np.array([1.0, np.nan, 3.0]), np.array([True, False, True])
    np.testing.assert_array_equal(reduced(loss, reduction, mask), expected)


def test_weights() -> None:
    loss, weights, mask = np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 2.0]), np.array([1, 0, 1], bool)
    assert reduced(loss, "mean", weights=weights) == 9 / 4
    assert reduced(loss, "mean", mask, weights) == 7 / 3
    assert reduced(loss, "sum", mask, weights) == 7
    np.testing.assert_array_equal(reduced(loss, "none", mask, weights), [1, 0, 6])


@each_case("dtype", [np.float16, np.float32])
def test_the_dtype_stays(dtype: type) -> None:
    loss, mask = np.ones(3, dtype), np.ones(3, bool)
    for kept in (None, mask):
        for weights in (None, np.ones(3)):
            assert reduced(loss, "mean", kept, weights).dtype == dtype


def test_all_masked_is_zero() -> None:
    assert reduced(np.ones(3), "mean", np.zeros(3, bool)) == 0


def test_dimensions_of_one() -> None:
    assert expanded(np.ones((3, 1), bool), np.zeros(3)).shape == (3,)
    assert expanded(np.ones(3, bool), np.zeros((3, 2))).shape == (3, 2)
    assert squeezed(np.zeros((3, 1))).shape == (3,)
    assert squeezed(np.zeros((3, 2))).shape == (3, 2)
    assert squeezed(np.zeros(())).shape == ()


def test_clipped_values() -> None:
    old, new, target = np.full(2, 0.5), np.array([0.55, 1.5]), np.full(2, 1.5)
    loss, fraction = clipped_value_loss(old, new, 0.1, target, (target - new) ** 2, "l2")
    np.testing.assert_allclose(loss, [0.95**2, 0.9**2])
    assert fraction == 0.5
