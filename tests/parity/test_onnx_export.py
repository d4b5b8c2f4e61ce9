"""Graphs that lite or torch exports, beside torch's modules: numbers, sizes, decoders, dtypes."""

import warnings

import numpy as np
import pytest
import torch
import transformers
from helpers.graphs import flat, numbers, open_graph, resized, run_graph
from helpers.models.beside_transformers import assert_same_tokens_and_log_probs

from lite import nn
from lite.models import OnnxDecoder

SIZE, MORE = 1.1, 256  # how much larger than torch's a graph may be; the digest of the contract among it

# What makes the module of a library, shapes of its inputs, the axis of the batch in each.
MODULES = {
    "MLP": (lambda n: n.Sequential(n.Linear(8, 64), n.Tanh(), n.Linear(64, 64), n.ReLU(), n.Linear(64, 4)),
        [(5, 8)], [0]),
    "GRU": (lambda n: n.GRU(16, 64), [(6, 5, 16), (1, 5, 64)], [1, 1]),
    "GRU of two layers": (lambda n: n.GRU(8, 32, 2, batch_first=True, bidirectional=True), [(5, 6, 8)],
        [0]),
    "LSTM": (lambda n: n.LSTM(16, 64, 2), [(6, 5, 16)], [1]),
    "RNN": (lambda n: n.RNN(16, 64, nonlinearity="relu"), [(6, 5, 16)], [1]),
    "convolutions": (lambda n: n.Sequential(n.Conv2d(3, 8, 4, 2), n.ReLU(), n.MaxPool2d(2),
        n.Conv2d(8, 8, 2), n.Flatten(), n.Linear(32, 4)), [(5, 3, 14, 14)], [0]),
    "normalisations": (lambda n: n.Sequential(n.Linear(8, 64), n.LayerNorm(64), n.GELU(),
        n.BatchNorm1d(64), n.Softmax(-1)), [(5, 8)], [0]),
    "attention": (lambda n: n.MultiheadAttention(16, 4, batch_first=True), [(5, 6, 16)] * 3, [0, 0, 0]),
    "embedding": (lambda n: n.Sequential(n.Embedding(11, 8), n.Linear(8, 4)), [(5, 3)], [0]),
}  # fmt: skip
# torch.onnx has no operator for its own fused encoder layer.
UNKNOWN_TO_TORCH = {
    "encoder layer": (lambda n: n.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu"),
        [(5, 6, 16)], [0]),
}  # fmt: skip


def both(name):
    make, shapes, axes = (MODULES | UNKNOWN_TO_TORCH)[name]
    torch.manual_seed(0)
    theirs = make(torch.nn).eval()
    for values in theirs.state_dict().values():  # torch's exporter stores equal arrays, such as ones, once
        if values.dtype.is_floating_point:
            values.copy_(values + 0.01 * torch.rand_like(values))
    mine = make(nn).eval()
    mine.load_state_dict(theirs.state_dict())
    arrays = [numbers(*shape, seed=i) for i, shape in enumerate(shapes)]
    if name == "embedding":
        arrays = [np.arange(15).reshape(5, 3) % 11]
    return mine, theirs, arrays, axes


def named(module, count):
    names = {"attention": ["query", "key", "value"]}
    if isinstance(module, nn.MultiheadAttention):
        return names["attention"]
    return (["src"] if isinstance(module, nn.TransformerEncoderLayer) else ["input", "hx"])[:count]


@pytest.mark.parametrize("name", MODULES | UNKNOWN_TO_TORCH)
def test_numbers_are_those_of_torch(name, tmp_path):
    mine, theirs, arrays, axes = both(name)
    names = named(mine, len(arrays))
    dynamic = {label: {axis: "batch"} for label, axis in zip(names, axes, strict=True)}
    session = open_graph(mine.to_onnx(tmp_path / "mine.onnx", *arrays, dynamic_axes=dynamic))
    for rows in (5, 1, 8):
        given = [resized(x, {axis: rows}) for x, axis in zip(arrays, axes, strict=True)]
        with torch.no_grad():
            expected = flat(theirs(*map(torch.from_numpy, given)))
        for got, want in zip(run_graph(session, given), expected, strict=True):
            np.testing.assert_allclose(got, want.numpy(), rtol=1e-5, atol=1e-5, strict=True)


@pytest.mark.parametrize("name", MODULES)
def test_graphs_are_no_larger_than_torchs(name, tmp_path):
    """Bytes of the file within a tenth, and the same numbers in onnxruntime."""
    mine, theirs, arrays, axes = both(name)
    names = named(mine, len(arrays))
    dynamic = {label: {axis: "batch"} for label, axis in zip(names, axes, strict=True)}
    path = mine.to_onnx(tmp_path / "mine.onnx", *arrays, dynamic_axes=dynamic)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            theirs, tuple(map(torch.from_numpy, arrays)), str(tmp_path / "theirs.onnx"), input_names=names,
            dynamic_axes=dynamic, opset_version=20, dynamo=False,
        )  # fmt: skip
    got, want = (run_graph(open_graph(p), arrays) for p in (path, tmp_path / "theirs.onnx"))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    sizes = path.stat().st_size, (tmp_path / "theirs.onnx").stat().st_size
    np.testing.assert_array_less(sizes[0], SIZE * sizes[1] + MORE)


SIZES = {
    "gpt2": {"n_positions": 128, "n_embd": 32, "n_layer": 1, "n_head": 2},
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


@pytest.mark.parametrize(("positions", "last"), [(False, True), (True, False)])
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
            Masked().eval(), (torch.ones(2, 5).long(), torch.ones(2, 5).long()), tmp_path / "model.onnx",
            input_names=["input_ids", "attention_mask"], output_names=["logits"],
            dynamic_axes=dict.fromkeys(["input_ids", "attention_mask", "logits"], both), opset_version=17,
            dynamo=False,
        )  # fmt: skip
    with pytest.raises(ValueError, match="it is not a causal language model"):
        OnnxDecoder(tmp_path)
