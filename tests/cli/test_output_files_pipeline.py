"""What one command writes, the next one reads: generation, scores and `lite mismatch` as processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.models.real_models import MODELS

pytestmark = pytest.mark.processes

pytest.importorskip("onnxruntime", reason="needs the llm extra: pip install -e '.[llm]'")
MODEL = MODELS / "optimum-llama"
CHAT = [
    {"role": "system", "content": "Kürze, bitte."},
    {"role": "user", "content": "a\u2028b"},
    {"role": "assistant", "content": ""},
    {"role": "user", "content": "日本 😀"},
]
PROMPTS = [
    {"id": "first", "prompt": 'what is "x"?\n', "answer": 3},
    {"id": 7, "messages": CHAT},
    {"prompt": "é 😀"},
    {"messages": CHAT[:2], "response": "of another model"},
    *({"id": i, "prompt": f"text {i}"} for i in range(20)),
]


def lite(folder: Path, *arguments: str) -> list[str]:
    """What a command prints. It has nothing to say besides but how fast it was."""
    command = [sys.executable, "-m", "lite", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stderr.splitlines() if "tokens/s" not in line and "compiling" not in line]
    assert not [line for line in told if not line.startswith("lite mismatch: comparing")], told
    return done.stdout.splitlines()


def killed(folder: Path, output: str, lines: int, *arguments: str) -> int:
    """Kill a command when it has written so many lines; returns how many there are."""
    command = [sys.executable, "-m", "lite", *arguments, "--output", output]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL)
    try:
        limit = time.monotonic() + 60
        while not (folder / output).exists() or (folder / output).read_bytes().count(b"\n") < lines:
            assert process.poll() is None, "it ended before it was killed"
            assert time.monotonic() < limit
    finally:
        process.kill()
        process.wait()
    return (folder / output).read_bytes().count(b"\n")


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills processes as Unix does")
def test_rows_go_from_command_to_command(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text("\n\n".join(map(json.dumps, PROMPTS)))
    generate = [
        "generate",
        "--model",
        str(MODEL),
        "--file",
        "p.jsonl",
        "--samples",
        "2",
        "--temperature",
        "1",
    ]
    generate += ["--system", "Be brief.", "--max-new-tokens", "40", "--batch-size", "1"]
    score = ["score", "--model", str(MODEL), "r.jsonl", "--batch-size", "2"]
    assert killed(tmp_path, "r.jsonl", 5, *generate) < 2 * len(PROMPTS)
    lite(tmp_path, *generate, "--output", "r.jsonl")
    lite(tmp_path, *generate, "--output", "whole.jsonl")
    assert (tmp_path / "r.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    written = rows(tmp_path, "r.jsonl")
    given = [prompt for prompt in PROMPTS for _ in range(2)]
    for i, (row, prompt) in enumerate(zip(written, given, strict=True)):
        assert (row["line"], row["sample"], row.get("id")) == (i // 2 + 1, i % 2, prompt.get("id"))
        assert all(row.get(name) == prompt.get(name) for name in ("prompt", "messages"))
        assert len(row["response_ids"]) == len(row["logprobs"]) == row["tokens"]

    assert killed(tmp_path, "s.jsonl", 3, *score) < len(written)
    printed = lite(tmp_path, *score, "--output", "s.jsonl", "--json")
    scored = rows(tmp_path, "s.jsonl")
    assert {**scored[0].pop("run"), "model": 0} == {
        "command": "score",
        "model": 0,
        "adapter": None,
        "raw": False,
    }
    assert [json.loads(line) for line in printed] == scored
    for i, (row, before) in enumerate(zip(scored, written, strict=True), 1):
        assert row["line"] == i
        for name in (
            "id",
            "sample",
            "prompt",
            "messages",
            "response",
            "prompt_ids",
            "response_ids",
            "tokens",
        ):
            assert row.get(name) == before.get(name), name
        np.testing.assert_allclose(row["logprobs"], before["logprobs"], atol=1e-4)
        np.testing.assert_allclose(row["log_prob"], before["log_prob"], atol=1e-3)

    for file in ("r.jsonl", "s.jsonl"):
        for more in ([file], [str(MODEL), "--data", file]):
            found = json.loads(lite(tmp_path, "mismatch", str(MODEL), *more, "--json")[0])
            assert (found["rows"], found["cause"]) == (len(written), None)
            assert found["max_abs"] < 1e-4
    again = [*generate[:3], "--file", "s.jsonl", "--max-new-tokens", "2", "--output", "again.jsonl"]
    lite(tmp_path, *again)
    assert [row.get("prompt") for row in rows(tmp_path, "again.jsonl")] == [
        row.get("prompt") for row in scored
    ]
