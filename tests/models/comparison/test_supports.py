"""Log-probs under temperatures and supports, against plain formulas."""

import numpy as np
from numpy.typing import NDArray

from lite.models.comparison.supports import WHOLE, Support, SupportFit, finer, mildness, supports

VOCABULARY = 97


def log_prob(logits: NDArray[np.float32], token: int, temperature: float, support: Support) -> float:
    z = logits.astype(np.float64) / temperature
    p = np.exp(z - z.max())
    p /= p.sum()
    order = np.argsort(-p)
    if support.kind == "top_k":
        kept = order[: int(support.value)]
    elif support.kind == "top_p":
        kept = order[: int((np.cumsum(p[order]) < support.value).sum()) + 1]
    elif support.kind == "min_p":
        kept = order[p[order] >= support.value * p.max()]
    else:
        kept = order
    kept = np.union1d(kept, order[: int(np.flatnonzero(order == token)[0]) + 1])  # what was drawn was kept
    return float(np.log(p[token] / p[kept].sum()))


def test_the_fit_sums_differences_from_the_formulas() -> None:
    for temperature in (0.5, 1.0, 2.0):
        rng = np.random.default_rng(0)
        logits = (3 * rng.standard_normal((40, VOCABULARY))).astype(np.float32)
        ids = np.where(rng.random(40) < 0.5, logits.argmax(1), rng.integers(0, VOCABULARY, 40))
        given = -rng.exponential(1, 40)
        given[3] = -9999.0
        some = (
            WHOLE, Support("top_k", 4), Support("top_p", 0.8), Support("min_p", 0.1), Support("top_k", 96),
        )  # fmt: skip
        fit = SupportFit({temperature: some}, 10.0)
        for array in (logits, ids, given):
            array.flags.writeable = False
        fit.add(logits[:1], ids[:1], given[:1])
        fit.add(logits[1:], ids[1:], given[1:])
        assert list(fit.left) == [(temperature, support) for support in some], temperature
        for support in some:
            own = np.array([log_prob(*pair, temperature, support) for pair in zip(logits, ids, strict=True)])
            expected = np.minimum(np.abs(given - own), 10).sum()
            np.testing.assert_allclose(fit.left[temperature, support], expected, rtol=1e-4)


def test_finer_supports_lie_between_the_neighbours() -> None:
    assert finer(WHOLE) == (WHOLE,)
    every = supports(10**6)
    for support in every:
        near = finer(support)
        assert support in near
        assert {s.kind for s in near} == {support.kind}
        same = [s.value for s in every if s.kind == support.kind]
        at = same.index(support.value)
        low, high = same[max(at - 1, 0)], same[min(at + 1, len(same) - 1)]
        assert all(low <= s.value <= high for s in near)
        assert 2 <= len(near) <= 140
    assert max(s.value for s in supports(64) if s.kind == "top_k") < 64


def test_the_mildest_support_comes_last() -> None:
    some = [Support("min_p", 0.1), Support("min_p", 0.01), Support("top_k", 3), Support("top_k", 9)]
    some += [Support("top_p", 0.5), Support("top_p", 0.9), WHOLE]
    assert sorted({*some}, key=mildness) == some
