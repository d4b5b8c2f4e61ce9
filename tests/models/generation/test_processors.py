"""What options do to scores: formulas, order, and what the functions of a user get."""

from typing import Any

import numpy as np
import pytest
from helpers.models.table_model import TableModel

from lite.models import GenerationConfig, generate
from lite.models.generation.processors import Processors, packed, unpacked

V = 10
IDS = np.array([1, 2, 3, 1, 2, 1, 1])
PROMPT = 3
INF = np.inf


def of(**options: Any) -> Processors:
    return Processors(GenerationConfig.from_kwargs(options), PROMPT, V)


def scores(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=V).astype(np.float32)


def added(**options: Any) -> np.ndarray:
    """What is added to all scores, by both ways, which are the same."""
    ids, values = of(**options).changes(IDS)
    finite = values > -INF
    assert len(set(ids[finite].tolist())) == np.count_nonzero(finite)
    out, row = np.zeros(V, np.float32), scores()
    out[ids[finite]] = values[finite]
    kept = of(**options).apply(row, IDS.copy())
    np.testing.assert_allclose(row, scores() + out, atol=1e-6)
    out[ids[~finite]] = -INF
    np.testing.assert_array_equal(kept, out > -INF)
    return out


def at(**values: float) -> np.ndarray:
    out = np.zeros(V, np.float32)
    for name, value in values.items():
        out[int(name[1:])] = value
    return out


ADDED: list[tuple[dict[str, Any], np.ndarray]] = [
    ({"presence_penalty": 0.5}, at(_1=-0.5, _2=-0.5)),  # of the response's tokens alone: 1, 2, 1, 1
    ({"frequency_penalty": 0.25}, at(_1=-0.75, _2=-0.25)),
    ({"frequency_penalty": -0.25, "presence_penalty": 1}, at(_1=-0.25, _2=-0.75)),
    ({"logit_bias": {4: 1.5, 5: -INF}}, at(_4=1.5, _5=-INF)),
    ({"sequence_bias": {(4,): 1, (1, 1, 6): 2, (2, 7): 9}, "logit_bias": {4: 0.5}}, at(_4=1.5, _6=2)),
    ({"bad_words_ids": [[3], [1, 1, 8], [2, 1, 9], [0]], "eos_token_id": 0}, at(_3=-INF, _8=-INF)),
    ({"bad_words_ids": [[1] * 9]}, at()),  # longer than what there is
    ({"no_repeat_ngram_size": 2}, at(_1=-INF, _2=-INF)),
    ({"no_repeat_ngram_size": 3}, at()),
    ({"no_repeat_ngram_size": 1}, at(_1=-INF, _2=-INF, _3=-INF)),
    ({"no_repeat_ngram_size": 8}, at()),
    ({"min_new_tokens": 5, "eos_token_id": [7, 9, 7]}, at(_7=-INF, _9=-INF)),
    ({"min_new_tokens": 4, "eos_token_id": [7, 9]}, at()),
    ({"min_new_tokens": 5, "eos_token_id": [7, 99]}, at(_7=-INF)),  # the model has no 99
]


def test_each_option_alone_needs_them() -> None:
    options: dict[str, Any] = {
        "logit_bias": {3: 1.0}, "sequence_bias": {(3, 4): 1.0}, "bad_words_ids": [[3]],
        "suppress_tokens": [3], "no_repeat_ngram_size": 2, "presence_penalty": 0.5, "frequency_penalty": 0.5,
    }  # fmt: skip
    for name, value in options.items():
        assert Processors.needed(GenerationConfig.from_kwargs({name: value})), name
    for ends in ([], [3]):
        config = GenerationConfig.from_kwargs({"min_new_tokens": 1, "eos_token_id": ends})
        assert Processors.needed(config) == bool(ends)


def test_what_is_added() -> None:
    for options, expected in ADDED:
        np.testing.assert_array_equal(added(**options), expected, err_msg=str(options))


def test_order() -> None:
    """Biases, then the repetition penalty, then what is subtracted, then the user's function."""
    seen = []

    def keep(ids: Any, row: Any) -> None:
        seen.append(row.copy())
        row += 1

    own = of(logit_bias={1: 3.0, 5: 1.0}, repetition_penalty=2.0, presence_penalty=0.5, logits_processor=keep)
    start = np.full(V, -1.0, np.float32)
    assert own.apply(start, IDS).all()
    expected = np.full(V, -1.0, np.float32)
    expected[[1, 2, 3, 5]] = (-1 + 3) / 2 - 0.5, -2 - 0.5, -2.0, 0.0
    np.testing.assert_array_equal(seen[0], expected)
    np.testing.assert_array_equal(start, expected + 1)


def test_what_is_ruled_out_keeps_its_score() -> None:
    """Biases count, whatever bans the id; a function may take a ban back."""

    def bans(ids: Any, row: Any) -> Any:
        assert row[4] == row[5] == -INF
        return np.where(np.arange(V) == 6, -INF, np.where(np.arange(V) == 5, 9, row)).astype(np.float32)

    row = scores()
    kept = of(logit_bias={4: 2, 6: 1}, bad_words_ids=[[4], [5]], logits_processor=bans).apply(row, IDS)
    assert np.flatnonzero(~kept).tolist() == [4, 6]
    expected = scores() + at(_4=2, _6=1)
    expected[5] = 9
    np.testing.assert_array_equal(row, expected)


def test_bits() -> None:
    for size in (1, 31, 32, 33, 100):
        flags = np.random.default_rng(size).random(size) < 0.5
        words = packed(flags)
        assert [bool(words[i >> 5] >> (i & 31) & 1) for i in range(size)] == flags.tolist(), size
        np.testing.assert_array_equal(unpacked(words, size), flags, err_msg=str(size))


# -- functions of the user -----------------------------------------------------------------------


def test_what_functions_get_and_give() -> None:
    model, seen = TableModel.random(0), []

    def first(ids: Any, row: Any) -> Any:
        seen.append((ids.copy(), row.copy()))
        assert not ids.flags.writeable
        row[:] = 0.0
        row[4] = 9.0

    def second(ids: Any, row: Any) -> Any:
        assert row[4] == 9.0
        other = np.zeros(12)
        other[5] = 1.0
        return other

    config = GenerationConfig.from_kwargs({"logits_processor": [first, second], "max_new_tokens": 2})
    (response,) = generate(model, [[1, 2, 3]], config)
    assert response.tokens.tolist() == [5, 5]
    for (ids, row), expected in zip(seen, ([1, 2, 3], [1, 2, 3, 5]), strict=True):
        assert (ids.tolist(), ids.dtype, row.dtype, row.shape) == (expected, np.int64, np.float32, (12,))
        np.testing.assert_array_equal(row, model.logits(expected))
    for log_prob, ids in zip(response.log_probs, ([1, 2, 3], [1, 2, 3, 5]), strict=True):
        logits = model.logits(ids).astype(np.float64)
        np.testing.assert_allclose(log_prob, logits[5] - np.log(np.exp(logits).sum()), atol=1e-6)


def test_functions_that_give_no_scores() -> None:
    cases: list[tuple[Any, str]] = [
        (np.zeros(3, np.float32), r"logits_processor bad must give scores of the shape \(12,\), float32"),
        (np.zeros(12, np.int64), "got int64"),
        (np.full(12, np.nan), "must leave a finite score, and none infinite or NaN"),
        (np.full(12, -np.inf), "must leave a finite score"),
    ]
    for num_beams in (1, 2):
        for given, message in cases:

            def bad(ids: Any, row: Any, given: Any = given) -> Any:
                return given

            model = TableModel.random(0)
            config = GenerationConfig.from_kwargs({"logits_processor": bad, "num_beams": num_beams})
            with pytest.raises(ValueError, match=message):
                generate(model, [[1, 2, 3]], config)
            assert not model.rows, given


def test_errors_of_functions_name_them() -> None:
    def bad(ids: Any, row: Any) -> Any:
        raise KeyError("inside")

    with pytest.raises(KeyError) as error:
        generate(TableModel.random(0), [[1, 2]], GenerationConfig.from_kwargs({"logits_processor": bad}))
    assert error.value.__notes__ == ["raised by the logits_processor bad after 2 tokens"]


def test_copies_read_a_grammar_apart() -> None:
    class Matcher:
        def fork(self) -> "Matcher":
            return Matcher()

    one = of()
    one.matcher = Matcher()  # type: ignore[assignment]
    other = one.fork()
    assert (type(other.matcher), other.config) == (Matcher, one.config)
    assert other.matcher is not one.matcher
