"""Transforms of numbers: what they do at their ends; inverses and slopes are in test_transforms.py."""

import numpy as np
import pytest

from lite.nn import distributions as d

REAL, POSITIVE = np.array([-2.0, -0.5, 0.3, 3.0]), np.array([0.1, 0.5, 1.0, 4.0])


def test_safe_tanh_stays_inside() -> None:
    for dtype in ("float32", "float64"):
        y = d.SafeTanhTransform()(np.array([-50.0, 50.0], dtype))
        assert (np.abs(y) < 1).all()
        assert np.isfinite(d.SafeTanhTransform().inv(np.array([-1.0, 1.0], dtype))).all()


def test_absolute_values_have_no_inverse() -> None:
    transform = d.AbsTransform()
    np.testing.assert_array_equal(transform(REAL), np.abs(REAL))
    np.testing.assert_array_equal(transform.inv(POSITIVE), POSITIVE)
    assert not transform.bijective
    assert d.ExpTransform().bijective
    assert not d.ComposeTransform([d.ExpTransform(), transform]).bijective
    with pytest.raises(NotImplementedError, match="AbsTransform has no log_abs_det_jacobian"):
        transform.log_abs_det_jacobian(REAL, REAL)
    with pytest.raises(NotImplementedError, match="AbsTransform does not define sign"):
        _ = transform.sign


def test_sigmoid_never_arrives() -> None:
    for dtype in ("float32", "float64"):
        transform = d.SigmoidTransform()
        y = transform(np.array([-1e4, 1e4], dtype))
        assert y.dtype == dtype
        assert ((y > 0) & (y < 1)).all()
        assert np.isfinite(transform.inv(np.array([0, 1], dtype))).all()


def test_parameters_are_broadcast() -> None:
    for transform in (d.AffineTransform(np.zeros((3, 1)), np.ones(2)), d.PowerTransform(np.ones((3, 2)))):
        assert transform.forward_shape((2,)) == transform.inverse_shape((1, 2)) == (3, 2)
    assert d.AffineTransform(0, -2).sign == -1
    np.testing.assert_array_equal(d.AffineTransform(0, np.array([2.0, -1.0])).sign, [1, -1])
