"""The example that scores a file of responses, beside transformers with the weights of the same export."""

import numpy as np
import onnx
import pytest
import torch
import transformers
from examples.score_jsonl import as_messages, score_file, summary, written
from helpers.models.real_models import MODELS
from helpers.models.responses import FILE, write

MODEL = MODELS / "optimum-llama"


@pytest.fixture(scope="module")
def model():
    """Llama with the weights of the graph: products have theirs transposed, and are named for their layer."""
    graph = onnx.load(MODEL / "model.onnx").graph
    values = {
        tensor.name: torch.from_numpy(onnx.numpy_helper.to_array(tensor).copy())
        for tensor in graph.initializer
    }
    state = {name: value for name, value in values.items() if name.startswith("model.")}
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in values:
            name = node.name.removesuffix("/MatMul").lstrip("/").replace("/", ".")
            state[f"{name}.weight"] = values[node.input[1]].T
    made = transformers.LlamaForCausalLM(transformers.AutoConfig.from_pretrained(MODEL)).eval()
    made.load_state_dict(state)
    return made


def test_log_probs_and_perplexity(model, tmp_path):
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL)
    wanted = []
    for row in FILE:
        turns = as_messages(row)
        prompt = tokenizer.apply_chat_template(turns[:-1], add_generation_prompt=True, tokenize=False)
        ids, whole = (
            tokenizer(text, add_special_tokens=False)["input_ids"]
            for text in (prompt, f"{prompt}{turns[-1]['content']}<|im_end|>")
        )
        with torch.no_grad():
            log_probs = model(torch.tensor([whole])).logits[0].double().log_softmax(-1)
        wanted.append([log_probs[i - 1, whole[i]].item() for i in range(len(ids), len(whole))])
    rows = write(tmp_path / "rows.jsonl")
    assert score_file(rows, tmp_path / "scores.jsonl", MODEL) == len(FILE)
    scores = written(tmp_path / "scores.jsonl")
    assert [score["tokens"] for score in scores] == [len(row) for row in wanted]
    sums = [sum(row) for row in wanted]
    np.testing.assert_allclose([score["log_prob"] for score in scores], sums, rtol=1e-5, atol=1e-4)
    perplexity, _ = summary(rows, tmp_path / "scores.jsonl")
    np.testing.assert_allclose(perplexity, np.exp(-sum(sums) / sum(map(len, wanted))), rtol=1e-5)
