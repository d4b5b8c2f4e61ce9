"""Attention of heads side by side in rows: the general formula's numbers and gradients, in one node."""

from typing import Any

import numpy as np
import pytest

from lite import value_and_grad, vmap
from lite.kernels.backends.choice import backend
from lite.nn._import.attention import apply_rotary, grouped_attention, split_heads
from lite.nn.layers.row_attention import Rotary, Seen, row_attention

N, TIMES, HEADS, GROUPS, WIDTH = 2, 90, 4, 2, 44  # no whole vectors
rng = np.random.default_rng(0)
compiled = pytest.mark.skipif(backend() == "numpy", reason="nothing is compiled")


def numbers(*shape: int) -> Any:
    return rng.normal(size=shape).astype(np.float32)


Q, K, V = numbers(N, TIMES, HEADS * WIDTH), *(numbers(N, TIMES, GROUPS * WIDTH) for _ in range(2))
G = numbers(N, TIMES, HEADS * WIDTH)
AT = np.arange(TIMES)[None] + np.zeros((N, 1), np.int64)
SEEN = Seen(np.maximum(AT - 29, 0), AT + 1)
ANGLES = rng.normal(size=(N, TIMES, 16)).astype(np.float32)
TURN = Rotary(np.cos(ANGLES), np.sin(ANGLES))


def plainly(q: Any, k: Any, v: Any) -> Any:
    q, k, v = split_heads(q, HEADS), split_heads(k, GROUPS), split_heads(v, GROUPS)
    q, k = (apply_rotary(x, TURN.cos[:, None], TURN.sin[:, None], False) for x in (q, k))
    keys = np.arange(TIMES)
    shown = (keys >= SEEN.first[..., None]) & (keys < SEEN.last[..., None])
    out = grouped_attention(q, k, v, 0.2, np.where(shown, 0, -1e30).astype(np.float32)[:, None])
    return np.transpose(out, (0, 2, 1, 3)).reshape(N, TIMES, HEADS * WIDTH)


@pytest.mark.compiled
@compiled
@pytest.mark.parametrize("together", [False, True])
def test_numbers_and_gradients(together: bool) -> None:
    def parts_of(q: Any, k: Any, v: Any) -> Any:
        return [np.concatenate([q, k, v], -1)] if together else [q, k, v]

    def loss(parts: Any) -> Any:
        return (row_attention(parts, SEEN, 0.2, HEADS, GROUPS, TURN) * G).sum()

    def wanted(parts: Any) -> Any:
        ends = [HEADS * WIDTH, (HEADS + GROUPS) * WIDTH]
        q, k, v = np.split(parts[0], ends, -1) if together else parts
        return (plainly(q, k, v) * G).sum()

    parts = parts_of(Q, K, V)
    kept = [x.copy() for x in parts]
    np.testing.assert_allclose(
        row_attention(parts, SEEN, 0.2, HEADS, GROUPS, TURN), plainly(Q, K, V), atol=1e-5
    )
    value, grads = value_and_grad(loss)(parts)
    expected, others = value_and_grad(wanted)(parts)
    np.testing.assert_allclose(value, expected, rtol=1e-4)
    for a, b, x, y in zip(grads, others, parts, kept, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
        np.testing.assert_array_equal(x, y)


def test_what_it_leaves_to_the_general_formula() -> None:
    at = np.zeros((N, 400), np.int64)
    assert row_attention([numbers(N, 1, 6 * 16)], Seen(at[:, :1], at[:, :1]), 1.0, 2, 2) is None  # small
    assert row_attention([Q.astype(float), K, V], SEEN, 1.0, HEADS, GROUPS) is None
    found = []
    vmap(lambda q: found.append(row_attention([q, K, V], SEEN, 1.0, HEADS, GROUPS)) or q)(Q[None])
    assert found == [None]
