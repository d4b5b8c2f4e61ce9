"""Scoring long rows of a large vocabulary takes memory for one chunk of logits, whatever the rows' length.

The graphs are made here, with `onnx`: one layer of attention, small but for the vocabulary.
"""

import subprocess
import sys

import pytest

VOCABULARY, WIDTH, HEADS, SIZE, CONTEXT = 152_064, 64, 2, 32, 1024
LIMIT = 200  # MiB beyond weights; all logits would be 2,376

PROGRAM = """
import sys
from pathlib import Path

import numpy as np

from lite.models import OnnxDecoder, score, score_details


def resident(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


decoder = OnnxDecoder(sys.argv[1], num_threads=2)
rng = np.random.default_rng(0)
rows = [rng.integers(0, decoder.vocab_size, 1024) for _ in range(4)]
kept = rng.integers(0, 3000, (1024, 50)) + 3000 * np.arange(50)
supports = [(np.arange(1025) * 50, kept.ravel().astype(np.int32))] * 4
run = {
    "score": lambda: score(decoder, rows),
    "details": lambda: [row.log_probs for row in score_details(decoder, rows, supports=supports)],
}
score_details(decoder, [rows[0][:64]], supports=[(np.array([0, 1]), np.array([5]))])  # what is made once
Path("/proc/self/clear_refs").write_text("5")  # resets the peak
before = resident("VmRSS")
out = run[sys.argv[2]]()
print(resident("VmHWM") - before, len(out), len(out[0]))
"""


def graph(fused):
    """A decoder of one layer with a cache, as GroupQueryAttention or written out with a causal mask."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    constants = {
        "tokens": rng.standard_normal((VOCABULARY, WIDTH), np.float32),
        "out": rng.standard_normal((WIDTH, VOCABULARY), np.float32) / 8,
        **{name: rng.standard_normal((WIDTH, WIDTH), np.float32) / 8 for name in ("q", "k", "v")},
        "heads": [0, 0, HEADS, SIZE], "flat": [0, 0, WIDTH], "zero": 0, "one": 1, "axis.1": [1],
        "axes.12": [1, 2], "lowest": np.float32(-3e38),
    }  # fmt: skip
    nodes = []

    def add(kind, *inputs, result="", **attributes):
        name = result or f"{kind}_{len(nodes)}"
        outputs = [name, "present.0.key", "present.0.value"] if kind == "GroupQueryAttention" else [name]
        domain = "com.microsoft" if kind == "GroupQueryAttention" else ""
        nodes.append(helper.make_node(kind, inputs, outputs, domain=domain, **attributes))
        return name

    x = add("Gather", "tokens", "input_ids")
    q, k, v = (add("MatMul", x, name) for name in "qkv")
    total = add("Gather", add("Shape", "attention_mask"), "one")
    if fused:
        counts = add("Sub", add("ReduceSum", "attention_mask", "axis.1", keepdims=0), "one")
        lengths = add("Cast", counts, to=TensorProto.INT32)
        past = ["past_key_values.0.key", "past_key_values.0.value"]
        y = add(
            "GroupQueryAttention", q, k, v, *past, lengths, add("Cast", total, to=TensorProto.INT32),
            num_heads=HEADS, kv_num_heads=HEADS,
        )  # fmt: skip
    else:
        q, k, v = (add("Transpose", add("Reshape", y, "heads"), perm=[0, 2, 1, 3]) for y in (q, k, v))
        k = add("Concat", "past_key_values.0.key", k, result="present.0.key", axis=2)
        v = add("Concat", "past_key_values.0.value", v, result="present.0.value", axis=2)
        first = add("Sub", total, add("Gather", add("Shape", "input_ids"), "one"))
        queries = add("Unsqueeze", add("Range", first, total, "one"), "axis.1")
        causal = add("LessOrEqual", add("Range", "zero", total, "one"), queries)
        exists = add("Unsqueeze", add("Cast", "attention_mask", to=TensorProto.BOOL), "axes.12")
        scores = add("MatMul", q, add("Transpose", k, perm=[0, 1, 3, 2]))
        attention = add("Softmax", add("Where", add("And", causal, exists), scores, "lowest"), axis=-1)
        y = add("Reshape", add("Transpose", add("MatMul", attention, v), perm=[0, 2, 1, 3]), "flat")
    add("MatMul", add("Add", x, y), "out", result="logits")

    def tensor(name, kind, *dims):
        return helper.make_tensor_value_info(name, kind, dims)

    named = {"input_ids": "s", "attention_mask": "t"}
    inputs = [tensor(name, TensorProto.INT64, "b", length) for name, length in named.items()]
    outputs = [tensor("logits", TensorProto.FLOAT, "b", "s", VOCABULARY)]
    for part in ("key", "value"):
        inputs.append(tensor(f"past_key_values.0.{part}", TensorProto.FLOAT, "b", HEADS, "p", SIZE))
        outputs.append(tensor(f"present.0.{part}", TensorProto.FLOAT, "b", HEADS, "t", SIZE))
    given = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    whole = helper.make_graph(nodes, "decoder", inputs, outputs, given)
    model = helper.make_model(whole, opset_imports=opsets)
    model.ir_version = 10
    return model


@pytest.mark.grid
@pytest.mark.parametrize(("fused", "what"), [(True, "score"), (False, "details")])
def test_long_rows(tmp_path, fused, what):
    (tmp_path / "model.onnx").write_bytes(graph(fused).SerializeToString())
    config = f'{{"vocab_size": {VOCABULARY}, "max_position_embeddings": {CONTEXT}, "model_type": "llama"}}'
    (tmp_path / "config.json").write_text(config)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), what], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    extra, rows, length = map(float, done.stdout.split())
    assert (rows, length) == (4, 1024)
    assert 16 < extra < LIMIT
    print(f"{extra:.0f} MiB")
