"""How much of a difference each cause explains; `test_mismatch` has the causes themselves."""

import numpy as np
import pytest
from helpers.models.real_models import open_model

from lite.models import LoggedResponse, OnnxDecoder, full_logits, score
from lite.models.comparison import causes
from lite.models.comparison.causes import find_causes


@pytest.fixture(scope="module")
def model() -> OnnxDecoder:
    return open_model("optimum-llama")


def rows_of(count: int, length: int) -> list[LoggedResponse]:
    rng = np.random.default_rng(0)
    return [LoggedResponse(np.array([0, 9]), rng.integers(5, 500, length)) for _ in range(count)]


def test_all_that_was_tried_comes_best_first(model: OnnxDecoder) -> None:
    rows = rows_of(6, 20)
    a = [s[2:].astype(float) for s in score(model, [row.ids for row in rows])]
    b = [np.roll(x, 1) for x in a]
    best, tried = find_causes(model, rows, a, b, 0)
    assert best == tried[0]
    assert best is not None
    np.testing.assert_allclose(best.explained, 1)
    assert [c.explained for c in tried] == sorted((c.explained for c in tried), reverse=True)
    assert sorted(c.name for c in tried) == sorted(
        ["off by one"] * 4
        + ["special tokens"] * 2
        + ["temperature", "truncated support", "temperature and truncated support"]
    )
    _, tried = find_causes(model, rows, a, b, None)
    assert "special tokens" not in {c.name for c in tried}


def test_of_a_large_vocabulary_fewer_tokens_are_tried(
    model: OnnxDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []

    def chosen(rows: object, a: object, b: object, most: int) -> None:
        counts.append(most)
        raise KeyboardInterrupt

    monkeypatch.setattr(causes, "_chosen", chosen)
    a, b = [np.zeros(3)], [np.ones(3)]
    for decoder, logits in ((None, 0), (model, 2**25), (model, 300 * model.vocab_size), (model, 0)):
        monkeypatch.setattr(causes, "LOGITS", logits)
        with pytest.raises(KeyboardInterrupt):
            find_causes(decoder, rows_of(1, 3), a, b, None)
    assert counts == [4096, 4096, 300, 256]


@pytest.mark.grid
def test_a_part_of_the_tokens_is_enough(model: OnnxDecoder, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    class Counting:
        """The model, with a note of the logits that are asked for."""

        def __getattr__(self, name: str) -> object:
            return getattr(model, name)

        def extend(self, rows: list[int], ids: list[np.ndarray]) -> object:
            seen.append(sum(map(len, ids)))
            return model.extend(rows, ids)

    monkeypatch.setattr(causes, "TOKENS", 300)
    monkeypatch.setattr(causes, "TOKENS_OF_A_ROW", 30)
    rows = rows_of(60, 40)
    logits = full_logits(model, [row.ids for row in rows])
    a = [s[2:].astype(float) for s in score(model, [row.ids for row in rows])]
    b = []
    for row, own in zip(rows, logits, strict=True):
        z = own[2:].astype(float) / 0.8
        z -= np.log(np.exp(z - z.max(1, keepdims=True)).sum(1, keepdims=True)) + z.max(1, keepdims=True)
        b.append(z[np.arange(40), row.response_ids])
    best, _ = find_causes(Counting(), rows, a, b, 0)  # type: ignore[arg-type]
    assert best is not None
    assert best.parameters == {"temperature": 0.8}
    # For positions, for a coarse and for a fine grid, and 10 rows with and without the first of two tokens,
    # of which scoring does not read the last.
    assert sum(seen) == 3 * 300 + 10 * (3 + 29) + 10 * (1 + 29)


def test_rows_too_short_to_be_shifted_are_not_blamed_on_a_shift(model: OnnxDecoder) -> None:
    rows = rows_of(12, 1)
    a = [s[2:].astype(float) for s in score(model, [row.ids for row in rows])]
    b = [x - 0.5 for x in a]
    best, tried = find_causes(model, rows, a, b, 0)
    assert all(c.explained == 0 for c in tried if "shift" in c.parameters)
    assert best is not None
    assert best.name in (
        "unexplained", "temperature", "temperature and truncated support", "truncated support",
    )  # fmt: skip


def test_prompts_that_fill_the_context_get_no_further_token(model: OnnxDecoder) -> None:
    ids = np.random.default_rng(0).integers(5, 500, 256)
    rows = [LoggedResponse(ids[:200], ids[200:])]
    a = [s[200:].astype(float) for s in score(model, [ids])]
    _, tried = find_causes(model, rows, a, [a[0] - 0.2], 0)
    (added,) = [c for c in tried if "added" in c.parameters]
    assert added.explained == 0
