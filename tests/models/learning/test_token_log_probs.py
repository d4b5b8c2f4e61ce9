"""Log-probs of a graph as a module: those of scoring for every convention, and their gradients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.models.real_models import each_export, open_model, tolerance
from helpers.tiers import standing_for_all

import lite
from lite import TensorDict, value_and_grad
from lite.models import OnnxDecoder, score
from lite.models.learning import token_log_probs
from lite.models.learning.token_log_probs import TokenLogProbs, token_log_probs_of

LENGTHS = (9, 4, 1, 20, 9)
WARMTH = [1.0, 1.0, 0.7, 1.0, 0.7]


def module_of(decoder: OnnxDecoder, **options: Any) -> TokenLogProbs:
    config, spec = decoder.config, decoder.spec
    assert config is not None
    if spec.prompts is not None:
        config, spec = config.of_prompts() or config, spec.prompts
    return token_log_probs_of(config, spec, **options)


def rows_for(decoder: OnnxDecoder) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, decoder.vocab_size, n) for n in LENGTHS]


@each_export
def test_log_probs_are_those_of_scoring(name: str, decoder: OnnxDecoder) -> None:
    rows = rows_for(decoder)
    module = module_of(decoder, max_tokens=40)
    log_probs, places = module(rows, None, WARMTH)
    if name == "optimum-llama":  # similar lengths of one temperature, within the tokens
        runs = module._runs(rows, None, WARMTH, module._shared(rows, None))
        found = [[(piece.row, piece.stop) for piece in run] for run in runs]
        assert found == [[(1, 3), (0, 8)], [(3, 19)], [(4, 8)]]
    wanted = score(decoder, rows, temperature=WARMTH)
    for place, row in zip(places, wanted, strict=True):
        # a graph in half precision is computed in float32
        close = 0.03 if name == "handmade-slots-half" else max(1e-4, tolerance(name))
        np.testing.assert_allclose(log_probs[place], row, atol=close)


def test_products_that_round_what_they_read_are_refused() -> None:
    decoder = open_model("optimum-llama")
    rounded = replace(decoder.spec, quantisation="MatMulInteger")
    assert decoder.config is not None
    with pytest.raises(NotImplementedError, match=r"rounds what its products read .* has no derivative"):
        token_log_probs_of(decoder.config, rounded)


@pytest.mark.parametrize("name", ["optimum-llama", "handmade-no-cache", "handmade-last-logits"])
def test_tokens_that_are_not_wanted_have_none(name: str, decoder: OnnxDecoder) -> None:
    rows, rng = rows_for(decoder), np.random.default_rng(1)
    module = module_of(decoder)
    wanted = [rng.random(len(row)) < 0.4 for row in rows]
    wanted[0][:] = False
    wanted[1][0] = True  # the first of a row, of which nothing is known
    every, all_places = module(rows)
    some, places = module(rows, wanted)
    for mask, place, whole in zip(wanted, places, all_places, strict=True):
        np.testing.assert_allclose(some[place], np.where(mask, every[whole], 0), atol=1e-4)


# The derivative passes the rounding of a quantised cache by, which differences do not.
@pytest.mark.parametrize(
    "name", standing_for_all(["optimum-llama", "genai-lfm2", "exporter-llama-pair", "genai-phi3-longrope"])
)
def test_gradients_are_those_of_differences(name: str, decoder: OnnxDecoder) -> None:
    """Along one direction, by all weights at once."""
    module, rows, rng = module_of(decoder), rows_for(decoder), np.random.default_rng(2)
    params = TensorDict.from_module(module).data.clone()
    learns = {n for n, p in module.named_parameters() if p.requires_grad}
    step = params.apply(np.zeros_like)
    for key in step.keys(True, True):
        if (key if isinstance(key, str) else ".".join(key)) in learns:
            scale = 3e-4 * np.abs(params[key]).sum() / max(1, params[key].size)
            step[key] = (rng.normal(size=params[key].shape) * scale).astype(np.float32)

    def loss(params: Any) -> Any:
        with params.to_module(module):
            return module(rows)[0].sum()

    _, grads = value_and_grad(loss)(params)
    slope = sum(float((grads[key] * step[key]).sum()) for key in step.keys(True, True))
    ahead, behind = (float(loss(params.apply(lambda a, b: a + t * b, step))) for t in (0.5, -0.5))  # noqa: B023
    assert slope == pytest.approx(ahead - behind, rel=0.06)
    assert abs(slope) > 1e-3


@pytest.mark.parametrize("name", ["optimum-llama"])
def test_no_graph_runs_if_nothing_is_wanted(decoder: OnnxDecoder) -> None:
    module, rows = module_of(decoder), rows_for(decoder)
    none = [np.zeros(len(row), bool) for row in rows]
    log_probs, places = module(rows, none)
    assert log_probs.shape == (1,)
    assert not np.concatenate(places).any()


def test_runs_that_are_computed_again_give_the_same_gradients() -> None:
    decoder = open_model("genai-llama-fp32")
    found, kept = [], []
    for again in (False, True, 3):
        module = module_of(decoder, max_tokens=20, checkpoint=again)
        assert module.graph.checkpoint == (3 if again == 3 else False)
        with lite.enable_grad():
            loss = module(rows_for(decoder))[0].sum()
        loss.backward()
        found.append({name: p.grad for name, p in module.named_parameters() if p.requires_grad})
        kept.append(float(loss))
    assert kept[0] == kept[1] == kept[2]
    for name, gradient in found[0].items():
        for again in found[1:]:
            np.testing.assert_allclose(again[name], gradient, rtol=1e-4, atol=1e-4, err_msg=name)


@pytest.mark.parametrize(
    "name", ["optimum-llama", "optimum-gpt2", "genai-qwen2-int4", "handmade-slots-windowed", "genai-lfm2"]
)
@pytest.mark.parametrize("checkpoint", [False, True])
def test_what_rows_begin_with_is_read_once(
    name: str, decoder: OnnxDecoder, checkpoint: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the log-probs and gradients of reading it in each row, as a graph with other states does."""
    rng = np.random.default_rng(0)
    prompts = [rng.integers(0, decoder.vocab_size, n) for n in (7, 7, 5, 1)]
    rows, wanted, warmth = [], [], []
    for i, (prompt, lengths) in enumerate(zip(prompts, ((3, 1, 6), (2, 2), (4,), (2, 3)), strict=True)):
        for n in lengths:
            rows.append(np.concatenate([prompt, rng.integers(0, decoder.vocab_size, n)]))
            wanted.append(np.arange(len(rows[-1])) >= len(prompt))
            warmth.append([1.0, 0.7][i % 2])
    rows, wanted, warmth = [*rows, rows[0][:1]], [*wanted, np.ones(1, bool)], [*warmth, 1.0]
    module = module_of(decoder, lora={"rank": 2, "targets": "*", "rng": 0}, checkpoint=checkpoint)
    params = module.graph.adapter_params().data.clone()
    for i, key in enumerate(params.keys(True, True)):
        params[key] = np.random.default_rng(i).normal(0, 0.1, params[key].shape).astype(np.float32)

    def loss(params: Any) -> Any:
        with params.to_module(module.graph):
            log_probs, places = module(rows, wanted, warmth)
        at = np.concatenate([place[mask] for place, mask in zip(places, wanted, strict=True)])
        shares = np.sin(np.arange(len(at), dtype=np.float32))
        return (log_probs[at] * shares).sum(), log_probs[at]

    found = [value_and_grad(loss, has_aux=True)(params)]
    assert not module._reader
    monkeypatch.setattr(token_log_probs, "SHARED", 1)
    found.append(value_and_grad(loss, has_aux=True)(params))
    assert bool(module._reader) is (name != "genai-lfm2")
    np.testing.assert_allclose(found[0][0][1], found[1][0][1], rtol=1e-6, atol=1e-5)
    for key in params.keys(True, True):
        one, other = (grads[key] for _, grads in found)
        np.testing.assert_allclose(one, other, atol=1e-5 * np.abs(one).max(), err_msg=str(key))

    module.graph = module_of(decoder).graph  # whose cache is another one
    weights = TensorDict.from_module(module.graph).data * 1.1
    plain = loss(weights)[1]
    monkeypatch.setattr(token_log_probs, "SHARED", 1 << 30)
    np.testing.assert_allclose(plain, loss(weights)[1], rtol=1e-6, atol=1e-5)


def test_logits_that_no_known_product_gives_have_the_same_log_probs(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = open_model("optimum-llama")
    rows = rows_for(decoder)
    supports = [
        (2 * np.arange(len(row) + 1), np.stack([row, (row + 3) % decoder.vocab_size], 1).ravel())
        for row in rows
    ]
    module = module_of(decoder)
    monkeypatch.setattr(token_log_probs, "find_output_layer", lambda *_: None)
    whole = module_of(decoder)
    for given in ((None, WARMTH), (None, WARMTH, supports)):
        (found, places), (wanted, _) = whole(rows, *given), module(rows, *given)
        np.testing.assert_allclose(found, wanted, atol=1e-5)
        assert (found[np.concatenate([place[1:] for place in places])] < 0).all()
