"""The derivative of log-probs of a linear layer; tests/kernels/test_linear_log_probs.py has their blocks."""

import itertools
from typing import Any

import numpy as np
import pytest
from helpers.cases import noting
from helpers.central_differences import CHECKS, Case
from helpers.compared import assert_same
from helpers.vmap_cases import Spec

import lite
from lite import enable_grad, grad, nn, no_grad, value_and_grad, vmap
from lite.kernels.linear_log_probs import LinearLogProbs
from lite.nn import functional as F

RNG = np.random.default_rng(0)
WEIGHT, IDS, MASK = (
    RNG.normal(size=(7, 4)),
    RNG.integers(0, 7, (2, 3)),
    np.array([[1, 1, 0], [0, 1, 1]], bool),
)
HIDDEN, DEGREES = RNG.normal(size=(2, 3, 4)), RNG.uniform(0.5, 2, (2, 3))
for array in (WEIGHT, IDS, MASK, HIDDEN, DEGREES):
    array.flags.writeable = False

CASES: list[Case] = [
    ("frozen head", lambda x: F.linear_log_probs(x, WEIGHT, IDS, mask=MASK, temperature=0.7),
        (Spec(2, 3, 4),)),
    ("all", lambda x, w, b, ids: F.linear_log_probs(x, w.T, ids % 7, b, mask=MASK, temperature=DEGREES),
        (Spec(2, 3, 4), Spec(4, 7), Spec(7), Spec(2, 3, kind="i"))),
    ("weight of one row", lambda w: F.linear_log_probs(HIDDEN[0, 0], w, np.array(6)), (Spec(7, 4),)),
]  # fmt: skip


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(("name", "fn", "specs"), CASES, ids=lambda x: x if isinstance(x, str) else "")
def test_gradients(name: str, fn: Any, specs: Any, check: Any) -> None:
    check(name, fn, specs)


class Rows:
    """A matrix that is given in blocks."""

    shape = WEIGHT.shape

    def rows(self, start: int, stop: int) -> Any:
        return WEIGHT[start:stop].astype(np.float32)


def test_a_quantized_matrix_is_a_constant() -> None:
    x, bias = HIDDEN.astype(np.float32), np.ones(7, np.float32)

    def loss(x: Any, bias: Any, weight: Any = WEIGHT) -> Any:
        return F.linear_log_probs(x, weight, IDS, bias).sum()

    for places in ((0,), (0, 1)):
        got, expected = (grad(loss, places)(x, bias, w) for w in (Rows(), WEIGHT.astype(np.float32)))
        assert_same(got, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        lite.jacrev(lambda x: F.linear_log_probs(x, Rows(), IDS))(x),
        lite.jacrev(lambda x: F.linear_log_probs(x, WEIGHT.astype(np.float32), IDS))(x),
        rtol=1e-5,
        atol=1e-6,
    )
    for transformed in (vmap, lite.jit):
        np.testing.assert_allclose(
            transformed(lambda x, ids: F.linear_log_probs(x, Rows(), ids))(x, IDS),
            F.linear_log_probs(x, WEIGHT.astype(np.float32), IDS),
            rtol=1e-5,
            atol=1e-6,
        )


def test_what_is_computed_is_what_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Directions of the input are computed only where nothing else learns, and something does."""
    asked: list[bool] = []
    whole = LinearLogProbs.log_probs

    def log_probs(call: Any, directions: bool = False) -> Any:
        asked.append(directions)
        return whole(call, directions)

    monkeypatch.setattr(LinearLogProbs, "log_probs", log_probs)
    layer = nn.Linear(4, 7, rng=0)
    x = nn.Parameter(HIDDEN.astype(np.float32))

    def loss() -> Any:
        return F.linear_log_probs(x, layer.weight, IDS, layer.bias, mask=MASK).sum()

    loss()
    with enable_grad(), no_grad():
        loss()
    with enable_grad():
        loss().backward()
    found = x.grad.copy()
    assert all(p.grad is not None for p in layer.parameters())
    layer.requires_grad_(False)
    x.grad = layer.weight.grad = None
    with enable_grad():
        loss().backward()
    assert layer.weight.grad is None
    np.testing.assert_allclose(x.grad, found, rtol=1e-5, atol=1e-6)
    assert asked == [False, False, False, True]


def test_rows_that_do_not_count_get_no_gradient() -> None:
    """Whatever they hold: also where NumPy's functions compute."""
    x, ids = HIDDEN.copy(), IDS.copy()
    x[~MASK], ids[~MASK] = np.nan, 99
    ids[0, 0] = -5

    def loss(x: Any, ids: Any, mask: Any) -> Any:
        return F.linear_log_probs(x, WEIGHT, ids, mask=mask, ignore_index=-5).sum()

    expected = grad(loss)(HIDDEN, np.where(MASK, ids, -5), MASK)
    assert expected.all(-1).tolist() == [[False, True, False], [False, True, True]]
    for found in (grad(loss)(x, ids, MASK), vmap(grad(loss))(x, ids, MASK)):
        np.testing.assert_allclose(found, expected, atol=1e-15)


def test_narrow_floats_compute_in_float32() -> None:
    x, w = HIDDEN.astype(np.float16), WEIGHT.astype(np.float16)
    out, slopes = value_and_grad(lambda x, w: F.linear_log_probs(x, w, IDS).sum(), (0, 1))(x, w)
    assert (out.dtype, slopes[0].dtype, slopes[1].dtype) == (np.float32, np.float16, np.float16)
    mapped = vmap(lambda x, ids: F.linear_log_probs(x, w, ids))(x, IDS)
    np.testing.assert_allclose(mapped.sum(), out, rtol=1e-5)
    assert mapped.dtype == np.float32


def test_as_a_graph() -> None:
    args = HIDDEN.astype(np.float32), WEIGHT.astype(np.float32), np.where(MASK, IDS, -100), MASK

    def loss(x: Any, w: Any, ids: Any, mask: Any) -> Any:
        return F.linear_log_probs(x, w, ids, mask=mask, temperature=0.7).sum()

    expected, got = (
        fn(*args) for fn in (value_and_grad(loss, (0, 1)), lite.jit(value_and_grad(loss, (0, 1))))
    )
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-5)
    assert_same(got[1], expected[1], rtol=1e-4, atol=1e-6)


def test_errors() -> None:
    for mapped, (ids, error, words) in itertools.product(
        [False, True],
        [
            (np.full((2, 3), 7), IndexError, r"7.* outside the vocabulary of 7|0 to 6, got 7 to 7"),
            (np.full((2, 3), -1), IndexError, r"-1.* outside the vocabulary of 7|0 to 6, got -1 to -1"),
            (np.ones((2, 3)), TypeError, "must be (of )?integers, got float64"),
            (np.ones((2, 2), int), ValueError, "must have the shape"),
        ],
    ):
        with noting(mapped, ids, error, words):

            def fn(x: Any, ids: Any) -> Any:
                return F.linear_log_probs(x, WEIGHT, ids)

            with pytest.raises(error, match=words):
                (vmap(fn) if mapped else fn)(HIDDEN, ids)
