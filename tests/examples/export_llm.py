"""A language model of transformers as an ONNX graph with a key/value cache, by `torch.onnx.export`.

`python tests/examples/export_llm.py MODEL DIR` takes a model's name or folder, and writes what `lite generate
--model DIR` and `lite score --model DIR` run. It needs torch, transformers, onnx and onnxscript.
"""

import inspect
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache


class Step(torch.nn.Module):
    """New tokens after a past: logits, and keys and values of both."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        known = inspect.signature(model.forward).parameters
        self.cache = "cache" if "cache" in known else "past_key_values"  # transformers 5.24, and before

    def forward(self, input_ids, attention_mask, position_ids, past):
        cache = DynamicCache()
        for layer, (keys, values) in enumerate(zip(past[::2], past[1::2], strict=True)):
            cache.update(keys, values, layer)
        out = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            **{self.cache: cache},
        )
        return out.logits, [part for layer in cache.layers for part in (layer.keys, layer.values)]


def export(name, folder):
    experts = (
        "batched_mm"  # ONNX has no grouped products, and a loop over experts is exported as one example's
    )
    model = AutoModelForCausalLM.from_pretrained(
        name, dtype=torch.float32, experts_implementation=experts
    ).eval()
    config, tokenizer = model.config, AutoTokenizer.from_pretrained(name)
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    kinds = [f"{layer}.{kind}" for layer in range(config.num_hidden_layers) for kind in ("key", "value")]
    inputs = ["input_ids", "attention_mask", "position_ids", *(f"past_key_values.{kind}" for kind in kinds)]
    new = {0: "batch", 1: "sequence"}
    Path(folder).mkdir(parents=True, exist_ok=True)
    torch.onnx.export(
        Step(model).eval(),
        (  # a tensor of its own for each input: one that is given twice becomes one input
            torch.ones(2, 5, dtype=torch.int64),
            torch.ones(2, 8, dtype=torch.int64),
            torch.arange(3, 8).repeat(2, 1),
            [torch.zeros(2, heads, 3, size) for _ in kinds],
        ),
        Path(folder) / "model.onnx",
        input_names=inputs,
        output_names=["logits", *(f"present.{kind}" for kind in kinds)],
        dynamic_shapes=(new, {0: "batch", 1: "total"}, new, [{0: "batch", 2: "past"} for _ in kinds]),
    )
    for part in (config, model.generation_config, tokenizer):
        part.save_pretrained(folder)


if __name__ == "__main__":
    export(*sys.argv[1:])
