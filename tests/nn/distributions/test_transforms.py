"""Transforms: inverses, slopes, shapes, caches, equality, errors."""

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite.nn import distributions as d
from lite.nn.distributions.support import GreaterThan

REAL, POSITIVE = np.array([-2.0, -0.5, 0.3, 3.0]), np.array([0.1, 0.5, 1.0, 4.0])
PLAIN: dict[str, tuple[Any, np.ndarray]] = {
    "exp": (d.ExpTransform(), REAL),
    "log": (d.ExpTransform().inv, POSITIVE),
    "sigmoid": (d.SigmoidTransform(), REAL),
    "softplus": (d.SoftplusTransform(), REAL),
    "tanh": (d.TanhTransform(), REAL),
    "safe tanh": (d.SafeTanhTransform(), REAL),
    "affine": (d.AffineTransform(1.0, -2.0), REAL),
    "affine arrays": (d.AffineTransform(np.arange(4.0), np.array([1.0, -2.0, 3.0, 0.5])), REAL),
    "power": (d.PowerTransform(np.array([2.0, -1.0, 0.5, 3.0])), POSITIVE),
    "composed": (
        d.ComposeTransform([d.ExpTransform(), d.AffineTransform(0, 3.0), d.PowerTransform(2.0)]),
        REAL,
    ),
    "identity": (d.identity_transform, REAL),
}


@each_case(("name", "dtype"), itertools.product(PLAIN, ["float32", "float64"]))
def test_inverses_and_slopes(name: Any, dtype: Any) -> None:
    transform, x = PLAIN[name][0], PLAIN[name][1].astype(dtype)
    if dtype == "float32" and "arrays" in name:
        transform = d.AffineTransform(transform.loc.astype(dtype), transform.scale.astype(dtype))
    y = transform(x)
    tolerance = 2e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(transform.inv(y), x, rtol=tolerance, atol=tolerance)
    assert transform.inv.inv is transform
    assert transform.domain.check(x).all()
    assert transform.codomain.check(y).all()
    if dtype == "float64":
        step = 1e-6
        slope = (transform(x + step) - transform(x - step)) / (2 * step)
        np.testing.assert_allclose(transform.log_abs_det_jacobian(x, y), np.log(np.abs(slope)), atol=1e-6)
        np.testing.assert_allclose(
            transform.inv.log_abs_det_jacobian(y, x), -np.log(np.abs(slope)), atol=1e-6
        )
        np.testing.assert_array_equal(np.broadcast_to(transform.sign, x.shape), np.sign(slope))
    elif name != "power":
        assert y.dtype == transform.inv(y).dtype == transform.log_abs_det_jacobian(x, y).dtype == dtype


def test_events() -> None:
    x = np.linspace(-1, 1, 6).reshape(2, 3)
    for transform in (
        d.IndependentTransform(d.TanhTransform(), 1),
        d.ComposeTransform([d.TanhTransform(), d.AffineTransform(0.0, 1.0, event_dim=1)]),
    ):
        assert transform.event_dim == transform.inv.event_dim == 1
        slope = transform.log_abs_det_jacobian(x, transform(x))
        np.testing.assert_allclose(slope, np.log(1 - np.tanh(x) ** 2).sum(-1), rtol=1e-12)
    with pytest.raises(ValueError, match=r"a value has 1 dimensions, got an array of shape \(\)"):
        d.IndependentTransform(d.TanhTransform(), 1)(np.array(0.0))


def test_a_map_of_parts_of_an_event_is_as_the_map() -> None:
    inner = d.AffineTransform(1.0, -2.0)
    transform, x = d.IndependentTransform(inner, 1), np.linspace(-1, 1, 6).reshape(2, 3)
    np.testing.assert_allclose(transform.inv(transform(x)), x)
    assert (transform.bijective, transform.inv.bijective, transform.sign) == (True, True, -1)
    assert not d.IndependentTransform(d.AbsTransform(), 1).inv.bijective
    assert transform.forward_shape((2, 3)) == transform.inverse_shape((2, 3)) == (2, 3)
    assert repr(transform) == f"IndependentTransform({inner!r}, 1)"


def test_with_a_cache_the_same_array_comes_back() -> None:
    x = np.linspace(-1, 1, 6).reshape(2, 3)
    for plain in (
        d.ComposeTransform([d.ExpTransform(), d.AffineTransform(0, 3.0)]),
        d.IndependentTransform(d.ExpTransform(), 1),
        d.ExpTransform().inv.inv,
    ):
        assert plain.with_cache(0) is plain
        cached = plain.with_cache()
        assert cached.with_cache(1) is cached
        y = cached(x)
        assert (cached(x) is y, cached.inv(y) is x) == (True, True)
        assert plain.inv(plain(x)) is not x
        np.testing.assert_allclose(plain.inv.with_cache()(y), x, atol=1e-15)


def test_reshape() -> None:
    transform = d.ReshapeTransform((4,), (2, 2))
    x = np.arange(12.0).reshape(3, 4)
    y = transform(x)
    assert y.shape == (3, 2, 2)
    np.testing.assert_array_equal(transform.inv(y), x)
    np.testing.assert_array_equal(transform.log_abs_det_jacobian(x, y), np.zeros(3))
    assert transform.forward_shape((7, 4)) == transform.inv.inverse_shape((7, 4)) == (7, 2, 2)
    with pytest.raises(ValueError, match=r"different numbers of elements, got \(4,\) and \(3,\)"):
        d.ReshapeTransform((4,), (3,))
    with pytest.raises(ValueError, match=r"a value has the shape \(4,\), got an array of shape \(3, 5\)"):
        transform(np.zeros((3, 5)))
    with pytest.raises(ValueError, match="they are different"):
        _ = transform.event_dim


def test_a_cache_spares_the_inverse() -> None:
    x = np.array([0.0, 30.0])
    plain, cached = d.TanhTransform(), d.TanhTransform(cache_size=1)
    with np.errstate(divide="ignore"):
        assert plain.inv(plain(x))[1] == np.inf
    y = cached(x)
    assert cached.inv(y) is x
    assert cached(x) is y
    assert cached.with_cache() is cached
    assert plain.with_cache(1) == plain
    both = d.ComposeTransform([d.TanhTransform(), d.AffineTransform(1.0, 2.0)], cache_size=1)
    assert both.inv(both(x)) is x
    raises(ValueError, "cache_size must be 0 or 1, got 2", d.TanhTransform, cache_size=2)


def test_equality() -> None:
    affine = d.AffineTransform(np.zeros(2), 1.0)
    assert affine == d.AffineTransform(np.zeros(2), 1.0)
    assert affine != d.AffineTransform(np.ones(2), 1.0)
    assert d.ExpTransform() == d.ExpTransform() != d.TanhTransform()
    assert d.ExpTransform().inv == d.ExpTransform().inv != d.ExpTransform()
    assert d.ComposeTransform([affine]) == d.ComposeTransform([d.AffineTransform(np.zeros(2), 1.0)])
    assert d.PowerTransform(2.0) != d.PowerTransform(3.0)
    assert d.IndependentTransform(affine, 1) != d.IndependentTransform(affine, 0)


@each_case("name", PLAIN)
def test_they_are_pickled_and_shown(name: str) -> None:
    transform, x = PLAIN[name]
    _ = transform.inv
    assert pickle.loads(pickle.dumps(transform)) == transform
    assert repr(transform).split("(")[0].removesuffix(".inv").endswith("Transform")
    assert transform.forward_shape(x.shape) == transform.inverse_shape(x.shape) == x.shape


def test_a_transform_of_ones_own() -> None:
    class Cube(d.Transform):
        bijective = True
        sign = 1

        def _call(self, x: Any) -> Any:
            return x**3

        def _inverse(self, y: Any) -> Any:
            return np.cbrt(y)

        def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
            return np.log(3 * x * x)

    dist = d.TransformedDistribution(d.Normal(np.float64(1), 0.1), Cube(cache_size=1))
    step = 1e-6
    slope = (dist.cdf(1.2 + step) - dist.cdf(1.2 - step)) / (2 * step)
    np.testing.assert_allclose(np.exp(dist.log_prob(1.2)), slope, rtol=1e-6)
    bare = d.Transform()
    for call, message in (
        (lambda: bare(1.0), "Transform does not define _call"),
        (lambda: bare.inv(1.0), "Transform has no inverse"),
    ):
        raises(NotImplementedError, message, call)


def test_domains() -> None:
    composed = d.ComposeTransform([d.ReshapeTransform((4,), (2, 2)), d.ExpTransform()])
    assert (composed.domain.event_dim, composed.codomain.event_dim) == (1, 2)
    assert isinstance(d.ExpTransform().inv.domain, GreaterThan)
