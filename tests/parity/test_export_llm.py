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
    "vocab_size": 512, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "eos_token_id": 2,
}  # fmt: skip


def exported(tmp_path, model):
    from examples.export_llm import export

    for weight in model.parameters():
        if weight.ndim > 1:
            weight.data *= 6  # so that the best token leads clearly
    model.save_pretrained(tmp_path / "source")
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(MODELS / "optimum-llama" / name, tmp_path / "source")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own
        export(tmp_path / "source", tmp_path / "export")


def test_a_mixture_of_experts(tmp_path):
    torch.manual_seed(0)
    experts = {"num_local_experts": 4, "num_experts_per_tok": 2, "pad_token_id": 0}
    model = transformers.MixtralForCausalLM(transformers.MixtralConfig(**SIZES, **experts)).eval()
    exported(tmp_path, model)
    assert_same_tokens_and_log_probs(OnnxDecoder(tmp_path / "export", num_threads=1), model, (3, 9, 1, 10))


def test_tokens_and_log_probs(tmp_path):
    """Texts on both sides of the limit of short factors, and across it, in one batch too."""
    torch.manual_seed(0)
    rope = {
        "rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 4, "long_factor": [8, 4, 9, 20],
    }  # fmt: skip
    sizes = {**SIZES, "original_max_position_embeddings": 16, "pad_token_id": 0}
    model = transformers.Phi3ForCausalLM(transformers.Phi3Config(**sizes, rope_parameters=rope)).eval()
    exported(tmp_path, model)
    assert Tokenizer.from_pretrained(tmp_path / "export").chat_template is not None
    rng = np.random.default_rng(0)
    prompts = [rng.integers(3, 512, length) for length in (3, 10, 17)]
    for in_place in (True, False):
        decoder = OnnxDecoder(tmp_path / "export", num_threads=1, cache_in_place=in_place)
        assert (decoder.spec.padding is Padding.SLOTS) == in_place
        assert_same_tokens_and_log_probs(decoder, model, (3, 9, 1, 10))
        config = GenerationConfig(max_new_tokens=9, eos_token_ids=())
        for prompt, response in zip(prompts, generate(decoder, prompts, config), strict=True):
            ids = torch.tensor(prompt[None])
            text = model.generate(ids, max_new_tokens=9, do_sample=False, eos_token_id=None)
            np.testing.assert_array_equal(response.tokens, text[0, len(prompt) :])
