"""Exports without a key/value cache, as torch writes them, against transformers: tokens and log-probs."""

import warnings

import pytest
import torch
import transformers
from helpers.models.beside_transformers import assert_same_tokens_and_log_probs

from lite.models import OnnxDecoder

SIZES = {
    "gpt2": {"n_positions": 128, "n_embd": 32, "n_layer": 2, "n_head": 2},
    "llama": {
        "max_position_embeddings": 128, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2,
    },
}  # fmt: skip


class Flat(torch.nn.Module):
    """A model with the inputs and the output of an export; `last` gives the last position's logits only."""

    def __init__(self, model, last):
        super().__init__()
        self.model, self.last = model, last

    def forward(self, input_ids, attention_mask, position_ids=None):
        logits = self.model(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, use_cache=False
        ).logits
        return logits[:, -1:] if self.last else logits


@pytest.fixture(scope="module", params=sorted(SIZES))
def model(request):
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(request.param, vocab_size=300, **SIZES[request.param])
    made = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    for name, weight in made.named_parameters():
        if weight.ndim > 1 and "norm" not in name:
            weight.data *= 6  # so that the best token leads clearly
    return made


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("positions", [False, True])
def test_tokens_and_log_probs(model, positions, last, tmp_path):
    names = ["input_ids", "attention_mask", "position_ids"][: 3 if positions else 2]
    both = {0: "batch", 1: "sequence"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own, about tracing
        torch.onnx.export(
            Flat(model, last).eval(),  # or the export leaves the model in training
            tuple(
                torch.arange(10).reshape(2, 5) if n == "position_ids" else torch.ones(2, 5).long()
                for n in names
            ),
            tmp_path / "model.onnx",
            input_names=names,
            output_names=["logits"],
            dynamic_axes={**dict.fromkeys(names, both), "logits": {0: "batch"} if last else both},
            opset_version=17,
            dynamo=False,
        )
    decoder = OnnxDecoder(tmp_path, num_threads=1)
    spec = decoder.spec
    assert (spec.cache, spec.last_logits_only, bool(spec.positions)) == ((), last, positions)
    assert_same_tokens_and_log_probs(decoder, model, (3, 9, 1, 17, 9))


def test_a_masked_model_is_refused(tmp_path):
    """It has the same inputs and outputs; small random weights are the hardest to tell."""
    torch.manual_seed(0)
    config = transformers.DistilBertConfig(
        vocab_size=300, dim=32, n_layers=2, n_heads=2, hidden_dim=64, max_position_embeddings=64
    )
    masked = transformers.AutoModelForMaskedLM.from_config(config, attn_implementation="eager").eval()

    class Masked(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = masked

        def forward(self, input_ids, attention_mask):
            return self.model(input_ids=input_ids, attention_mask=attention_mask).logits

    both = {0: "batch", 1: "sequence"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Masked().eval(),
            (torch.ones(2, 5).long(), torch.ones(2, 5).long()),
            tmp_path / "model.onnx",
            input_names=["input_ids", "attention_mask"],
            output_names=["logits"],
            dynamic_axes=dict.fromkeys(["input_ids", "attention_mask", "logits"], both),
            opset_version=17,
            dynamo=False,
        )
    with pytest.raises(ValueError, match="it is no causal language model"):
        OnnxDecoder(tmp_path)
