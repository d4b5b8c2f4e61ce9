"""The `lite` command, run in process on real exports and on the embedded model."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs the llm extra: pip install 'tensordict-lite[llm]'")

from lite.cli import main
from lite.models import GenerationConfig, OnnxDecoder, Tokenizer, generate, score

MODEL = Path(__file__).parents[1] / "onnx" / "models" / "optimum-llama"


def _json(capsys: pytest.CaptureFixture[str]) -> dict:
    return json.loads(capsys.readouterr().out)


def test_generate_is_the_greedy_continuation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--model", str(MODEL), "--raw", "hello", "--max-new-tokens", "6", "--json"]) == 0
    out = _json(capsys)
    decoder, tokenizer = OnnxDecoder(MODEL), Tokenizer.from_pretrained(MODEL)
    config = GenerationConfig.from_kwargs({"max_new_tokens": 6, "temperature": 0}, decoder.config)
    (expected,) = generate(decoder, [tokenizer.encode("hello")], config)
    assert out["responses"][0]["text"] == tokenizer.decode(expected.tokens, skip_special_tokens=True)
    assert out["tokens"] == len(expected.tokens)
    np.testing.assert_allclose(out["responses"][0]["log_prob"], expected.log_probs.sum(), rtol=1e-5)
    assert out["tokens_per_second"] > 0


def test_generate_prints_text_count_and_speed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--model", str(MODEL), "hello", "--max-new-tokens", "3"]) == 0
    assert "3 tokens in " in capsys.readouterr().out


def test_samples_follow_the_seed(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["generate", "--model", str(MODEL), "hi", "--temperature", "1", "--samples", "3", "--json"]
    texts = []
    for seed in ("1", "1", "2"):
        assert main([*command, "--max-new-tokens", "5", "--seed", seed]) == 0
        texts.append([r["text"] for r in _json(capsys)["responses"]])
    assert texts[0] == texts[1]
    assert texts[0] != texts[2]
    assert len(set(texts[0])) > 1


def test_score_gives_the_log_prob_of_the_response(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text(json.dumps({"prompt": "hello", "response": " world"}) + "\n\n")
    assert main(["score", "--model", str(MODEL), "--raw", "--json", str(file)]) == 0
    out = _json(capsys)
    tokenizer = Tokenizer.from_pretrained(MODEL)
    prompt, response = tokenizer.encode("hello"), tokenizer.encode(" world", add_special_tokens=False)
    (log_probs,) = score(OnnxDecoder(MODEL), [np.array(prompt + response)])
    assert out["tokens"] == len(response)
    np.testing.assert_allclose(out["log_prob"], log_probs[len(prompt) :].sum(), rtol=1e-5)


def test_score_of_a_chat_is_that_of_its_last_turn(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    turns = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    file.write_text(
        json.dumps({"messages": turns}) + "\n" + json.dumps({"prompt": "hi", "response": "ho"}) + "\n"
    )
    assert main(["score", "--model", str(MODEL), "--json", str(file)]) == 0
    chat, pair = map(json.loads, capsys.readouterr().out.splitlines())
    np.testing.assert_allclose(chat["log_prob"], pair["log_prob"], rtol=1e-5)


def test_score_resumes_after_a_cut_off_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    rows = [{"prompt": "a", "response": word} for word in ("one", "two", "three")]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ["score", "--model", str(MODEL), str(file), "--output", str(output)]
    assert main(command) == 0
    whole = output.read_text()
    output.write_text(whole[: whole.index("\n") + 8])
    assert main(command) == 0
    resumed = [json.loads(line) for line in output.read_text().splitlines()]
    assert [r["line"] for r in resumed] == [1, 2, 3]
    for got, expected in zip(resumed, map(json.loads, whole.splitlines()), strict=True):
        np.testing.assert_allclose(got["log_prob"], expected["log_prob"], rtol=1e-5)


@pytest.mark.parametrize(
    ("line", "message"),
    [("{", "line 1: not JSON"), ('{"prompt": 3}', "line 1: expected an object"), ("[1]", "line 1: expected")],
)
def test_score_names_the_bad_line(
    line: str, message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text(line + "\n")
    assert main(["score", "--model", str(MODEL), str(file)]) == 1
    assert message in capsys.readouterr().err


def test_info_names_the_convention(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--model", str(MODEL), "--json"]) == 0
    out = _json(capsys)
    assert out["graph"]["family"] == "optimum"
    assert out["config"]["context_length"] == 256
    assert out["tokenizer"] == {"eos_token_id": 2, "pad_token_id": 3, "chat_template": True}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["generate", "--model", "/does/not/exist", "x"], "FileNotFoundError"),
        (["generate", "--model", str(MODEL), "x", "--device", "cuda:99"], "cuda"),
        (["generate", "--model", str(MODEL), "x", "--device", "tpu"], "tpu"),
        (["generate", "--model", str(MODEL), "word " * 400], "context of 256"),
        (["generate", "--model", str(MODEL)], "a prompt is needed"),
        (["generate", "--model", str(MODEL), "x", "--top-p", "7"], "top_p must be between 0 and 1"),
        (["score", "--model", str(MODEL), "/does/not/exist"], "FileNotFoundError"),
    ],
)
def test_errors_are_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 1
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err


def test_demo_computes_returns_from_rewards(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--json", "--prompts", "7", "--samples", "2", "--gamma", "0.9"]) == 0
    out = _json(capsys)
    assert len(out["samples"]) == 14
    assert {s["task"] for s in out["samples"]} == {
        "addition", "subtraction", "comparison", "sorting", "counting", "reversing", "copying",
    }  # fmt: skip
    for sample in out["samples"]:
        assert sample["reward"] == (1.0 if sample["response"] == sample["answer"] else sample["reward"])
        expected = sample["reward"] * 0.9 ** np.arange(sample["tokens"])[::-1]
        np.testing.assert_allclose(sample["returns"], expected, rtol=1e-5)
    # The model answers 95% of held-out problems greedily; sampling must not be far from that.
    assert np.mean([s["reward"] for s in out["samples"]]) > 0.5


def test_demo_prints_a_table_and_the_tensordict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--prompts", "2", "--samples", "2", "--seed", "3"]) == 0
    out = capsys.readouterr().out
    for text in ("prompt", "log-prob", "reward", "return", "TensorDict(", "tokens/s", "embedded with"):
        assert text in out


def test_demo_repeats_with_its_seed(capsys: pytest.CaptureFixture[str]) -> None:
    samples = []
    for _ in range(2):
        assert main(["demo", "--json", "--prompts", "2", "--samples", "2", "--seed", "5"]) == 0
        samples.append(_json(capsys)["samples"])
    assert samples[0] == samples[1]


def test_the_module_runs_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lite", "--help"], capture_output=True, text=True, check=True
    )
    for command in ("demo", "generate", "score", "info", "warmup"):
        assert command in done.stdout


def test_wrong_arguments_exit_with_two() -> None:
    with pytest.raises(SystemExit) as error:
        main(["demo", "--samples", "0"])
    assert error.value.code == 2


def _score(*args: str) -> int:
    return main(["score", "--model", str(MODEL), "--raw", *args])


def test_score_does_not_write_into_its_input(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file, link = tmp_path / "in.jsonl", tmp_path / "link.jsonl"
    text = '{"prompt": "a", "response": "b"}\n{"prompt": "c", "response": "d"}'  # no newline at the end
    file.write_text(text)
    link.symlink_to(file)
    for output in (file, link):
        assert _score("--output", str(output), str(file)) == 1
        assert "is the file to be scored" in capsys.readouterr().err
    assert file.read_text() == text


@pytest.mark.parametrize("content", ["notes\n", "notes", '{"line": 1}\nnotes\n'])
def test_score_resumes_its_own_output_only(
    content: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    file.write_text('{"prompt": "a", "response": "b"}\n')
    output.write_text(content)
    assert _score("--output", str(output), str(file)) == 1
    assert "give another file" in capsys.readouterr().err
    assert output.read_text() == content


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"prompt": "", "response": "b"}', "line 1: the prompt has no token"),
        ('{"prompt": "a", "response": ""}', "line 1: the response has no token"),
        ("[" * 100_000, "line 1: not JSON"),
        ('{"prompt": "\\ud800", "response": "b"}', "text must be valid Unicode"),
        ('{"prompt": 1, "response": "b"}', "line 1: expected an object"),
        ('{"messages": []}', "line 1: expected an object"),
    ],
)
def test_score_says_which_line_is_wrong(
    line: str, message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text(line + "\n")
    assert _score(str(file)) == 1
    err = capsys.readouterr().err
    assert message in err
    assert len(err.splitlines()) == 1


def test_score_takes_what_it_needs_from_a_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text('\ufeff{"prompt": "a", "response": "b", "line": "x", "messages": []}\n', encoding="utf-8")
    assert _score("--json", str(file)) == 0
    assert _json(capsys)["line"] == 1


def test_a_negative_seed_is_a_wrong_argument(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["generate", "--model", str(MODEL), "--seed", "-1", "a"])
    assert "must be at least 0, got -1" in capsys.readouterr().err
