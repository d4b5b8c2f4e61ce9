"""The example that exports a language model by torch.onnx: log-probs are those of transformers."""

import shutil
import warnings

import numpy as np
import pytest
import torch
import transformers
from helpers.models.beside_transformers import assert_same_tokens_and_log_probs
from helpers.models.real_models import MODELS

from lite.models import GenerationConfig, OnnxDecoder, Padding, Tokenizer, generate

for needed in ("onnx", "onnxscript", "onnxruntime"):
    pytest.importorskip(needed, reason="needs the parity extra")

SIZES = {
    "vocab_size": 512, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "eos_token_id": 2,
}  # fmt: skip


def test_tokens_and_log_probs(tmp_path):
    from examples.export_llm import export

    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES)).eval()
    for weight in model.parameters():
        if weight.ndim > 1:
            weight.data *= 6  # so that the best token leads clearly
    model.save_pretrained(tmp_path / "source")
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(MODELS / "optimum-llama" / name, tmp_path / "source")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own
        export(tmp_path / "source", tmp_path / "export")
    decoder = OnnxDecoder(tmp_path / "export", num_threads=1)
    assert decoder.spec.padding is Padding.SLOTS  # the cache is in place
    assert Tokenizer.from_pretrained(tmp_path / "export").chat_template is not None
    assert_same_tokens_and_log_probs(decoder, model, (3, 9, 1, 17))


def test_factors_by_length(tmp_path):
    """Texts on both sides of a limit, and across it, in one batch: as `generate` of transformers has them."""
    from examples.export_llm import export

    torch.manual_seed(0)
    rope = {
        "rope_type": "longrope",
        "rope_theta": 1e4,
        "short_factor": [1.0] * 4,
        "long_factor": [8, 4, 9, 20],
    }
    sizes = {**SIZES, "original_max_position_embeddings": 16, "pad_token_id": 0}
    model = transformers.Phi3ForCausalLM(transformers.Phi3Config(**sizes, rope_parameters=rope)).eval()
    for weight in model.parameters():
        if weight.ndim > 1:
            weight.data *= 6
    model.save_pretrained(tmp_path / "source")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(MODELS / "optimum-llama" / name, tmp_path / "source")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own
        export(tmp_path / "source", tmp_path / "export")
    rng = np.random.default_rng(0)
    prompts = [rng.integers(3, 512, length) for length in (3, 40, 10, 16, 17)]
    for in_place in (True, False):
        decoder = OnnxDecoder(tmp_path / "export", num_threads=1, cache_in_place=in_place)
        config = GenerationConfig(max_new_tokens=12, eos_token_ids=())
        for prompt, response in zip(prompts, generate(decoder, prompts, config), strict=True):
            ids = torch.tensor(prompt[None])
            text = model.generate(ids, max_new_tokens=12, do_sample=False, eos_token_id=None)
            np.testing.assert_array_equal(response.tokens, text[0, len(prompt) :])
