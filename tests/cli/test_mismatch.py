"""`lite mismatch` on real exports and on files of other tools."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.commands import Run
from helpers.models.real_models import MODELS, folder_of_two

from lite.cli import main
from lite.models import OnnxDecoder, full_logits, read_log_probs

A, SAME = str(MODELS / "optimum-llama"), str(MODELS / "genai-llama-fp32")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What TRL would write at temperature 0.6, of random tokens."""
    rng, lines = np.random.default_rng(0), []
    rows = [rng.integers(5, 500, 40) for _ in range(8)]
    for ids, logits in zip(rows, full_logits(OnnxDecoder(A), rows), strict=True):
        z = logits[4:].astype(np.float64) / 0.6
        z -= np.log(np.exp(z).sum(1, keepdims=True))
        own = z[np.arange(36), ids[4:]]
        line = {"prompt_ids": ids[:4].tolist(), "completion_ids": ids[4:].tolist(), "logprobs": own.tolist()}
        lines.append(json.dumps(line))
    file = tmp_path_factory.mktemp("logs") / "trl.jsonl"
    file.write_text("\n".join(lines))
    return str(file)


def out(run: Run, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = run(["mismatch", *arguments, "--json"]).json
    return found


def test_two_exports_of_one_model_agree(run: Run) -> None:
    found = out(run, A, SAME, "--samples", "2", "--max-new-tokens", "9")
    assert (found["a"], found["b"], found["cause"]) == (A, SAME, None)
    assert found["rows"] == 12
    assert 60 < found["tokens"] <= 12 * 9
    assert found["max_abs"] < 1e-4
    assert found["outside"] == 0


def test_what_takes_long_is_told_on_standard_error(run: Run) -> None:
    few = ("--samples", "1", "--max-new-tokens", "2")
    told = run(["mismatch", A, SAME, *few]).err.splitlines()
    assert told[0] == "lite mismatch: B responds to 6 prompts, 1 times each"
    assert told[-1].startswith("lite mismatch: comparing 12 tokens of 6 responses")
    assert run(["mismatch", A, SAME, *few, "--quiet"]).err == ""


@pytest.mark.depth
def test_the_cause_is_named(log: str, run: Run) -> None:
    found = out(run, A, log)
    assert found["cause"]["parameters"] == {"temperature": 0.6}
    text = run(["mismatch", A, log]).out
    assert "cause: temperature: B's log-probs are those of A under temperature 0.6 (100.0%" in text
    assert "compared       288 tokens of 8 responses" in text
    assert "0.99 to 1.01 " in text
    assert f"k1 {found['k1']:.3g}, k3 {found['k3']:.3g}" in text


def test_two_exports_on_given_tokens_and_texts(log: str, run: Run, tmp_path: Path) -> None:
    found = out(run, A, SAME, "--data", log)
    assert (found["rows"], found["tokens"], found["cause"]) == (8, 288, None)
    file = tmp_path / "texts.jsonl"
    turns = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    rows = [{"messages": turns}, {"prompt": "a", "response": "b c"}, {"text": "b c"}]
    for first in rows:
        file.write_text("\n".join(map(json.dumps, [first, *rows])))
        found = out(run, A, SAME, "--data", str(file))
        assert (found["rows"], found["cause"]) == (4, None), first


def test_prompts_that_b_responds_to(run: Run, tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "hi"}]
    for rows in ([{"prompt": "a", "tags": ["x"]}, {"messages": turns}], [{"prompt": turns}, {"prompt": "a"}]):
        file = tmp_path / "prompts.jsonl"
        file.write_text("\n".join(map(json.dumps, rows)))
        few = ("--samples", "3", "--max-new-tokens", "2", "--data", str(file))
        told = run(["mismatch", A, SAME, *few])
        assert "B responds to 2 prompts, 3 times each" in told.err
        assert "of 6 responses" in told.out
    for second, message in (
        ({"prompt": "a " * 1000}, "prompt 2: ids: a prompt of"),
        ({"prompt": ""}, f"ValueError: {file}, line 2: the prompt is empty"),
    ):
        file.write_text("\n".join(map(json.dumps, [{"prompt": "a"}, second])))
        assert message in run(["mismatch", A, SAME, "--data", str(file)], 1).err
    assert "give a file" in run(["mismatch", A, SAME, "--data", os.devnull], 1).err
    file.write_text(json.dumps({"prompt": "a", "prompt_token_ids": [5], "choices": []}))
    assert "'choices' must be" in run(["mismatch", A, SAME, "--data", str(file)], 1).err  # vLLM's


def test_a_page_is_written(log: str, run: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    assert main(["mismatch", A, log, "--html", str(file)]) == 0
    assert "temperature: B&#x27;s log-probs are those of A" in file.read_text()
    capsys.readouterr()
    assert "is another file of this command" in run(["mismatch", A, log, "--html", log], 1).err
    assert len(read_log_probs(log)) == 8


def test_a_broken_file_is_one_line_of_error(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    for line, message in (
        ('{"prompt_ids": [1], "response_ids": [2], "logprobs": [-1', "line 1: not JSON"),
        ('{"prompt_ids": [1], "response_ids": [999], "logprobs": [-1]}', "ids must be between 0 and 511"),
    ):
        file.write_text(line)
        (said,) = run(["mismatch", A, str(file), "--quiet"], 1).err.splitlines()
        assert message in said


def test_two_files(log: str, run: Run, tmp_path: Path) -> None:
    found = out(run, log, log)
    assert (found["a"], found["b"], found["tokens"], found["cause"]) == (log, log, 288, None)
    file = tmp_path / "vllm.jsonl"
    lines = [json.loads(line) for line in Path(log).read_text(encoding="utf-8").splitlines()]
    for line in lines[:2]:
        line["logprobs"][9] -= 3.0
    file.write_text("\n".join(map(json.dumps, reversed(lines))))
    found = out(run, log, str(file))
    assert found["rows_that_diverge"] == 2
    assert found["cause"]["name"] == "unexplained"
    np.testing.assert_allclose(found["max_abs"], 3)
    file.write_text(json.dumps(lines[0]))
    assert "line 2 of a: no row of b has the same tokens" in run(["mismatch", log, str(file)], 1).err


@pytest.mark.grid
def test_variants_and_adapters_of_either_side(log: str, run: Run, tmp_path: Path) -> None:
    folder = str(folder_of_two(tmp_path))
    adapter = str(MODELS / "handmade-lora" / "casual.onnx_adapter")
    drawn = ("--samples", "1", "--max-new-tokens", "5")
    assert out(run, folder, folder, *drawn)["max_abs"] == 0
    for flags in (["--variant", "int4"], ["--variant-b", "int4"], ["--adapter", adapter]):
        assert out(run, folder, folder, *drawn, *flags)["max_abs"] > 1e-3
    both = ["--adapter", adapter, "--adapter-b", adapter]
    assert out(run, folder, folder, *drawn, *both)["max_abs"] == 0
    for arguments, message in (
        ([folder, log, "--variant-b", "int4"], f"--variant-b is for a model, and B is the file {log}"),
        ([log, log, "--adapter", adapter], f"--adapter is for a model, and A is the file {log}"),
    ):
        assert message in run(["mismatch", *arguments], 1).err


def test_sides_in_the_wrong_place(log: str, run: Run) -> None:
    for status, arguments, message in (
        (2, [log, A], "A must be the folder of a model"),
        (2, [A, log, "--data", log], "--data is for two models"),
        (1, [A, "/does/not/exist"], "FileNotFoundError"),
        (1, [A, log, "--divergence", "0"], "divergence must be above 0"),
        (1, [A, log, "--bos-token-id", "512"], "bos_token_id: ids must be between 0 and 511"),
        (1, [A, log, "--html", "/no/where/x.html"], "--html /no/where/x.html: there is no folder /no/where"),
    ):
        assert message in run(["mismatch", *arguments], status).err
