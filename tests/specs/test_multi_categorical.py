"""Several classes at once, and classes as vectors; `tests/parity/test_envs.py` compares with torchrl's."""

import numpy as np
from helpers.cases import raises
from helpers.compared import assert_same

from lite.data import Bounded, Categorical, Composite, MultiCategorical, MultiOneHot, OneHot, Unbounded


def test_drawn_values_are_in():
    for spec in (OneHot(4), OneHot(4, (3, 4), dtype=np.int64), MultiOneHot([2, 3]), MultiCategorical([2, 5])):
        drawn = spec.rand((200,), rng=0)
        assert drawn.shape == (200, *spec.shape)
        assert drawn.dtype == spec.dtype
        assert spec.is_in(drawn)
        assert len(np.unique(drawn.reshape(200, -1), axis=0)) > 3
        assert not spec.is_in(drawn[..., :-1])
        assert not spec.is_in(drawn.astype(np.float32))
        assert not spec.is_in(spec.one() + spec.one() if spec.dtype != np.bool_ else spec.one())
        np.testing.assert_array_equal(spec.rand((200,), rng=0), drawn)


def test_masks_leave_classes_out():
    spec = OneHot(3, mask=[True, False, True])
    assert spec.rand((50,), rng=0).sum(0)[1] == 0
    assert not spec.is_in(spec.encode(1))
    assert spec.is_in(spec.encode([0, 2]))
    categorical = spec.to_categorical_spec()
    assert set(categorical.rand((50,), rng=0)) == {0, 2}
    assert not categorical.is_in(np.array(1))
    rows = Categorical(3, (2,), mask=[[True, False, False], [False, False, True]])
    assert rows.rand(rng=0).tolist() == [0, 2]
    for mask in ([True], [False, False, False]):
        raises(ValueError, "mask", OneHot, 3, mask=mask)


def test_nearest_values():
    assert OneHot(3).project(np.array([0.1, 0.7, 0.2])).tolist() == [False, True, False]
    assert MultiCategorical([2, 5]).project(np.array([3.2, -1.0])).tolist() == [1, 0]
    near = MultiOneHot([2, 3]).project(np.array([0.1, 0.9, 0.3, 0.4, 0.1]))
    assert near.astype(int).tolist() == [0, 1, 0, 1, 0]


def test_classes_and_vectors_of_them():
    for classes, vectors, count in (
        (Categorical(3, (2,)), OneHot(3, (2, 3)), 3),
        (MultiCategorical([2, 3]), MultiOneHot([2, 3]), 6),
        (MultiCategorical([2, 3], (4, 2)), MultiOneHot([2, 3], (4, 5)), 6),
    ):
        assert (classes.cardinality(), vectors.cardinality()) == (count, count)
        assert vectors.to_categorical_spec() == classes
        assert classes.to_one_hot_spec() == vectors
        assert classes.to_categorical_spec() is classes
        assert vectors.to_one_hot_spec() is vectors
        drawn = classes.rand(rng=0)
        assert classes.to_categorical(drawn) is drawn
        coded = classes.to_one_hot(drawn)
        assert vectors.is_in(coded)
        assert vectors.to_one_hot(coded) is coded
        np.testing.assert_array_equal(vectors.to_categorical(coded), drawn)
        assert {classes.domain, vectors.domain} == {"discrete"}
    assert Unbounded(2).domain == "continuous"
    assert repr(MultiOneHot([2, 3])).startswith("MultiOneHot(nvec=")
    np.testing.assert_array_equal(Unbounded(2).to_numpy([1.0, 2.0]), [1, 2])


def test_what_is_refused():
    for make, error in (
        (lambda: OneHot(0), ValueError),
        (lambda: OneHot(4, (3,)), ValueError),
        (lambda: MultiOneHot([2, 3], (4,)), ValueError),
        (lambda: MultiOneHot([[2], [3]]), ValueError),
        (lambda: MultiCategorical([0, 3]), ValueError),
        (lambda: MultiCategorical([2, 3], (3,)), ValueError),
        (lambda: MultiCategorical([[2], [3]]).to_one_hot_spec(), ValueError),
        (lambda: OneHot(3).encode(3), AssertionError),
        (lambda: MultiOneHot([2, 3]).encode([2, 0]), AssertionError),
        (lambda: OneHot(3)[0], IndexError),
    ):
        raises(error, "", make)


def test_specs_are_told_apart_and_indexed():
    assert OneHot(3) != OneHot(3, dtype=np.int64)
    assert MultiOneHot([2, 3]) != MultiOneHot([3, 2])
    assert MultiCategorical([2, 3]) != MultiCategorical([3, 2])
    assert OneHot(3).expand(2, 3)[0] == OneHot(3)
    assert MultiCategorical([2, 3], (4, 2))[1:].shape == (3, 2)
    raises(IndexError, "", lambda: MultiCategorical([2, 3], (4, 2))[:, 0])
    part = Composite(a=Bounded([[0, 1], [2, 3]], 9), shape=2)[1]
    assert part.shape == ()
    assert part["a"].low.tolist() == [2, 3]
    assert Unbounded((3, 2))[:, 0].shape == (3,)


def test_conversions():
    categorical = Categorical(3, (2,))
    assert categorical.to_one_hot(np.array([0, 2])).astype(int).tolist() == [[1, 0, 0], [0, 0, 1]]
    spec = MultiOneHot([2, 3], (4, 5))
    assert spec.to_categorical_spec() == MultiCategorical([2, 3], (4, 2))
    assert spec.to_categorical_spec().to_one_hot_spec() == MultiOneHot([2, 3], (4, 5))
    encoded = Composite(a=Unbounded(2), b=OneHot(2)).encode({"a": [1, 2], "b": 1})
    assert encoded["b"].tolist() == [False, True]
    assert_same(encoded["a"], np.array([1, 2], np.float32), strict=True)
    assert Bounded(0, 1, (2,), dtype=np.float64).encode([[0], [1]]).tolist() == [0.0, 1.0]
    assert Composite(b=OneHot(2)).to_numpy(encoded.select("b")) == {"b": 1}


def test_values_of_one_element():
    np.testing.assert_array_equal(
        MultiCategorical([2, 3]).enumerate(), [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    )
    vectors = MultiOneHot([1, 2], (2, 3)).enumerate()
    np.testing.assert_array_equal(vectors, [[[1, 1, 0], [1, 1, 0]], [[1, 0, 1], [1, 0, 1]]])
    raises(NotImplementedError, "values cannot be listed", MultiCategorical([[2, 3], [4, 5]]).enumerate)


def test_vectors_have_no_mask_to_list_and_are_indexed_by_rows():
    raises(NotImplementedError, "masks of a Categorical only", OneHot(3).enumerate, True)
    np.testing.assert_array_equal(OneHot(3).enumerate(), np.eye(3))
    assert MultiOneHot([2, 3], (4, 5))[1].shape == (5,)
    raises(IndexError, "", lambda: MultiOneHot([2, 3], (4, 5))[0, 1])
