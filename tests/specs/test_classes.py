"""Specs of classes: what they allow, project to and draw."""

import numpy as np
from helpers.cases import raises

from lite.data import Binary, Categorical, Composite


def test_classes() -> None:
    spec = Categorical(3, (2,))
    assert (spec.n, spec.dtype) == (3, np.int64)
    assert not spec.is_in(np.array([0, 3]))
    assert not spec.is_in(np.array([-1, 0]))
    np.testing.assert_array_equal(spec.project(np.array([-4, 7])), [0, 2])
    np.testing.assert_array_equal(spec.project(np.array([0.6, 1.4])), [1, 1])
    assert Binary(4) == Categorical(2, (4,), dtype=np.int8) == Binary(shape=4)
    for n in (0, -1):
        raises(ValueError, "n must", Categorical, n)
    raises(ValueError, "shape", Binary, 3, (2, 4))
    raises(ValueError, "shape", Binary)


def test_masks_are_those_of_their_classes() -> None:
    one = Categorical(3, mask=[True, False, True])
    assert [one.enumerate(use_mask=masked).tolist() for masked in (False, True)] == [[0, 1, 2], [0, 2]]
    assert Categorical(3).enumerate(use_mask=True).tolist() == [0, 1, 2]
    rows = Categorical(3, (2,), mask=[[True, False, True], [False, True, True]])
    assert rows.unsqueeze(0).mask.tolist() == [rows.mask.tolist()]
    assert one.expand(2).unsqueeze(0).mask.tolist() == one.mask.tolist()
    for part in (rows[1], Composite(a=rows, shape=2)[1]["a"], rows.unbind()[1], rows[..., 1]):
        assert part.mask.tolist() == rows.mask[1].tolist()
    assert rows.expand(4, 2).mask.tolist() == 4 * [rows.mask.tolist()]
    assert rows.is_in([np.array(0), np.array(2)])
    assert not rows.is_in([np.array(1), np.array(2)])
