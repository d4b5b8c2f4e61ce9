import numpy as np
import pytest
from helpers.cases import each_case, noting

from lite.nn.values.standardize import standardized


@each_case("kind", [np.float32, np.float64])
def test_all_values(rng, kind):
    values = rng.normal(3, 2, (5, 6)).astype(kind)
    out = standardized(values, smallest=1e-4)
    assert (out.shape, out.dtype) == ((5, 6), kind)
    wide = values.astype(np.float64)
    np.testing.assert_allclose(out, (wide - wide.mean()) / wide.std(ddof=1), rtol=1e-5, atol=1e-6)
    out = standardized(values, smallest=1e-4, unbiased=False)
    np.testing.assert_allclose(out, (wide - wide.mean()) / wide.std(), rtol=1e-5, atol=1e-6)


def test_groups_are_by_themselves_whatever_their_order_and_size(rng):
    values, groups = rng.normal(size=(40, 1)), rng.choice([7, -2, 30], 40)
    out = standardized(values, groups, smallest=1e-6)
    for group in (7, -2, 30):
        part = values[groups == group]
        np.testing.assert_allclose(out[groups == group], (part - part.mean()) / part.std(ddof=1), rtol=1e-9)
    out = standardized(values, groups, smallest=1e-6, divide=False)
    np.testing.assert_allclose(out[groups == 7], values[groups == 7] - values[groups == 7].mean(), atol=1e-12)


def test_strings_are_groups():
    out = standardized(np.array([1.0, 2, 5]), np.array(["a", "b", "a"]), smallest=1e-6, divide=False)
    np.testing.assert_allclose(out, [-2, 0, 2])


@each_case("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_stays_alone(bad):
    values, groups = np.array([1.0, bad, 3.0, 5.0, 5.0]), np.array([0, 0, 0, 1, 1])
    out = standardized(values, groups, smallest=1e-6)
    np.testing.assert_allclose(out, [-np.sqrt(0.5), np.nan, np.sqrt(0.5), 0, 0])
    out = standardized(np.full(3, bad), smallest=1e-6)
    np.testing.assert_array_equal(out, [np.nan] * 3)


def test_masked_values_count_for_nothing(rng):
    values = rng.normal(size=(6, 2))
    mask = np.array([1, 1, 1, 0, 1, 0], bool)[:, None]
    out = standardized(values, mask=mask, smallest=1e-4, unbiased=False)
    kept = values[mask[:, 0]]
    np.testing.assert_allclose(out, (values - kept.mean()) / kept.std(), rtol=1e-9)


def test_groups_of_another_shape():
    for shape in [(3,), (4, 2), (4, 1, 1, 1, 2)]:
        with noting(shape), pytest.raises(RuntimeError, match=r"must have the shape of the values.*\(4, 1\)"):
            standardized(np.zeros((4, 1)), np.zeros(shape, int), smallest=1e-6)
