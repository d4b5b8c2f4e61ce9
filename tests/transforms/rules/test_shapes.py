"""Rules of functions that change shapes, order or number of dimensions, and of padding."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.central_differences import Case, assert_gradients, grad_of
from helpers.graphs import check as check_graph
from helpers.graphs import numbers
from helpers.rule_tests import of_rules
from helpers.vmap_cases import check_mapped, f, for_each

from lite import jit

MODES = ("edge", "reflect", "symmetric", "wrap", "linear_ramp", "mean")
CASES: list[Case] = [
    ("reshape", lambda x: np.reshape(x, (4, -1)), (f(2, 3, 4),)),
    ("reshape, order", lambda x: np.reshape(x, (4, 6), order="F"), (f(2, 3, 4),)),
    ("reshape method", lambda x: x.reshape(3, 2) ** 2 + x.reshape((3, 2)), (f(6),)),
    ("ravel and flatten", lambda x: np.ravel(x) * x.flatten("F"), (f(2, 3),)),
    ("transpose", lambda x: [np.transpose(x, (1, -1, 0)), np.transpose(x)], (f(2, 3, 4),)),
    ("T and mT", lambda x: [x.T, x.mT], (f(2, 3, 4),)),
    ("permute_dims", lambda x: np.permute_dims(x, (1, 0)), (f(2, 3),)),
    ("matrix_transpose", lambda x: np.matrix_transpose(x) + np.linalg.matrix_transpose(x), (f(2, 3, 4),)),
    ("swapaxes", lambda x: np.swapaxes(x, 0, -1) * x.swapaxes(2, 0), (f(2, 3, 4),)),
    ("moveaxis", lambda x: np.moveaxis(x, (0, 2), (-1, 0)), (f(2, 3, 4),)),
    ("rollaxis", lambda x: [np.rollaxis(x, 2), np.rollaxis(x, 0, 2)], (f(2, 3, 4),)),
    (
        "rollaxis, start",
        lambda x: [np.rollaxis(x, 0, 3), np.rollaxis(x, -3, -1), np.rollaxis(x, 1, 2)],
        (f(2, 3, 4),),
    ),
    ("expand_dims", lambda x: np.expand_dims(x, (0, -1)), (f(2, 3),)),
    ("squeeze", lambda x: np.squeeze(x) * x.squeeze((0,))[0], (f(1, 3, 1),)),
    ("broadcast_to", lambda x: np.broadcast_to(x, (4, 2, 3)), (f(2, 1),)),
    ("broadcast_arrays", lambda x, y: np.broadcast_arrays(x, y), (f(2, 1), f(3))),
    ("atleast", lambda x: [np.atleast_1d(x[0, 0]), np.atleast_2d(x[0]), np.atleast_3d(x)], (f(2, 3),)),
    ("flip", lambda x: np.flip(x) + np.flip(x, 0) * np.flip(x, (0, 2)), (f(2, 3, 4),)),
    ("fliplr and flipud", lambda x: np.fliplr(x) * np.flipud(x), (f(2, 3),)),
    ("rot90", lambda x: np.rot90(x, 3) @ np.rot90(x, 2, (1, 0)), (f(2, 3),)),
    ("roll", lambda x: np.roll(x, 2) + np.roll(x, -1, 1) * np.roll(x, (1, 2), (0, 1)), (f(2, 3),)),
    (
        "fftshift",
        lambda x: [np.fft.fftshift(x), np.fft.fftshift(x, 1), np.fft.fftshift(x, (-1,))],
        (f(2, 5),),
    ),
    ("ifftshift", lambda x: [np.fft.ifftshift(x), np.fft.ifftshift(x, 1)], (f(2, 5),)),
    ("tile", lambda x: [np.tile(x, (2, 3)), np.tile(x, (2, 1, 3)), np.tile(x, 2)], (f(2, 3),)),
    ("repeat", lambda x: [np.repeat(x, 3, 1), np.repeat(x, 2), np.repeat(x, [2, 0, 1], -1)], (f(2, 3),)),
    ("diagonal", lambda x: np.diagonal(x, 1, 0, 2), (f(3, 2, 4),)),
    ("linalg.diagonal", lambda x: np.linalg.diagonal(x, offset=-1), (f(2, 3, 3),)),
    ("trace", lambda x: np.trace(x, 1) + np.linalg.trace(x.T), (f(3, 3),)),
    ("diag", lambda x: [np.diag(x, -1), np.diag(np.diag(x)), np.diagflat(x)], (f(3),)),
    ("tril and triu", lambda x: np.tril(x, 1) * np.triu(x, -1), (f(2, 3, 3),)),
    ("tril of a row", lambda x: np.tril(x) + np.triu(x, 1) ** 2, (f(3),)),
    ("resize", lambda x: [np.resize(x, (3, 4)), np.resize(x, 4)], (f(2, 3),)),
    (
        "meshgrid",
        lambda x, y: [*np.meshgrid(x, y), *np.meshgrid(x, y, indexing="ij", sparse=True)],
        (f(2), f(3)),
    ),
    (
        "sliding_window_view",
        lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 3), (0, 1)).sum((-1, -2)) ** 2,
        (f(4, 5),),
    ),
    ("windows of windows", lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 3), (1, 1)), (f(2, 6),)),
    ("windows of all", lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 3)) ** 2, (f(3, 5),)),
    ("sliding_window_view, one", lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, 1), (f(2, 5),)),
    ("pad", lambda x: np.pad(x, 1), (f(2, 3),)),
    ("pad, constants", lambda x: np.pad(x, ((1, 2), (0, 3)), constant_values=((1, 2), (3, 4))), (f(2, 3),)),
    *(
        [("pad, widths by axis", lambda x: np.pad(x, {-1: (1, 2)}), (f(2, 3),))]
        if np.lib.NumpyVersion(np.__version__) >= "2.4.0"  # before, NumPy refuses them
        else []
    ),
    ("pad by mode", lambda x: [np.pad(x, ((1, 2), (3, 0)), mode) for mode in MODES], (f(3, 4),)),
    ("pad, mean of some", lambda x: np.pad(x, 2, "mean", stat_length=((2, 1), (3, 3))), (f(3, 4),)),
    ("pad, odd", lambda x: np.pad(x, ((2, 1), (0, 2)), "reflect", reflect_type="odd"), (f(3, 4),)),
    ("pad, ramp to a number", lambda x: np.pad(x, 2, "linear_ramp", end_values=3.0), (f(3, 2),)),
    ("pad, wide", lambda x: np.pad(x, 7, "symmetric"), (f(3),)),
]
test_derivatives, test_graphs, test_graphs_of_derivatives = of_rules(CASES)


def test_padding_by_what_is_not_linear_names_the_function() -> None:
    for mode in ("maximum", "minimum", "median"):
        with pytest.raises(NotImplementedError, match=r"numpy\.pad"):
            grad_of(lambda x, mode=mode: np.pad(x, 1, mode), [1.0, 2.0])


def test_arguments_that_do_not_fit_are_refused_as_numpy_does() -> None:
    x = np.zeros((2, 3))
    raises(ValueError, "axes don't match", lambda: grad_of(lambda x: np.transpose(x, (0,)), x))
    raises(ValueError, "start", lambda: grad_of(lambda x: np.rollaxis(x, 0, 4), x))
    windows = np.lib.stride_tricks.sliding_window_view
    for size in (4, -1):
        raises(ValueError, "window", grad_of, lambda x, size=size: windows(x, size, 1), x)
        raises(ValueError, "window", jit(lambda x, size=size: windows(x, size, 1)), x)
    raises(ValueError, "two dimensions", lambda: grad_of(np.diagonal, x[0]))
    with pytest.raises(ValueError, match="window_shape"):
        grad_of(lambda x: np.lib.stride_tricks.sliding_window_view(x, (1, 2, 1)), x)


def test_ravel_of_what_lies_backwards_is_a_copy() -> None:
    def fn(x: Any) -> Any:
        x = x * 1.0
        row = np.ravel(x[0, ::-1])
        x[0] = 0.0
        return row, np.ravel(x, "K"), np.ravel(x.T, "F")

    assert_gradients(fn, np.arange(6.0).reshape(2, 3))
    with pytest.raises(NotImplementedError, match=r"numpy\.ravel: the derivative need not"):
        grad_of(lambda x: np.ravel(x.T, "K"), np.zeros((2, 3)))


def test_diagonals_and_windows_see_later_writes() -> None:
    def fn(x: Any) -> Any:
        x = x * 1.0
        views = np.diagonal(x), np.lib.stride_tricks.sliding_window_view(x, 2, 1), np.einsum("ij->ji", x)
        x[0] *= 3.0
        return views

    assert_gradients(fn, np.arange(6.0).reshape(2, 3))


def test_writes_through_views_reach_what_they_are_of() -> None:
    def fn(x: Any) -> Any:
        base = x * 1.0
        for view in (base.T, base.reshape(-1), base[1:], np.flip(base, 0), base[None], np.squeeze(base)):
            view[0] *= 3.0
        return base

    assert_gradients(fn, np.arange(6.0).reshape(2, 3))


VMAP_CASES: list[Case] = [
    ("reshape to one", lambda x: x.reshape(()), (f(1),)),
    ("moves", lambda x: (x.swapaxes(0, -1), np.moveaxis(x, [0, 1], [-1, 0]), np.rollaxis(x, 2)),
        (f(4, 3, 2),)),
    ("sizes", lambda x: x * np.size(x) + np.size(x, 0) * np.ndim(x) + np.shape(x)[1], (f(4, 3),)),
]  # fmt: skip


def test_maps_equal_loops() -> None:
    for_each(check_mapped, VMAP_CASES)


def test_reshapes_with_the_batch() -> None:
    x = numbers(5, 4, 6)
    check_graph(lambda x: x.reshape(x.shape[0], -1), x)
    check_graph(lambda x: x.reshape(-1, 6), x)
    check_graph(lambda x: x.reshape(*x.shape[:2], 2, 3), x)
    check_graph(lambda x: x.reshape(x.shape[0] * 2, 2, 6).reshape(2, -1, 12), x)
    check_graph(lambda x: (np.ravel(x), x.flatten(), x.reshape(2, 2, -1)), x)


def test_repetitions() -> None:
    x = numbers(5, 3)
    check_graph(lambda x: (np.repeat(x, 2, 0), np.repeat(x, 3, 1), np.tile(x, (2, 1, 2)), np.tile(x, 2)), x)
    check_graph(lambda x: np.broadcast_arrays(x, np.float32([1, 2, 3])), x)
    check_graph(lambda x: (np.flip(x, 1), x[::-1], np.fliplr(x), np.roll(x, 1, 1), np.flipud(x)), x)


def test_triangles_and_diagonals() -> None:
    x = numbers(5, 4, 4)
    check_graph(
        lambda x: (np.linalg.diagonal(x), np.linalg.trace(x), np.rot90(x, 3, (1, 2)), np.atleast_2d(x[0, 0])),
        x,
    )
    check_graph(
        lambda x: (np.triu(x), np.tril(x, -1), np.diagonal(x, 1, 1, 2), np.trace(x, axis1=1, axis2=2)), x
    )


def test_questions() -> None:
    check_graph(lambda x: x * np.ndim(x) + np.shape(x)[1] + np.size(x, 1), numbers(5, 3))


def test_what_does_not_fit() -> None:
    for function, message in (
        (lambda x: x.reshape(7, 2), "cannot reshape array of size"),
        (lambda x: np.squeeze(x, 1), "size not equal to one"),
        (lambda x: np.broadcast_to(x, (2, 2, 2)), "broadcast"),
    ):
        raises(ValueError, message, check_graph, function, numbers(5, 3))
    with pytest.raises(NotImplementedError, match=r"numpy\.pad .*reflect more than there is"):
        check_graph(lambda x: np.pad(x, ((0, 0), (0, 3)), "reflect"), numbers(5, 3))
    check_graph(lambda x: np.pad(x, ((0, 0), (0, 2)), "reflect"), numbers(5, 3))
    with pytest.raises(NotImplementedError, match=r"numpy\.roll .*along a dynamic dimension"):
        check_graph(lambda x: np.roll(x, 1, 0), numbers(5, 3))
