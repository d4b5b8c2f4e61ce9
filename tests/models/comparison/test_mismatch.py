"""Mistakes put into log-probs on purpose are named rightly, and nothing is blamed where there is none."""

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.models.real_models import MODELS, open_model
from helpers.tiers import standing_for_all
from numpy.typing import NDArray

from lite.models import (
    GenerationConfig,
    LoggedResponse,
    Mismatch,
    OnnxDecoder,
    embedded_model_path,
    full_logits,
    generate,
    mismatch,
    score,
)

BOS = 0
Values = Callable[[NDArray[np.float64], NDArray[np.int64]], NDArray[np.float64]]


@pytest.fixture(scope="module")
def model() -> OnnxDecoder:
    return open_model("optimum-llama")


def drawn(decoder: OnnxDecoder, seed: int, **options: Any) -> list[LoggedResponse]:
    """Responses that a model drew, of lengths 5 to 40."""
    rng = np.random.default_rng(seed)
    lengths = (5, 12, 20, 33, 40, 40, 40, 40)
    prompts = [np.array([BOS, *rng.integers(5, 500, rng.integers(1, 9))]) for _ in lengths]
    kwargs = {"temperature": 1.0, "eos_token_id": [], **options}
    configs = [GenerationConfig.from_kwargs({"max_new_tokens": length, **kwargs}) for length in lengths]
    responses = generate(decoder, prompts, configs, seeds=rng.integers(0, 2**60, 8).astype(np.uint64))
    return [LoggedResponse(prompt, one.tokens) for prompt, one in zip(prompts, responses, strict=True)]


def written(decoder: OnnxDecoder, rows: list[LoggedResponse], values: Values) -> list[LoggedResponse]:
    """The rows with log-probs that `values` makes of their logits (L, V) and tokens (L,)."""
    out = []
    for row, logits in zip(rows, full_logits(decoder, [row.ids for row in rows]), strict=True):
        own = values(logits[len(row.prompt_ids) :].astype(np.float64), row.response_ids)
        out.append(LoggedResponse(row.prompt_ids, row.response_ids, own))
    return out


def log_softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def plain(temperature: float = 1.0) -> Values:
    return lambda logits, ids: log_softmax(logits / temperature)[np.arange(len(ids)), ids]


def truncated(kind: str, value: float, temperature: float = 1.0) -> Values:
    """As samplers give them when asked for processed log-probs; written without lite's own formulas."""

    def values(logits: NDArray[np.float64], ids: NDArray[np.int64]) -> NDArray[np.float64]:
        out = []
        for row, token in zip(np.exp(log_softmax(logits / temperature)), ids, strict=True):
            order = np.argsort(-row)
            if kind == "top_k":
                kept = order[: int(value)]
            elif kind == "top_p":
                kept = order[: int((np.cumsum(row[order]) < value).sum()) + 1]
            else:
                kept = np.flatnonzero(row >= value * row.max())
            out.append(np.log(row[token] / row[kept].sum()))
        return np.array(out)

    return values


def noisy(deviation: float, seed: int = 0) -> Values:
    rng = np.random.default_rng(seed)
    return lambda logits, ids: plain()(logits + deviation * rng.standard_normal(logits.shape), ids)


def check(found: Mismatch, name: str, **parameters: float) -> None:
    assert found.cause is not None
    assert found.cause.name == name
    assert set(found.cause.parameters) == set(parameters)
    for key, value in parameters.items():
        np.testing.assert_allclose(found.cause.parameters[key], value, rtol=0.03)


@pytest.mark.depth
def test_two_that_agree_are_not_blamed(model: OnnxDecoder) -> None:
    found = mismatch(model, written(model, drawn(model, 1), noisy(1e-4)))
    assert found.cause is None
    assert all(cause.explained < 0.2 for cause in found.tried)
    assert (found.first_divergence == -1).all()
    assert found.estimates.outside == 0
    assert found.estimates.mean_abs < 1e-3


@pytest.mark.depth
@pytest.mark.parametrize(("temperature", "noise"), standing_for_all([(0.6, 0.02), (3.0, 0.02)]))
def test_a_temperature(temperature: float, noise: float, model: OnnxDecoder) -> None:
    rng = np.random.default_rng(0)
    rows = drawn(model, 3, temperature=temperature)
    log = written(
        model, rows, lambda z, ids: plain(temperature)(z + noise * rng.standard_normal(z.shape), ids)
    )
    check(mismatch(model, log), "temperature", temperature=temperature)


@pytest.mark.depth
@pytest.mark.parametrize(
    ("kind", "value"), standing_for_all([("top_p", 0.8), ("top_k", 20), ("min_p", 0.07)])
)
def test_a_truncated_support(kind: str, value: float, model: OnnxDecoder) -> None:
    rows = drawn(model, 4, **{kind: int(value) if kind == "top_k" else value})
    found = mismatch(model, written(model, rows, truncated(kind, value)))
    check(found, "truncated support", **{kind: value})
    assert found.estimates.ratio_mean < 1  # A / B is the mass that was kept
    assert found.estimates.k1 > 0


@pytest.mark.grid
def test_temperature_and_support_together(model: OnnxDecoder) -> None:
    rows = drawn(model, 5, temperature=0.7, top_p=0.9)
    found = mismatch(model, written(model, rows, truncated("top_p", 0.9, temperature=0.7)))
    check(found, "temperature and truncated support", temperature=0.7, top_p=0.9)


@pytest.mark.depth
@pytest.mark.parametrize("shift", standing_for_all([1, -1]))
def test_logits_off_by_one(shift: int, model: OnnxDecoder) -> None:
    rows = drawn(model, 7)
    log = []
    for row in rows:
        (logits,) = full_logits(model, [np.append(row.ids, 9)])
        at = len(row.prompt_ids) + shift
        own = plain()(logits[at : at + len(row.response_ids)].astype(np.float64), row.response_ids)
        log.append(LoggedResponse(row.prompt_ids, row.response_ids, own))
    check(mismatch(model, log), "off by one", logits=shift)


@pytest.mark.grid
def test_a_beginning_token_too_many_or_missing(model: OnnxDecoder) -> None:
    rows = drawn(model, 8)

    def rescored(row: LoggedResponse, prompt: NDArray[np.int64]) -> LoggedResponse:
        (own,) = score(model, [np.concatenate([prompt, row.response_ids])])
        return LoggedResponse(row.prompt_ids, row.response_ids, own[len(prompt) :].astype(np.float64))

    without = [rescored(row, row.prompt_ids[1:]) for row in rows]
    check(mismatch(model, without), "special tokens", removed=BOS)
    twice = [rescored(row, np.append(BOS, row.prompt_ids)) for row in rows]
    check(mismatch(model, twice), "special tokens", added=BOS)
    other = [rescored(row, np.append(7, row.prompt_ids)) for row in rows]
    assert mismatch(model, other).cause.name != "special tokens"  # type: ignore[union-attr]
    check(mismatch(model, other, bos_token_id=7), "special tokens", added=7)


@pytest.mark.parametrize("deviation", standing_for_all([0.05, 0.2]))
def test_noise_is_quantisation(deviation: float, model: OnnxDecoder) -> None:
    found = mismatch(model, written(model, drawn(model, 9), noisy(deviation)))
    check(found, "quantisation", deviation=found.estimates.deviation)
    assert 0.5 * deviation < found.estimates.deviation < 1.5 * deviation
    assert abs(found.estimates.ratio_mean - 1) < 4 * deviation / 230**0.5 + deviation**2  # 230 tokens


@pytest.mark.grid
def test_another_model_and_a_single_odd_row_stay_unexplained(model: OnnxDecoder) -> None:
    found = mismatch(model, open_model("optimum-gpt2"), drawn(model, 10))
    assert found.cause is not None
    assert found.cause.name == "unexplained"
    log = written(model, drawn(model, 11), plain())
    log[5] = LoggedResponse(log[5].prompt_ids, log[5].response_ids, log[5].log_probs[::-1])  # type: ignore[index]
    found = mismatch(model, log)
    assert found.cause is not None
    assert found.cause.name == "unexplained"
    assert np.flatnonzero(found.first_divergence >= 0).tolist() == [5]


@pytest.mark.depth
def test_no_cause_is_named_for_unrelated_models() -> None:
    """Where A is sure of itself, a high temperature comes nearest to any other model."""
    a, b = OnnxDecoder(embedded_model_path()), open_model("optimum-gpt2")
    for seed, options in ((21, {"temperature": 0.5}), (22, {"top_p": 0.7})):
        found = mismatch(a, b, drawn(b, seed, **options))
        assert found.tried[0].explained > 0.2
        assert found.cause is not None
        assert (found.cause.name, found.cause.parameters) == ("unexplained", {})


def test_two_files_are_compared_by_their_tokens(model: OnnxDecoder) -> None:
    rows = drawn(model, 15)
    rows = [*rows, rows[0]]  # one was drawn twice
    a = written(model, rows, plain())
    found = mismatch(a[:8][::-1] + a[8:], a)
    assert (found.cause, found.tokens, found.estimates.max_abs) == (None, 230 + 5, 0)
    noisy_a = written(model, rows, noisy(0.05))
    found = mismatch(noisy_a[::-1], a)
    check(found, "quantisation", deviation=found.estimates.deviation)
    assert 0.02 < found.estimates.deviation < 0.08
    np.testing.assert_array_equal(found.log_probs_a[1], noisy_a[1].log_probs)
    late = [LoggedResponse(r.prompt_ids, r.response_ids, np.roll(r.log_probs, 1)) for r in a]  # type: ignore[arg-type]
    check(mismatch(a, late), "off by one", shift=-1)
    cold = mismatch(a, written(model, rows, plain(0.5)))
    assert cold.cause is not None
    assert cold.cause.name == "unexplained"
    assert "with the model itself as A" in cold.cause.detail
    assert {cause.name for cause in cold.tried} == {"off by one"}


def test_rows_of_two_files_that_have_no_partner(model: OnnxDecoder) -> None:
    log = written(model, drawn(model, 16), plain())
    raises(ValueError, r"row 7 of b: no row of a has the same tokens$", lambda: mismatch(log[:7], log))
    raises(ValueError, r"row 3 of a: no row of b has the same tokens$", mismatch, log, log[:3] + log[4:])
    begun = [LoggedResponse(np.append(7, row.prompt_ids), row.response_ids, row.log_probs) for row in log]
    for one, other in ((begun, log), (log, begun)):
        with pytest.raises(ValueError, match=r"row 0 of b: .* but one whose prompt has a token more or less"):
            mismatch(one, other)
    bare = [LoggedResponse(row.prompt_ids, row.response_ids) for row in log]
    raises(ValueError, "row 0 must have a log-prob for each token", lambda: mismatch(bare, log))


def test_numbers_rows_and_json(model: OnnxDecoder) -> None:
    log = written(model, drawn(model, 12), plain())
    shift = np.array([0.0, 0.0, -0.2, 0.05, 0.3])
    log[0] = LoggedResponse(log[0].prompt_ids, log[0].response_ids, log[0].log_probs - shift)  # type: ignore[operator]
    found = mismatch(model, log[:1])
    np.testing.assert_allclose(found.log_probs_a[0] - found.log_probs_b[0], shift, atol=1e-5)
    np.testing.assert_array_equal(found.first_divergence, [2])
    np.testing.assert_array_equal(mismatch(model, log[:1], divergence=0.25).first_divergence, [4])
    assert re.fullmatch(r"Mismatch\(1 rows, 5 tokens, mean \|difference\| 0\.11, cause: .+\)", repr(found))
    out = json.loads(json.dumps(found.to_dict()))
    assert (out["rows"], out["tokens"], out["rows_that_diverge"]) == (1, 5, 1)
    np.testing.assert_allclose(out["mean"], shift.mean(), atol=1e-5)
    assert len(out["histogram"]) == len(out["histogram_edges"]) + 1
    assert sum(out["histogram"]) == 5


def test_what_is_refused(model: OnnxDecoder) -> None:
    (row, *_) = log = written(model, drawn(model, 13), plain())
    none = [LoggedResponse(row.prompt_ids, row.response_ids)]
    for arguments, message in (
        ((log, log), "rows must be given if b is a model, and only then"),
        ((model,), "rows must be given if b is a model"),
        (([],), "at least one response"),
        ((none,), "row 0 must have a log-prob for each token"),
        ((log[1:] + [LoggedResponse(row.prompt_ids, row.response_ids, np.zeros(1))],), "row 7 must have"),
        (([LoggedResponse(np.array([600]), np.array([1]), np.zeros(1), "line 3")],), "line 3: ids must be"),
        (([LoggedResponse(np.array([1]), np.full(999, 1), np.zeros(999))],), "row 0: .* context of 256"),
        (([LoggedResponse(np.array([], int), np.array([1]), np.zeros(1))],), "row 0: prompt and response"),
    ):
        with pytest.raises(ValueError, match=message):
            mismatch(model, *arguments)  # type: ignore[arg-type]
    raises(ValueError, "divergence must be above 0", lambda: mismatch(model, log, divergence=0))
    with pytest.raises(TypeError, match="entry 0 is dict"):
        mismatch(model, [{}])  # type: ignore[list-item]
    for arguments, message in (  # type: ignore[assignment]
        ((str(MODELS / "optimum-llama"), log), r"a must be a model, as OnnxDecoder\(path\), got the path"),
        ((model, 5), "b must have the interface .* int has no "),
        ((log, model, log), "a must be a model if b is one"),
    ):
        with pytest.raises(TypeError, match=message):
            mismatch(*arguments)  # type: ignore[arg-type]
    assert not model.lengths.any()  # what was held is given back
