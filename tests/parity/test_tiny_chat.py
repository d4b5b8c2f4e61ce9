"""The embedded model against transformers' Llama with the same weights; the example that scores a file."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import transformers
from examples.score_jsonl import as_messages, score_file, summary, written
from helpers.models.real_models import MODELS
from helpers.models.response_files import FILE, write

from lite.models import embedded_model_path
from lite.models.tiny_chat.tasks import make_problem

FOLDER = embedded_model_path()


@pytest.fixture(scope="module")
def session():
    return onnxruntime.InferenceSession(FOLDER / "model.onnx", providers=["CPUExecutionProvider"])


@pytest.fixture(scope="module")
def tokenizer():
    return transformers.AutoTokenizer.from_pretrained(FOLDER)


@pytest.fixture(scope="module")
def oracle():
    """Llama with the weights of the graph: transposed back, and the joined projections taken apart."""
    config = transformers.AutoConfig.from_pretrained(FOLDER)
    heads, kv, head = config.num_attention_heads, config.num_key_value_heads, config.head_dim
    parts = {
        "qkv": [("q", heads * head), ("k", kv * head), ("v", kv * head)],
        "gate_up": [("gate", config.intermediate_size), ("up", config.intermediate_size)],
    }
    state = {}
    for tensor in onnx.load(FOLDER / "model.onnx").graph.initializer:
        if not tensor.name.startswith("model."):
            continue  # constants of the graph
        value = torch.from_numpy(onnx.numpy_helper.to_array(tensor).copy())
        where, _, name = tensor.name.removesuffix("_proj.weight").rpartition(".")
        if not tensor.name.endswith("_proj.weight"):
            state[tensor.name] = value
        elif name in parts:
            names, sizes = zip(*parts[name], strict=True)
            for part, piece in zip(names, value.T.split(sizes), strict=True):
                state[f"{where}.{part}_proj.weight"] = piece
        else:
            state[tensor.name] = value.T
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model = transformers.LlamaForCausalLM(config).eval()
    model.load_state_dict(state)
    return model


def run(session, ids, mask, cache=None):
    past = [i for i in session.get_inputs() if i.name.startswith("past_key_values.")]
    cache = cache or [np.zeros((len(ids), i.shape[1], 0, i.shape[3]), np.float32) for i in past]
    positions = np.clip(mask.cumsum(1) - 1, 0, None)[:, -ids.shape[1] :]
    feeds = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
    logits, *cache = session.run(None, feeds | {i.name: c for i, c in zip(past, cache, strict=True)})
    return logits, cache


def oracle_logits(oracle, ids, mask):
    with torch.no_grad():
        return oracle(
            input_ids=torch.from_numpy(ids),
            attention_mask=torch.from_numpy(mask),
            position_ids=torch.from_numpy(np.clip(mask.cumsum(1) - 1, 0, None)),
        ).logits.numpy()


@pytest.mark.parametrize("seed", range(3))
def test_logits_of_conversations(session, oracle, tokenizer, seed):
    rng = np.random.default_rng(seed)
    problems = [make_problem(rng) for _ in range(6)]
    texts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": p.prompt}], tokenize=False, add_generation_prompt=True
        )
        + p.answer
        for p in problems
    ]
    batch = tokenizer(texts, return_tensors="np", padding=True, add_special_tokens=False)
    ids, mask = batch["input_ids"], batch["attention_mask"]
    assert (mask[:, 0] == 0).any(), "some row must be padded, on the left"
    wanted = oracle_logits(oracle, ids, mask)
    whole, _ = run(session, ids, mask)
    np.testing.assert_allclose(whole[mask == 1], wanted[mask == 1], atol=1e-4)
    cache = None
    for i in range(ids.shape[1]):
        step, cache = run(session, ids[:, i : i + 1], mask[:, : i + 1], cache)
        real = mask[:, i] == 1
        np.testing.assert_allclose(step[real, 0], wanted[real, i], atol=1e-4)


@pytest.mark.parametrize("length", [1, 2, 17, 256])
def test_logits_of_random_tokens(session, oracle, length):
    ids = np.random.default_rng(length).integers(0, oracle.config.vocab_size, (2, length))
    mask = np.ones_like(ids)
    got, _ = run(session, ids, mask)
    np.testing.assert_allclose(got, oracle_logits(oracle, ids, mask), atol=1e-4)


def test_transformers_reads_the_files(tokenizer):
    assert (tokenizer.eos_token, tokenizer.pad_token, tokenizer.bos_token) == ("<|im_end|>", "<|pad|>", None)
    messages = [{"role": "user", "content": "What is 1 + 2?"}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert text == "<|im_start|>user\nWhat is 1 + 2?<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    generation = transformers.GenerationConfig.from_pretrained(FOLDER)
    assert (generation.eos_token_id, generation.pad_token_id) == (
        tokenizer.eos_token_id,
        tokenizer.pad_token_id,
    )


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
