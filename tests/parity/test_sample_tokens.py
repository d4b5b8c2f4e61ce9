"""Tokens that sample_tokens can draw, and log-probs, against transformers', torch's and TorchRL's."""

import ml_dtypes
import numpy as np
import pytest
import torch
from helpers.cases import each_case
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.generation import logits_process as hf

from lite.kernels import sample_tokens, token_log_probs

DRAWS = 300


@st.composite
def problems(draw):
    size = draw(st.integers(1, 12) | st.integers(40, 200))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    logits = (rng.normal(size=size) * draw(st.sampled_from([0.3, 2.0]))).astype(np.float32)
    if draw(st.booleans()):  # ties
        logits = np.round(logits)
    return {
        "logits": logits,
        "previous": rng.integers(0, size, draw(st.integers(0, 4))),
        "repetition_penalty": draw(st.sampled_from([1.0, 1.3, 0.5])),
        "temperature": draw(st.sampled_from([1.0, 0.7, 2.0])),
        "top_k": draw(st.sampled_from([0, 1, 2, 5, 1000])),
        "top_p": draw(st.sampled_from([1.0, 0.93, 0.61, 0.37, 0.0])),
        "min_p": draw(st.sampled_from([0.0, 0.07, 0.41, 1.0])),
        "typical_p": draw(st.sampled_from([1.0, 1.0, 0.93, 0.52, 0.17])),
    }


def reference(problem, *, filters=True, slack=0.0):
    """The scores after the processors in the order of `generate`; `slack` is added to the shares kept.

    Only to that of typical-p if there is one, as it may keep other tokens if it is given more of them.
    """
    typical_p = problem.get("typical_p", 1.0)
    other_slack, slack = (0.0, slack) if typical_p < 1.0 else (slack, 0.0)
    ids = torch.from_numpy(problem["previous"].astype(np.int64))[None]
    scores = torch.from_numpy(problem["logits"].copy())[None]
    scores = hf.RepetitionPenaltyLogitsProcessor(problem["repetition_penalty"])(ids, scores)
    if problem["temperature"] != 1.0:
        scores = hf.TemperatureLogitsWarper(problem["temperature"])(ids, scores)
    if not filters:
        return scores[0].numpy()
    if problem["top_k"]:
        scores = hf.TopKLogitsWarper(problem["top_k"])(ids, scores)
    if problem["top_p"] < 1.0:
        scores = hf.TopPLogitsWarper(min(max(problem["top_p"] + other_slack, 0.0), 1.0))(ids, scores)
    if problem["min_p"] > 0:
        # Where the best score is met exactly, rounding must not decide: keep min_p = 1 as it is.
        min_p = problem["min_p"] - other_slack if problem["min_p"] < 1 else 1.0
        scores = hf.MinPLogitsWarper(min_p)(ids, scores)
    if typical_p < 1.0:
        scores = hf.TypicalLogitsWarper(typical_p + slack)(ids, scores)
    return scores[0].numpy()


def draws(problem, step=0):
    options = {k: v for k, v in problem.items() if k not in ("logits", "previous")}
    logits = np.broadcast_to(problem["logits"], (DRAWS, problem["logits"].size))
    return sample_tokens(
        logits, np.arange(DRAWS), step=step, previous=[problem["previous"]] * DRAWS, **options
    )


@settings(max_examples=133)
@given(problems())
def test_kept_tokens(problem):
    """No token is drawn that the reference drops, and none is missing that it gives a fair share."""
    smaller, scores, larger = (reference(problem, slack=s) for s in (-1e-5, 0.0, 1e-5))
    tokens, log_probs = draws(problem)
    # torch sorts more than 16 equal scores in no particular order: there only the scores can be compared.
    names = np.arange(len(scores)) if len(scores) <= 16 else reference(problem, filters=False)
    assert set(names[tokens].tolist()) <= set(names[np.isfinite(larger)].tolist())
    probability = np.exp(scores - scores.max())
    probability /= probability.sum()
    likely = np.flatnonzero((probability > 20 / DRAWS) & np.isfinite(smaller))
    assert set(names[likely].tolist()) <= set(names[tokens].tolist())
    model = torch.log_softmax(torch.from_numpy(problem["logits"]).double(), -1).numpy()
    np.testing.assert_allclose(log_probs, model[tokens], rtol=1e-6, atol=1e-6)


@each_case(("top_p", "top_k", "typical_p"), [(0.9, 0, 0.8), (0.3, 50, 0.8), (0.9, 50, 1.0), (0.3, 0, 1.0)])
def test_frequencies_of_a_large_vocabulary(top_p, top_k, typical_p):
    rng = np.random.default_rng(3)
    problem = {
        "logits": (rng.normal(size=5000) * 4).astype(np.float32),
        "previous": np.arange(20), "repetition_penalty": 1.2, "temperature": 0.8, "top_k": top_k,
        "top_p": top_p, "min_p": 0.0, "typical_p": typical_p,
    }  # fmt: skip
    scores = reference(problem)
    probability = np.exp(scores - scores.max())
    probability /= probability.sum()
    tokens = np.concatenate([draws(problem, step)[0] for step in range(20)])
    counts = np.bincount(tokens, minlength=5000)
    share = counts / counts.sum()
    assert not counts[probability == 0].any()
    np.testing.assert_allclose(share, probability, atol=4 * np.sqrt(0.25 / counts.sum()))


@st.composite
def problems_scores(draw):
    shape = (*draw(st.lists(st.integers(0, 4), max_size=3)), draw(st.integers(1, 5000)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    scale = draw(st.sampled_from([0.0, 1.0, 10.0, 300.0]))
    logits = (rng.normal(size=shape) * scale + draw(st.sampled_from([0, -50, 1000]))).astype(np.float32)
    tokens = rng.integers(0, shape[-1], shape[:-1])
    tokens[rng.random(tokens.shape) < 0.2] = -100
    return logits, tokens, rng


def expected(logits, tokens):
    log_probs = torch.log_softmax(torch.as_tensor(logits).double(), -1)
    index = torch.as_tensor(np.maximum(tokens, 0))[..., None]
    return np.where(tokens == -100, 0.0, log_probs.gather(-1, index)[..., 0].numpy())


@settings(max_examples=66)
@given(problems_scores(), st.sampled_from([0.3, 1.0, 2.0]))
def test_float32(problem, temperature):
    logits, tokens, _ = problem
    got = token_log_probs(logits, tokens, temperature=temperature)
    want = expected(logits.astype(np.float64) / temperature, tokens)
    np.testing.assert_allclose(got, want, rtol=5e-7, atol=5e-7)


@settings(max_examples=16)
@given(problems_scores(), st.sampled_from([torch.float16, torch.bfloat16, torch.float64]))
def test_other_types(problem, dtype):
    logits, tokens, _ = problem
    tensor = torch.as_tensor(logits).clamp(-6e4, 6e4).to(dtype)
    if dtype == torch.bfloat16:
        array = tensor.view(torch.uint16).numpy().view(ml_dtypes.bfloat16)
    else:
        array = tensor.numpy()
    np.testing.assert_allclose(token_log_probs(array, tokens), expected(tensor, tokens), rtol=5e-7, atol=5e-7)


@settings(max_examples=20)
@given(problems_scores(), st.booleans())
def test_masks_of_llm_masked_categorical(problem, by_token):
    distributions = pytest.importorskip("torchrl.modules", reason="needs the parity extra")
    logits, tokens, rng = problem
    mask = rng.random(logits.shape if by_token else tokens.shape) < 0.8
    legal = np.where(tokens == -100, 0, tokens)
    if by_token and tokens.size:  # the reference scores masked tokens at the type's minimum
        np.put_along_axis(mask, legal[..., None], True, -1)
    reference = distributions.LLMMaskedCategorical(torch.as_tensor(logits), torch.as_tensor(mask))
    want = reference.log_prob(torch.as_tensor(tokens)).numpy()
    # The reference computes in float32 throughout; its error grows with the logits.
    atol = 1e-6 * max(1.0, float(np.abs(logits).max(initial=0.0)))
    np.testing.assert_allclose(token_log_probs(logits, tokens, mask), want, rtol=1e-5, atol=atol)


def test_adversarial_rows_of_256k():
    size = 256_000
    rows = np.stack(
        [
            np.zeros(size), np.where(np.arange(size) == 7, 60.0, 0.0), np.linspace(-80, 0, size),
            np.linspace(20, -20, size), np.random.default_rng(0).normal(size=size) * 5,
        ]
    ).astype(np.float32)  # fmt: skip
    for token in (0, 7, 100_000, size - 1):
        tokens = np.full(5, token)
        got = token_log_probs(rows, tokens)
        np.testing.assert_allclose(got, expected(rows, tokens), rtol=1e-6, atol=1e-7)
