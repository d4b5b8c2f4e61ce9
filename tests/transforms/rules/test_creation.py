"""Rules of functions that make an array like another, copy one, or save it."""

import copy
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.central_differences import Case, grad_of
from helpers.graphs import check as check_graph
from helpers.graphs import numbers
from helpers.rule_tests import of_rules
from helpers.vmap_cases import check_mapped, f, for_each, rows, written

from lite import vmap


def _written(out: Any, x: Any) -> Any:
    out[..., 1:] = x[..., 1:] ** 2
    out[..., 0] = 1.0
    return out


CASES: list[Case] = [
    ("copy", lambda x: np.copy(x) * x.copy(), (f(2, 3),)),
    ("copy module", lambda x: copy.copy(x) * copy.deepcopy(x), (f(2, 3),)),
    *(
        (f"{name}, written", lambda x, name=name: _written(getattr(np, name)(x), x), (f(2, 3),))
        for name in ("zeros_like", "ones_like", "empty_like")
    ),
    ("zeros_like, shape", lambda x: _written(np.zeros_like(x, shape=(4, 2, 3)), x), (f(2, 3),)),
    ("full_like", lambda x, y: np.full_like(x, y) * x, (f(2, 3), f())),
    ("full_like, number", lambda x: np.full_like(x, 3.0) * x, (f(2, 3),)),
    ("linspace", lambda x, y: np.linspace(x, y, 5), (f(), f())),
    ("linspace, axis", lambda x, y: np.linspace(x, y, 4, False, axis=-1), (f(2), f(2))),
    ("linspace, one", lambda x: np.linspace(x, 3.0, 1), (f(2),)),
    ("linspace and step", lambda x, y: np.linspace(x, y, 4, retstep=True), (f(2), f())),
    ("logspace", lambda x, y: np.logspace(x, y, 4, base=2.0), (f(2), f(2))),
    ("geomspace", lambda x, y: np.geomspace(x * x + 0.5, y * y + 1, 4), (f(2), f(2))),
]
test_derivatives, test_graphs, test_graphs_of_derivatives = of_rules(CASES)


def test_new_arrays_like_a_traced_one_have_no_derivative() -> None:
    np.testing.assert_array_equal(
        grad_of(lambda x: np.zeros_like(x) + np.ones_like(x) + x, [1.0, 2.0]), [1, 1]
    )


def test_saving_is_refused(tmp_path: Any) -> None:
    for save in (np.save, np.savetxt, np.savez):
        raises(TypeError, "detach", grad_of, lambda x, save=save: save(tmp_path / "x", x), [1.0])
    assert list(tmp_path.iterdir()) == []


VMAP_CASES: list[Case] = [
    ("zeros_like", lambda x: (np.zeros_like(x), np.ones_like(x, shape=(2, 1))), (f(3),)),
    ("linspace with steps", lambda x: np.linspace(0, x, 4, endpoint=False, retstep=True), (f(3),)),
    ("indices of triangles", lambda x: x[np.triu_indices_from(x)], (f(3, 3),)),
    ("indices of the diagonal", lambda x: x[np.diag_indices_from(x)], (f(3, 3),)),
    ("sliding windows", lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, 0), (f(4, 3),)),
    ("fill_diagonal", written(lambda x, y: np.fill_diagonal(x, y)), (f(3, 4), f())),
]


def test_maps_equal_loops() -> None:
    for_each(check_mapped, VMAP_CASES)


def test_mapped_arrays_are_shown_and_not_saved(tmp_path: Any) -> None:
    seen: list[str] = []

    def fn(v: Any) -> Any:
        seen.extend([np.array_repr(v), f"{v}"])
        np.save(tmp_path / "x.npy", v)
        return v

    raises(TypeError, "save the result", vmap(fn), rows())
    assert all(text.startswith("BatchedArray(shape=(2,)") for text in seen)
    assert not list(tmp_path.iterdir())


def test_like_others() -> None:
    x = numbers(5, 3)
    check_graph(
        lambda x: (np.zeros_like(x) + x, np.ones_like(x), np.full_like(x, 2), np.ones_like(x, np.int64)), x
    )
    check_graph(lambda x: np.zeros_like(x, shape=(x.shape[0], 7)), x)
    check_graph(lambda x: np.full_like(x, x[0, 0]), x)
    check_graph(lambda x: np.linspace(x, 9, 4, dtype=np.int64), x)


def test_an_empty_one_is_filled() -> None:
    def function(x: np.ndarray) -> np.ndarray:
        out = np.empty_like(x)
        out[...] = x
        out[:, 1] = 7
        return out

    check_graph(function, numbers(5, 3))


def test_arrays_of_a_dynamic_size() -> None:
    check_graph(lambda x: x + np.full((x.shape[0], 1), 2, np.float32), numbers(5, 3))
    with pytest.raises(NotImplementedError, match="made for the size of a dynamic dimension"):
        check_graph(lambda x: x + np.arange(x.shape[0], dtype=np.float32)[:, None], numbers(5, 3))
