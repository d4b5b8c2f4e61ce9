"""On arrays, formulas give what the functions that they are for give."""

from typing import Any

import numpy as np
from helpers.compared import assert_same

import lite._transforms.rules  # noqa: F401 - which registers them
from lite._transforms.registry import FORMULAS, NOT_GIVEN, name_of

_RNG = np.random.default_rng(0)
_A, _B, _V, _W = (_RNG.standard_normal(shape) for shape in ((3, 4), (3, 4), 5, 3))
_T = _RNG.standard_normal((2, 3, 6))
_N = np.where(_A > 1, np.nan, _A)
_CALLS: dict[Any, list[tuple[Any, ...]]] = {
    np.average: [(_A,), (_A, 1), (_A, 0, _W**2), (_A, None, _B**2, True)],
    np.diff: [
        (_A,),
        (_A, 2, 0),
        (_A, 1, 1, _W[:, None], 0.5),
        (_A, 1, 0, 0.5, NOT_GIVEN),
        (_A, 1, 1, NOT_GIVEN, 0.5),
        (_A > 0,),
    ],
    np.trapezoid: [(_A,), (_T, _W, 1.0, 1), (_V, np.cumsum(_V)), (_A, _W, 1.0, 0), (_A, None, 0.5, 0)],
    np.cov: [(_A,), (_A, _B), (_A, None, False, True)],
    np.corrcoef: [(_A,), (_V,), (_V, -_V)],
    np.polyval: [(_W, _A)],
    np.copy: [(_A,)],
    np.astype: [(_A, np.float32)],
    np.matrix_transpose: [(_T,)],
    np.linalg.matrix_transpose: [(_T,)],
    np.rollaxis: [(_T, 2), (_T, 0, 3), (_T, -1, -2), (_T, 1, 1)],
    np.moveaxis: [(_T, 2, 0), (_T, (0, -1), (1, 0))],
    np.flip: [(_T,), (_T, 1), (_T, (0, -1))],
    np.tile: [(_A, 2), (_A, (2, 1, 3)), (_A, 1), (_T, (2, 1))],
    **{f: [(_A,), (_T, -1), (_V, 1)] for f in (np.tril, np.triu)},
    np.rot90: [(_T, k, (0, 2)) for k in range(-1, 8)],
    np.linalg.diagonal: [(_T,)],
    np.ptp: [(_A,), (_A, 1)],
    **{f: [(_N,), (_N, 1)] for f in (np.nansum, np.nanprod, np.nancumsum, np.nancumprod, np.nanmean)},
    **{f: [(_N,), (_N, 0, None, None, 1)] for f in (np.nanvar, np.nanstd)},
    np.cumulative_sum: [(_V,)],
    np.cumulative_prod: [(_V,)],
    np.dot: [(_A, _B.T), (_V, 2.0), (_T, _T[0].T), (_T, _T.swapaxes(1, 2))],
    np.tensordot: [(_T, _T.transpose(1, 2, 0)), (_T, _A, ((1,), (0,))), (_A, _B, 0)],
    np.linalg.tensordot: [(_A, _B)],
    np.array_split: [(_V, 2), (_A, [1, 3], 1)],
    np.split: [(_A, 2, 1), (_V, [2])],
    np.unstack: [(_A,)],
    np.delete: [(_A, 1, 1), (_A, [0, 5])],
    np.linalg.norm: [
        (_A,),
        (_A, 1),
        (_A, "nuc"),
        (_V, 3),
        (_T, None, 1),
        (_T, -np.inf, (2, 0), True),
        (_T, None, (1,)),
        *((_T, ord, (0, 2)) for ord in (1, -1, 2)),
        (np.maximum(_V, 0), 0),
    ],
    np.linalg.vector_norm: [(_T,)],
    np.linalg.matrix_norm: [(_T,)],
    np.linalg.cond: [(_T,), (_T, -2)],
    np.broadcast_arrays: [(_A, _W[:, None])],
    np.atleast_1d: [(np.float64(2),), (_A, 1.0)],
    np.atleast_2d: [(_V,), (_A, _V)],
    np.atleast_3d: [(_V,), (_A,), (2.0,), (_T,)],
    np.fliplr: [(_A,)],
    np.flipud: [(_A,)],
    np.trace: [(_A,), (_A, 1), (_T, 0, 1, 2)],
    np.linalg.trace: [(_A,), (_T,)],
    np.vstack: [([_A, _B],), ([_V, _V],)],
    np.hstack: [([_A, _B],), ([_V, _W],)],
    np.dstack: [([_A, _B],)],
    np.column_stack: [([_W, _A],)],
    np.block: [([[_A, _B], [_B, _A]],), ([_V, _W],)],
    np.append: [(_A, _B), (_A, _B, 1)],
    np.hsplit: [(_A, 2)],
    np.vsplit: [(_A, 3)],
    np.dsplit: [(_A[None], [1, 3])],
    np.meshgrid: [(_V, _W), (_V,)],
    np.inner: [(_A, _B), (_V, _V), (2.0, _A)],
    np.vdot: [(_A, _B)],
    np.outer: [(_V, _W)],
    np.linalg.outer: [(_V, _W)],
    np.linalg.matmul: [(_A, _B.T)],
    np.linalg.vecdot: [(_A, _B)],
    np.linalg.multi_dot: [([_A, _B.T, _A],)],
    np.kron: [(_A, _B), (_V, _A), (_A, _V)],
    np.cross: [(_A.T, _B.T), (_A, _B, 0, 0)],
    np.linalg.cross: [(_A.T, _B.T)],
    np.correlate: [(_V, _W), (_V, _W, "full"), (_W, _V), (_W, _V, "full"), (_V, _V, "same")],
    np.gradient: [
        (_V,),
        (_A, 2.0),
        (_A, 1.5, [0.0, 1.0, 3.0, 3.5]),
        (_V, [0.0, 0.1, 0.5, 2.0, 3.0]),
        (np.uint8([3, 9, 1]),),
    ],
    np.ediff1d: [(_A,), (_V, _W, 2.0)],
    np.insert: [
        (_A, 1, _B.T, 1),
        (_A, [0, 2], 3.0),
        (_A, slice(0, 2), _A[:2], 0),
        (_V, -1, 9.0),
        (_A, [1], _B, 1),
    ],
    np.linalg.tensorinv: [(_T,)],
    np.linalg.tensorsolve: [(_T, _A[:2, :3]), (_T.reshape(6, 2, 3), _A[:2, :3], (0,))],
    np.convolve: [(_V, 2.0), (_V, _W), (_W, _V, "same"), (_V, _W, "valid")],
    np.diag: [(_V,), (_A, 1), (_W, -1)],
    np.diagflat: [(_A,)],
    np.vander: [(_V, 3), (_V, None, True)],
    np.resize: [(_A, (5, 4)), (_A, 3)],
    np.flatnonzero: [(_A > 0,)],
    np.argwhere: [(_A > 0,)],
    np.compress: [([True, False, True], _A, 0), ([True, False, True], _A)],
    np.extract: [(_A > 0, _A)],
    np.choose: [(np.array([0, 1, 1]), [_W, _W * 2])],
    np.allclose: [(_A, _A + 1e-12), (_A, _B)],
    np.unravel_index: [(7, (4, 3)), (np.array([[3, 11]]), (2, 3, 2)), ([3, 11], (4, 3), "F"), (2, 5)],
    np.ravel_multi_index: [
        (([0, 1], [2, 0]), (2, 3)),
        ((np.array([0, -1]), 7), (2, 3), ("wrap", "clip"), "F"),
        (([1], [2], [3]), (2, 3, 4)),
    ],
    np.select: [([_A > 0, _A > -1], [_A, _B], 3.0)],
}


def test_every_formula_is_compared_here() -> None:
    assert {name_of(function) for function in FORMULAS} == {name_of(f) for f in (*_CALLS, np.putmask)}


def test_formulas_are_the_functions() -> None:
    for function, calls in _CALLS.items():
        for args in calls:
            expected = function(*args)
            got = FORMULAS[function](*args)
            if not isinstance(expected, tuple | list):
                assert not isinstance(got, tuple | list), name_of(function)
                expected, got = (expected,), (got,)
            assert type(got) is type(expected) or not isinstance(expected, tuple), name_of(function)
            assert_same(got, expected, 1e-12, 1e-12, where=name_of(function))


def test_putmask_writes() -> None:
    out = _A.copy()
    FORMULAS[np.putmask](out, out > 0, 1.0)
    np.testing.assert_array_equal(out, np.where(_A > 0, 1.0, _A))
