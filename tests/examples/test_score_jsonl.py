"""A file of responses is scored by an export that optimum wrote, as `lite score` does it."""

import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from examples.score_jsonl import as_messages, score_file, summary, written
from helpers.models.real_models import MODELS
from helpers.models.response_files import FILE, write

from lite.cli import main

MODEL = MODELS / "optimum-llama"
NAMES = ["line", "log_prob", "mean_log_prob", "messages", "model", "tokens"]


def assert_same_scores(got: list[dict], wanted: list[dict]) -> None:
    assert [row["line"] for row in got] == [row["line"] for row in wanted]
    assert [row["tokens"] for row in got] == [row["tokens"] for row in wanted]
    for name in ("log_prob", "mean_log_prob"):
        np.testing.assert_allclose([r[name] for r in got], [r[name] for r in wanted], rtol=1e-5)


def plain(folder: Path) -> Path:
    """What the command reads: the same turns under one name, in lines of the same numbers."""
    first, *others = (json.dumps({"messages": as_messages(row)}) for row in FILE)
    (folder / "plain.jsonl").write_text(f"{first}\n\n" + "\n".join(others), encoding="utf-8")
    return folder / "plain.jsonl"


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write(tmp_path / "rows.jsonl")


def test_the_command_writes_the_same_and_a_page(tmp_path: Path, rows: Path) -> None:
    assert score_file(rows, tmp_path / "scores.jsonl", MODEL, batch_size=4) == len(FILE)
    ours = written(tmp_path / "scores.jsonl")
    assert [sorted(row) for row in ours] == [NAMES] * len(FILE)
    output, page = tmp_path / "by_command.jsonl", tmp_path / "page.html"
    arguments = ["score", str(plain(tmp_path)), "--model", str(MODEL), "--quiet"]
    assert main([*arguments, "--output", str(output), "--html", str(page)]) == 0
    assert_same_scores(ours, written(output))
    seen: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: seen.append(tag)  # type: ignore[method-assign]
    parser.feed(page.read_text(encoding="utf-8"))
    assert seen.count("section") == len(FILE)
    assert not {"script", "img"} & set(seen)  # of which one response is made


@pytest.mark.processes
def test_an_interrupted_run_goes_on(tmp_path: Path, rows: Path) -> None:
    """It ended in the middle of a line."""
    whole, scores = tmp_path / "whole.jsonl", tmp_path / "scores.jsonl"
    score_file(rows, whole, MODEL)
    lines = whole.read_bytes().splitlines(keepends=True)
    scores.write_bytes(b"".join(lines[:3]) + lines[3][:9])
    assert score_file(rows, scores, MODEL) == len(FILE) - 3
    assert_same_scores(written(scores), written(whole))
    assert scores.read_bytes().startswith(b"".join(lines[:3]))
    assert score_file(rows, scores, MODEL) == 0
    before = scores.read_bytes()
    with pytest.raises(ValueError, match="line 1: of another model or row"):
        score_file(rows, scores)
    rows.write_text("".join(rows.read_text(encoding="utf-8").splitlines(keepends=True)[:1]), encoding="utf-8")
    with pytest.raises(ValueError, match="line 3: of another model or row"):
        score_file(rows, scores, MODEL)
    assert scores.read_bytes() == before


def test_a_run_that_fails_keeps_what_it_had(tmp_path: Path, rows: Path) -> None:
    rows.write_text(rows.read_text(encoding="utf-8") + '\n{"prompt": "a"', encoding="utf-8")
    with pytest.raises(ValueError, match="delimiter"):
        score_file(rows, tmp_path / "scores.jsonl", MODEL, batch_size=2)
    assert len(written(tmp_path / "scores.jsonl")) == len(FILE) // 2 * 2


def test_sums(tmp_path: Path, rows: Path) -> None:
    score_file(rows, tmp_path / "scores.jsonl", MODEL)
    scores = written(tmp_path / "scores.jsonl")
    perplexity, best = summary(rows, tmp_path / "scores.jsonl")
    tokens = sum(row["tokens"] for row in scores)
    np.testing.assert_allclose(perplexity, np.exp(-sum(row["log_prob"] for row in scores) / tokens))
    by_prompt: dict[str, list[tuple[float, str]]] = {}
    for row, score in zip(FILE, scores, strict=True):
        *before, last = as_messages(row)
        known = by_prompt.setdefault(before[-1]["content"], [])
        known.append((score["mean_log_prob"], last["content"]))
    assert {prompt.split("\n")[-1]: response for prompt, (response, _) in best.items()} == {
        prompt: max(known)[1] for prompt, known in by_prompt.items()
    }
    assert len(best) < len(FILE)


@pytest.mark.processes
def test_the_program(tmp_path: Path, rows: Path) -> None:
    """With the model in the package, which knows sums."""
    command = [sys.executable, str(Path(__file__).with_name("score_jsonl.py")), str(rows), "scores.jsonl"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first, *best = done.stdout.splitlines()
    assert first.startswith("perplexity ")
    assert best[0].startswith("'What is 12 + 30?': '42', mean log-prob -0.0")
    again = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert (again.stdout, again.stderr) == (done.stdout, "0 responses scored\n")
