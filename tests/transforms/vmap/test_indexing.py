"""Brackets around mapped arrays, and mapped arrays in brackets."""

import numpy as np
import pytest
from helpers.vmap_cases import Case, b, check_mapped, f, for_each, i, put, put_at, written

from lite import vmap
from lite._transforms.vmap.loop import _warned

CASES: list[Case] = [
    ("int", lambda x: x[-1], (f(3, 4),)),
    ("slice", lambda x: x[::2], (f(3, 4),)),
    ("basic", lambda x: x[1, None, ..., 1:3], (f(3, 2, 4),)),
    ("all", lambda x: x[()], (f(3),)),
    ("list", lambda x: x[[0, 2]], (f(3, 4),)),
    ("array", lambda x: x[:, np.array([[0, 1], [2, 3]])], (f(3, 4),)),
    ("arrays apart", lambda x: x[[0, 1], :, [1, 0]], (f(3, 2, 4),)),
    ("int and array apart", lambda x: x[0, :, [1, 0, 1]], (f(3, 2, 4),)),
    ("mask that is shared", lambda x: x[np.array([True, False, True])], (f(3, 4),)),
    ("mask after", lambda x: x[:, np.array([True, False])], (f(3, 2, 4),)),
    ("mapped int", lambda x, k: x[k], (f(3, 4), i())),
    ("mapped int, second", lambda x, k: x[:, k], (f(3, 4), i())),
    ("mapped array", lambda x, k: x[k], (f(3, 4), i(2, 2))),
    ("mapped array, second", lambda x, k: x[:, k], (f(3, 4), i(2))),
    ("mapped arrays", lambda x, k, m: x[k, m], (f(3, 4), i(2, 1), i(3))),
    ("mapped arrays apart", lambda x, k, m: x[k, :, m], (f(3, 2, 4), i(2), i(2))),
    ("mapped arrays, none before", lambda x, k: x[None, :, k, 1], (f(3, 4, 2), i(2))),
    ("mapped and ellipsis", lambda x, k: x[..., k], (f(3, 2, 4), i(2))),
    ("mapped mask of as many", lambda x: x[x > np.median(x)], (f(5),)),
    ("assign int", put(0), (f(3, 4), f(4))),
    ("assign slice", put((slice(None), slice(1, 3))), (f(3, 4), f())),
    ("assign all", put(...), (f(3, 4), f(1, 3, 1))),
    ("assign list", put([0, 2]), (f(3, 4), f(2, 4))),
    ("assign arrays apart", put(([0, 1], slice(None), [1, 0])), (f(3, 2, 4), f(2, 2))),
    ("assign at mapped", written(put_at), (f(3, 4), i(), f(4))),
    ("assign at mapped array", written(put_at), (f(9, 4), i(1), f(1, 4))),
    ("assign at mapped, second", written(lambda x, k, y: put_at(x, (slice(None), k), y)),
        (f(3, 4), i(), f(3))),
    ("assign number at mask", written(lambda x, m: put_at(x, m, 0.0)), (f(3, 4), b(3))),
    ("assign mapped number at mask", written(put_at), (f(3, 4), b(3, 4), f())),
    ("assign number at mask of rows", written(lambda x, m: put_at(x, (slice(None), m), 0.0)),
        (f(3, 4, 2), b(4))),
]  # fmt: skip


def test_maps_equal_loops() -> None:
    for_each(check_mapped, CASES)


def test_assignments_through_masks_that_run_in_a_loop() -> None:
    _warned.add("assignment through a mask")
    x = np.arange(24.0).reshape(2, 3, 4)
    rows = np.array([[True, False, True], [False, True, False]])
    columns = np.array([[True, False, True, True], [False, True, False, False]])
    for index, mask, value in (
        (lambda m: (1, m), columns, 0.0),
        (lambda m: (m, 1), rows, 0.0),
        (lambda m: m, rows, np.arange(4.0)),
    ):
        one = written(lambda x, m, at=index, new=value: put_at(x, at(m), new))
        expected = [one(*pair) for pair in zip(x, mask, strict=True)]
        np.testing.assert_array_equal(vmap(one)(x, mask), expected)


def test_masks_need_as_many_elements() -> None:
    with pytest.raises(ValueError, match="it is at 1 to 2"):
        vmap(lambda v: v[v > 0])(np.array([[1.0, 2.0], [0.0, 1.0]]))


def test_masks_in_nested_maps() -> None:
    _warned.update({"indexing with a mask", "numpy.nonzero"})
    x = np.random.default_rng(0).standard_normal((2, 3, 5))
    out = vmap(vmap(lambda v: v[v > np.median(v)]))(x)
    expected = [[v[v > np.median(v)] for v in part] for part in x]
    np.testing.assert_array_equal(out, expected)
