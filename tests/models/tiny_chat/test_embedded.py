"""The embedded model's files in plain onnxruntime and tokenizers: nothing of lite runs the model here."""

import hashlib
import json
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import onnxruntime
import pytest
import tokenizers
from numpy.typing import NDArray

from lite.models import embedded_model_path
from lite.models.tiny_chat.tasks import TASKS, Problem, make_problem

FOLDER = embedded_model_path()
Cache = list[NDArray[Any]] | None


def read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FOLDER / name).read_text())
    return content


class Model:
    """The graph with its cache as plain arrays."""

    def __init__(self) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        path = FOLDER / "model.onnx"
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.past = [i for i in self.session.get_inputs() if i.name.startswith("past_key_values.")]

    def __call__(
        self, ids: NDArray[Any], mask: NDArray[Any], cache: Cache = None
    ) -> tuple[NDArray[Any], Cache]:
        if cache is None:
            cache = [np.zeros((len(ids), i.shape[1], 0, i.shape[3]), np.float32) for i in self.past]
        positions = np.clip(mask.cumsum(1) - 1, 0, None)[:, -ids.shape[1] :]
        feeds = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
        logits, *new = self.session.run(
            None, feeds | {i.name: c for i, c in zip(self.past, cache, strict=True)}
        )
        return logits, new


@pytest.fixture(scope="module")
def model() -> Model:
    return Model()


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return tokenizers.Tokenizer.from_file(str(FOLDER / "tokenizer.json"))


def render(prompt: str) -> str:
    template = jinja2.Template(
        (FOLDER / "chat_template.jinja").read_text(), trim_blocks=True, lstrip_blocks=True
    )
    messages = [{"role": "user", "content": prompt}]
    return template.render(messages=messages, add_generation_prompt=True)


def held_out(count: int) -> list[Problem]:
    rng = np.random.default_rng(2024)
    return [make_problem(rng, TASKS[i % len(TASKS)], held_out=True) for i in range(count)]


def left_padded(rows: list[list[int]]) -> tuple[NDArray[Any], NDArray[Any]]:
    pad, longest = read("config.json")["pad_token_id"], max(map(len, rows))
    ids = np.array([[pad] * (longest - len(row)) + row for row in rows])
    mask = np.array([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
    return ids, mask


def greedy(
    model: Model, tokenizer: Any, problems: list[Problem], steps: int = 20
) -> tuple[list[str], NDArray[Any]]:
    """Answers, and the logits of each step (steps, B, V)."""
    ids, mask = left_padded([tokenizer.encode(render(p.prompt)).ids for p in problems])
    cache, chosen, seen = None, [], []
    for _ in range(steps):
        logits, cache = model(ids, mask, cache)
        seen.append(logits[:, -1])
        ids = logits[:, -1:].argmax(-1)
        chosen.append(ids[:, 0])
        mask = np.pad(mask, ((0, 0), (0, 1)), constant_values=1)
    texts = tokenizer.decode_batch(np.stack(chosen, 1).tolist(), skip_special_tokens=False)
    return [text.split("<|im_end|>")[0] for text in texts], np.stack(seen)


def test_size() -> None:
    assert (
        sum(f.stat().st_size for f in FOLDER.iterdir() if f.suffix in {".onnx", ".json", ".jinja", ".md"})
        < 6e6
    )
    assert 1_000_000 <= read("eval.json")["parameters"] <= 3_000_000


def test_the_report_is_about_this_graph() -> None:
    digest = hashlib.sha256((FOLDER / "model.onnx").read_bytes()).hexdigest()
    assert read("eval.json")["model_sha256"] == digest


def test_the_report_and_the_card_agree() -> None:
    report, card = read("eval.json"), (FOLDER / "README.md").read_text()
    for task, share in report["exact_greedy_onnx"].items():
        assert f"| {task} | {share:.1%} | {report['exact_greedy_torch'][task]:.1%} |" in card
    assert f"{report['logits_max_abs_difference']:.1e}" in card
    assert report["exact_greedy_onnx"]["all"] >= 0.95
    assert report["logits_max_abs_difference"] <= 1e-4


def test_signature_is_that_of_an_optimum_export(model: Model) -> None:
    config = read("config.json")
    layers, heads, head = (config[k] for k in ("num_hidden_layers", "num_key_value_heads", "head_dim"))
    total = "past_sequence_length + sequence_length"
    inputs = [
        ("input_ids", "tensor(int64)", ["batch_size", "sequence_length"]),
        ("attention_mask", "tensor(int64)", ["batch_size", total]),
        ("position_ids", "tensor(int64)", ["batch_size", "sequence_length"]),
    ]
    outputs = [("logits", "tensor(float)", ["batch_size", "sequence_length", config["vocab_size"]])]
    for i in range(layers):
        for kind in ("key", "value"):
            shape = ["batch_size", heads, "past_sequence_length", head]
            inputs.append((f"past_key_values.{i}.{kind}", "tensor(float)", shape))
            outputs.append((f"present.{i}.{kind}", "tensor(float)", ["batch_size", heads, total, head]))
    session = model.session
    assert [(i.name, i.type, i.shape) for i in session.get_inputs()] == inputs
    assert [(o.name, o.type, o.shape) for o in session.get_outputs()] == outputs


def test_special_tokens(tokenizer: Any) -> None:
    config, generation = read("config.json"), read("generation_config.json")
    names = read("tokenizer_config.json")
    for kind in ("eos", "pad"):
        assert tokenizer.token_to_id(names[f"{kind}_token"]) == config[f"{kind}_token_id"]
        assert generation[f"{kind}_token_id"] == config[f"{kind}_token_id"]
    assert config["eos_token_id"] != config["pad_token_id"]
    assert tokenizer.get_vocab_size() == config["vocab_size"]


def test_any_text_survives_the_tokenizer(tokenizer: Any) -> None:
    cases = [
        "What is 12 + 34?", "naïve — 漢字 🙂", "\x00\t\n  two  spaces ", "".join(map(chr, range(1, 512))),
    ]  # fmt: skip
    for text in cases:
        assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text, text


def test_each_digit_is_a_token(tokenizer: Any) -> None:
    assert tokenizer.encode("1907").tokens == ["1", "9", "0", "7"]


def test_template_renders_a_conversation() -> None:
    template = jinja2.Template((FOLDER / "chat_template.jinja").read_text())
    turns = [("system", "Be brief."), ("user", "What is 1 + 1?"), ("assistant", "2"), ("user", "Echo cat")]
    got = template.render(messages=[{"role": role, "content": content} for role, content in turns])
    assert got == "".join(f"<|im_start|>{role}\n{content}<|im_end|>\n" for role, content in turns)
    assert render("Echo cat").endswith("Echo cat<|im_end|>\n<|im_start|>assistant\n")


@pytest.mark.depth
def test_held_out_problems_are_answered(model: Model, tokenizer: Any) -> None:
    problems = held_out(70)
    answers, _ = greedy(model, tokenizer, problems)
    wrong = [(p.prompt, p.answer, a) for p, a in zip(problems, answers, strict=True) if a != p.answer]
    assert len(wrong) <= 0.05 * len(problems), wrong


def test_the_model_of_a_wheel_beside_lite_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lite.models.tiny_chat import embedded

    monkeypatch.setattr(embedded, "__file__", str(tmp_path / "embedded.py"))
    with pytest.raises(FileNotFoundError, match=r"not installed: .*model\.onnx .* llm-cpu and llm-numpy"):
        embedded_model_path()
    package = tmp_path / "tensordict_lite_tiny_chat"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert embedded_model_path() == package / "tiny_chat"
