"""Rows of logits in NumPy give what compiled code gives (they themselves, where nothing is compiled)."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.compared import assert_same

import lite.kernels as k
from lite.kernels.backends.jit import _quiet
from lite.kernels.cpu import log_softmax, plain_rows, token_log_probs


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], tuple[Any, Any]]:
    """What a call gives as always, and with the entries of `plain_rows`."""

    def both(call: Callable[[], Any]) -> tuple[Any, Any]:
        compiled = call()
        with monkeypatch.context() as patched:
            for module, name in (
                (log_softmax, "rows"),
                (log_softmax, "log_softmax"),
                (token_log_probs, "scores"),
            ):
                patched.setattr(module, name, _quiet(getattr(plain_rows, name)))
            return compiled, call()

    return both


def same(pair: tuple[Any, Any], tolerance: float = 1e-5) -> None:
    compiled, plain = (result if isinstance(result, tuple) else (result,) for result in pair)
    assert_same(plain, compiled, rtol=tolerance, atol=tolerance, strict=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(3, 1), (6, 5000)])
def test_all_are_the_same(both: Any, shape: tuple[int, int], dtype: Any, rng: np.random.Generator) -> None:
    logits = (4 * rng.normal(size=shape)).astype(dtype)
    logits[0, : shape[1] // 2] = -np.inf
    tokens, mask = rng.integers(0, shape[1], shape[0]), rng.random(shape) < 0.8
    rows, warm = rng.random(shape[0]) < 0.8, rng.uniform(0.5, 2, shape[0])
    for where in (None, mask, rows):
        same(both(lambda where=where: k.token_log_probs(logits, tokens, where, temperature=0.7)))
        same(both(lambda where=where: k.token_log_probs_and_entropy(logits, tokens, where)))
        same(both(lambda where=where: k.entropy(logits, where)))
        same(both(lambda where=where: k.log_softmax_stats(logits, where)))
        same(
            both(lambda where=where: k.masked_log_softmax(logits, where)),
            1e-3 if dtype is np.float16 else 1e-5,
        )
    if shape[1] > 5:
        support = [0, *range(2, shape[0] + 1), shape[0] + 1], np.arange(shape[0] + 1) % shape[1]
        same(both(lambda: k.token_log_probs(logits, tokens, rows, support=support, temperature=warm)))
    same(both(lambda: k.token_scores(logits, tokens, rows, temperature=warm)))
    same(both(lambda: k.token_log_probs(logits[:, ::2], tokens // 2)))


@pytest.mark.parametrize(
    "row",
    [
        [np.inf, 0, np.inf, -1], [-np.inf] * 4, [np.nan, 1, 2, 3], [3e38, -3e38, 0, 1],
        [np.inf, np.nan, 0, 0], [200, 1, 2, 3],
    ],
)  # fmt: skip
def test_odd_rows(both: Any, row: list[float]) -> None:
    logits = np.array([row, [0, 1, 2, 3]], np.float32)
    for token in range(4):
        ids = np.array([token, 1])
        same(both(lambda ids=ids: k.token_log_probs(logits, ids)), 1e-6)
        same(both(lambda ids=ids: k.token_scores(logits, ids, temperature=0.5)), 1e-6)
        same(both(lambda ids=ids: k.token_log_probs(logits, ids, support=([0, 2, 2], [0, 3]))), 1e-6)
    same(both(lambda: k.entropy(logits)), 1e-6)
    same(both(lambda: k.log_softmax_stats(logits)), 1e-6)
    same(both(lambda: k.masked_log_softmax(logits)), 1e-6)


def test_a_token_outside_is_told(both: Any) -> None:
    def call() -> Any:
        with pytest.raises(IndexError, match=r"tokens\[1\] is 4"):
            k.token_log_probs(np.zeros((2, 4), np.float32), [0, 4])
        return np.zeros(0)

    both(call)
