"""Other values for weights: what is checked, types, and the same weights in the other graph of a pair."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.models.real_models import MODELS, tolerance
from helpers.tiers import standing_for_all

from lite import nn
from lite.models import GenerationConfig, OnnxDecoder, generate, score
from lite.models.decoder.new_weights import checked_weights, same_in_other

PAIR = MODELS / "optimum-gpt2-pair"


def learnt(path: Path) -> dict[str, Any]:
    net: Any = nn.from_onnx(path)
    found: dict[str, Any] = net.weights(net.learning_weights())
    return found


def changed(decoder: OnnxDecoder, *, by: float = 0.2) -> dict[str, Any]:
    """Other values for all weights that can learn."""
    rng, config = np.random.default_rng(0), decoder.config
    assert config is not None
    if decoder.spec.prompts is not None:
        config = config.of_prompts() or config
    weights = learnt(config.graph)
    return {key: (w * (1 + by * rng.normal(size=w.shape))).astype(np.float32) for key, w in weights.items()}


@pytest.mark.parametrize(
    "name", standing_for_all(["optimum-llama", "exporter-llama-pair", "handmade-slots-int4"])
)
def test_a_running_model_takes_other_values(name: str) -> None:
    decoder = OnnxDecoder(MODELS / name, num_threads=1)
    sibling, rows = decoder.sibling(), [np.array([10, 20, 30, 40]), np.array([50, 60])]
    before = score(decoder, rows)
    weights = changed(decoder)
    decoder.update_weights_(weights)
    after = score(sibling, rows)
    assert np.abs(after[0] - before[0]).max() > 0.05
    (response,) = generate(decoder, [rows[0]], GenerationConfig(max_new_tokens=4, do_sample=False))
    scores = score(decoder, [np.concatenate([rows[0], response.tokens])])[0]
    np.testing.assert_allclose(scores[4:], response.log_probs, atol=max(1e-4, tolerance(name)))
    again = score(pickle.loads(pickle.dumps(decoder)), rows)
    np.testing.assert_array_equal(again[0], after[0])
    decoder.update_weights_({})
    np.testing.assert_array_equal(score(decoder, rows)[1], after[1])


def test_rows_that_hold_tokens_are_kept() -> None:
    decoder = OnnxDecoder(MODELS / "genai-llama-fp32", num_threads=1)
    sibling, weights = decoder.sibling(), changed(decoder)
    logits = sibling.prefill(0, [1, 2, 3])
    raises(RuntimeError, "rows hold tokens", decoder.update_weights_, weights)
    sibling.truncate(0, 2)
    np.testing.assert_allclose(sibling.decode([3])[0], logits, atol=1e-5)
    sibling.reset(0)
    decoder.update_weights_(weights)
    assert np.abs(sibling.prefill(0, [1, 2, 3]) - logits).max() > 0.01


def test_names_and_shapes_are_those_of_the_file() -> None:
    path = MODELS / "handmade-lora" / "model.onnx"
    raises(ValueError, r"model\.onnx has no weight 'other'", checked_weights, path, {"other": np.zeros(3)})
    with pytest.raises(ValueError, match=r"'ones' must have the shape \(16,\), got \(3,\)"):
        checked_weights(path, {"ones": np.zeros(3)})
    given = np.arange(16)
    found = checked_weights(path, {"ones": given})["ones"]
    assert found.dtype == np.float32
    with pytest.raises(RuntimeError, match="opened from its path"):
        OnnxDecoder(None, session=OnnxDecoder(path).session).update_weights_({})


def test_weights_of_a_pair_are_found_by_their_values(tmp_path: Path) -> None:
    first, second = PAIR / "decoder_model.onnx", PAIR / "decoder_with_past_model.onnx"
    names = learnt(first)
    found = same_in_other(first, second, names)
    assert sorted(found.values()) == sorted(names)
    theirs = nn.from_onnx(second)._source.graph.weights
    for there, name in found.items():
        np.testing.assert_array_equal(theirs[there].array(), names[name])
    with pytest.raises(ValueError, match=r"of decoder_model\.onnx is not in model\.onnx"):
        same_in_other(first, MODELS / "handmade-lora" / "model.onnx", names)
