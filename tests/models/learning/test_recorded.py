"""Log-probs among the ids that tokens were drawn from."""

from typing import Any

import numpy as np
import pytest

from lite import value_and_grad
from lite.models.learning import recorded as module
from lite.models.learning.recorded import recorded

rng = np.random.default_rng(0)
HIDDEN, WEIGHT = rng.normal(size=(2, 3, 4)).astype(np.float32), rng.normal(size=(9, 4)).astype(np.float32)
BIAS = rng.normal(size=9).astype(np.float32)
TARGETS, MASK = np.array([[1, 2, 0], [8, 3, 3]]), np.array([[True, True, False], [True, True, True]])
# Of rows of 3 and 4 tokens, whose last 2 and 3 are scored; the second one's second was drawn from all
FIRST = np.array([0, 0, 2, 4]), np.array([1, 5, 7, 2])
SECOND = np.array([0, 0, 0, 1, 4]), np.array([3, 0, 3, 4])
KEPT = [(0, np.arange(2), FIRST, np.arange(1, 3)), (1, np.arange(3), SECOND, np.arange(1, 4))]
IDS = [[[1, 5], [2, 7], []], [list(range(9)), [3], [0, 3, 4]]]


def by_hand(hidden: Any, weight: Any, bias: Any) -> Any:
    logits = (hidden @ weight.swapaxes(0, 1) + bias) / np.float32(0.5)
    total = np.zeros((2, 3), np.float32)
    for at in np.argwhere(MASK).tolist():
        own = logits[tuple(at)]
        powers = np.exp(own[np.array(IDS[at[0]][at[1]])])
        total = total + np.where(
            np.arange(6).reshape(2, 3) == 3 * at[0] + at[1], own[TARGETS[tuple(at)]] - np.log(powers.sum()), 0
        )
    return total


@pytest.mark.parametrize("block", [1, 1 << 23])
def test_the_formula_and_its_gradient(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", block)
    record = recorded((2, 3), KEPT)
    assert record is not None
    found = record.log_probs(HIDDEN, WEIGHT, BIAS, TARGETS, MASK, 0.5)
    np.testing.assert_allclose(found, by_hand(HIDDEN, WEIGHT, BIAS), atol=1e-5)
    of_logits = record.log_probs_of_logits(HIDDEN @ WEIGHT.T + BIAS, TARGETS, MASK, 0.5)
    np.testing.assert_allclose(of_logits, found, atol=1e-5)
    back = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    parts = [HIDDEN, WEIGHT, BIAS]
    grads = value_and_grad(lambda x: (record.log_probs(*x, TARGETS, MASK, 0.5) * back).sum())(parts)[1]
    wanted = value_and_grad(lambda x: (by_hand(*x) * back).sum())(parts)[1]
    for a, b in zip(grads, wanted, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)


def test_without_records_there_is_none() -> None:
    assert (
        recorded((1, 2), [(0, np.arange(2), (np.zeros(4, np.int64), np.zeros(0, np.int32)), np.arange(1, 3))])
        is None
    )


def test_ids_are_in_the_vocabulary() -> None:
    record = recorded((2, 3), KEPT)
    assert record is not None
    with pytest.raises(ValueError, match=r"kept_ids must be in \[0, 5\), got 1 to 5"):
        record.shown(np.array([0]), 5)
