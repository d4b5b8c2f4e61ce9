"""Rules of functions that join arrays, and that take them apart."""

import numpy as np
import pytest
from helpers.cases import raises
from helpers.central_differences import Case, grad_of
from helpers.graphs import check as check_graph
from helpers.graphs import numbers
from helpers.rule_tests import of_rules
from helpers.vmap_cases import check_mapped, f, for_each

import lite

CASES: list[Case] = [
    ("concatenate", lambda x, y: np.concatenate([x, y, x], 1), (f(2, 3), f(2, 1))),
    ("concatenate all", lambda x, y: np.concatenate([x, y], None), (f(2, 3), f(2))),
    ("concat with numbers", lambda x: np.concat([x, [1.0, 2.0]]), (f(3),)),
    ("concatenate, negative axis", lambda x, y: np.concatenate((x, y), -2), (f(2, 3), f(1, 3))),
    ("stack", lambda x, y: np.stack([x, y, x], -1), (f(2, 3), f(2, 3))),
    ("stack of numbers", lambda x, y: np.stack([x, y, 1.0]), (f(), f())),
    ("stacks", lambda x, y: [np.vstack([x, y]), np.hstack([x, y]), np.dstack([x, y])], (f(3), f(3))),
    ("column_stack", lambda x, y: np.column_stack([x, y]), (f(3), f(3, 2))),
    ("block", lambda x, y: np.block([[x, y], [y, x]]), (f(2, 2), f(2, 2))),
    ("append", lambda x, y: [np.append(x, y), np.append(x, y[None], 0)], (f(2, 3), f(3))),
    ("split", lambda x: [part**2 for part in np.split(x, 3, 1)], (f(2, 6),)),
    ("split at", lambda x: np.split(x, [1, 1, 3]), (f(4, 2),)),
    ("array_split", lambda x: [part * i for i, part in enumerate(np.array_split(x, 3, -1))], (f(2, 5),)),
    ("hsplit and vsplit", lambda x: [np.hsplit(x, 2)[1] ** 2, np.vsplit(x, 2)[0]], (f(2, 2),)),
    ("dsplit", lambda x: np.dsplit(x, [1]), (f(2, 2, 3),)),
    ("unstack", lambda x: np.unstack(x, axis=1), (f(2, 3),)),
    ("delete", lambda x: [np.delete(x, 1, 0), np.delete(x, [0, 2]), np.delete(x, slice(1, 3), 1)],
        (f(3, 4),)),
    ("insert", lambda x, y: np.insert(x, 1, y, 0), (f(3, 2), f(2))),
    ("insert at the end", lambda x, y: np.insert(x, -1, y), (f(3, 2), f())),
    ("insert many", lambda x, y: np.insert(x, [0, 3, 3], y), (f(4), f(3))),
    ("insert rows", lambda x, y: np.insert(x, [1, 2], y, 1), (f(2, 3), f(2, 2))),
    ("insert rows in one place", lambda x, y: np.insert(x, 1, y, 1), (f(2, 3), f(4, 2))),
    ("insert, slice", lambda x, y: np.insert(x, slice(0, 2), y), (f(4), f(2))),
    ("insert, mask", lambda x, y: np.insert(x, np.array([True, False, True]), y), (f(3), f(2))),
]  # fmt: skip
test_derivatives, test_graphs, test_graphs_of_derivatives = of_rules(CASES)


def test_parts_have_their_own_dtype() -> None:
    x, y = np.ones(2, np.float32), np.ones(3)
    grads = lite.grad(lambda x, y: np.sum(np.concatenate([x, y])), (0, 1))(x, y)
    assert [g.dtype for g in grads] == [np.float32, np.float64]


def test_empty_parts() -> None:
    x, y = np.ones((0, 2)), np.ones((3, 2))
    grads = lite.grad(lambda x, y: np.sum(np.concatenate([x, y])), (0, 1))(x, y)
    np.testing.assert_array_equal(grads[0], x)
    np.testing.assert_array_equal(grads[1], y)


def test_unequal_parts_are_refused_as_numpy_does() -> None:
    raises(ValueError, "equal division", lambda: grad_of(lambda x: np.split(x, 2)[0], np.ones(3)))
    raises(ValueError, "larger than 0", lambda: grad_of(lambda x: np.array_split(x, 0)[0], np.ones(3)))
    raises(ValueError, "same shape", lambda: grad_of(lambda x: np.stack([x, x[1:]]), np.ones(3)))


VMAP_CASES: list[Case] = [
    ("vstack, hstack", lambda x, y: (np.vstack([x, y]), np.hstack([x, y])), (f(3), f(3))),
    ("block of one", lambda x, y: np.block([x, y, 2.0]), (f(4), f(2))),
    ("block of many", lambda x, y: np.block([[x[0], 1.0], [y]]), (f(3, 4), f(1, 5))),
    ("insert", lambda x, y: np.insert(x, 1, y, 1), (f(2, 3), f(2))[:1] + (f(),)),
]


def test_maps_equal_loops() -> None:
    for_each(check_mapped, VMAP_CASES)


def test_joins() -> None:
    x, y = numbers(5, 3), numbers(5, 3, seed=1)
    check_graph(lambda x, y: (np.concatenate([x, y]), np.concatenate([x, y], -1), np.stack([x, y], 1)), x, y)
    check_graph(
        lambda x, y: (np.hstack([x, y]), np.vstack([x, y]), np.dstack([x, y]), np.append(x, y, 0)), x, y
    )
    check_graph(lambda x, y: np.concatenate([x, y], None), x, y)
    check_graph(lambda x, y: np.concatenate([x, y.astype(np.float64)], dtype=np.float32), x, y)


def test_zeros_of_the_batch_size_are_joined() -> None:
    check_graph(lambda x: np.concatenate([np.zeros((x.shape[0], 2), np.float32), x], 1), numbers(5, 3))
    check_graph(lambda x: np.concatenate([x, x], 0).reshape(2, -1, 3), numbers(5, 3))


def test_splits() -> None:
    x = numbers(5, 6)
    check_graph(lambda x: np.split(x, 3, 1), x)
    check_graph(
        lambda x: (
            np.hsplit(x, 2), np.dsplit(x[:, None], 3), np.vsplit(x.T, 2), np.column_stack([x, x[:, 0]]),
        ),
        x,
    )  # fmt: skip
    check_graph(lambda x: np.split(x, [1, 4], 1), x)
    check_graph(lambda x: np.unstack(x, axis=1), x)
    with pytest.raises(NotImplementedError, match=r"numpy\.split .*a dynamic dimension"):
        check_graph(lambda x: np.split(x, 5), x)


def test_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="along the axis of concatenation"):
        check_graph(lambda x: np.concatenate([x, np.zeros((2, 4), np.float32)]), numbers(5, 3))
    with pytest.raises(ValueError, match="must have the same shape"):
        check_graph(lambda x: np.stack([x, x[:, :2]]), numbers(5, 3))
