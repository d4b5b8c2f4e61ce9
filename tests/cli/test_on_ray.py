"""`--ray`: the commands on a cluster give what they give here."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import ray_jobs
from helpers.commands import Run
from helpers.models.real_models import MODELS

from lite.cli import main

MODEL = str(MODELS / "optimum-llama")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    turns = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    rows: list[Any] = [{"prompt": f"text {i}", "response": f"answer {i % 3}"} for i in range(11)]
    rows[4:4] = [{"messages": turns}]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return path


def test_without_ray_the_command_is_named(monkeypatch: pytest.MonkeyPatch, run: Run, file: Path) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert 'pip install -e ".[ray]"' in run(["score", "--model", MODEL, str(file), "--ray"], 1).err


def test_chats_and_streams_are_not_spread(capsys: pytest.CaptureFixture[str]) -> None:
    for flag in ("--chat", "--stream"):
        assert (
            main(["generate", "--model", MODEL, *(["x"] if flag == "--stream" else []), flag, "--ray"]) == 2
        )
        assert "--ray" in capsys.readouterr().err


@pytest.mark.processes
def test_the_commands_give_what_they_give_here(file: Path, tmp_path: Path, run: Run) -> None:
    ray_jobs.need_ray()
    bad = tmp_path / "bad.jsonl"
    bad.write_text(json.dumps({"prompt": "a", "response": ""}) + "\n")
    output = tmp_path / "out.jsonl"
    (tmp_path / "first.jsonl").write_text(file.read_text(encoding="utf-8").splitlines()[0])
    assert main(["score", "--model", MODEL, str(tmp_path / "first.jsonl"), "--output", str(output)]) == 0
    output.write_text(output.read_text() + '{"line": 2')
    responses = tmp_path / "responses.jsonl"
    options = ["--max-new-tokens", "5", "--samples", "2", "--temperature", "1.0", "--entropy", "--json"]
    commands = [
        ["score", "--model", MODEL, str(file), "--json", "--batch-size", "2"],
        ["generate", "--model", MODEL, "--file", str(file), "--batch-size", "2", *options],
        ["score", "--model", MODEL, str(file), "--output", str(output), "--batch-size", "3"],
        ["score", "--model", MODEL, str(bad), "--raw"],
        ["score", "--model", str(tmp_path / "none"), str(bad)],
        ["generate", "--model", MODEL, "--file", str(file), *options[:-1], "--output", str(responses)],
    ]
    assert main(commands[-1]) == 0
    whole = responses.read_text()
    responses.write_text(whole[: whole.index('{"line": 3') + 30])  # in the first line of the third prompt
    script = (
        ray_jobs.start(cpus=2)
        + """
import contextlib, io, json
from lite.cli import main
out = []
for command in json.loads(sys.argv[2]):
    told, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(errors):
        status = main([*command, "--ray"])
    out.append([status, told.getvalue(), errors.getvalue()])
options = ray.data.DataContext.get_current().execution_options
print(json.dumps([out, ray.is_initialized(), options.preserve_order]))
ray.shutdown()
"""
    )
    found, still_connected, preserve_order = ray_jobs.run(script, json.dumps(commands))
    assert (still_connected, preserve_order) == (True, False)
    scored, generated, appended, failed, missing, went_on = found
    here = run(commands[0]).rows
    assert scored[0] == 0, scored
    for ours, theirs in zip(map(json.loads, scored[1].splitlines()), here, strict=True):
        assert set(ours) == set(theirs)
        for name in ("line", "prompt", "messages", "response", "prompt_ids", "response_ids", "tokens"):
            assert ours.get(name) == theirs.get(name), name
        np.testing.assert_allclose(ours["logprobs"], theirs["logprobs"], atol=1e-4)
    assert generated[0] == 0, generated
    texts = run(commands[1]).json["responses"]
    for ours, theirs in zip(json.loads(generated[1])["responses"], texts, strict=True):
        assert set(ours) == set(theirs)
        for name, value in theirs.items():
            if isinstance(value, (str, int)) or name.endswith("_ids"):
                assert ours[name] == value, name
            elif name != "messages":
                np.testing.assert_allclose(ours[name], value, atol=1e-4)
    assert appended[0] == 0, appended
    assert [json.loads(line)["line"] for line in output.read_text().splitlines()] == list(range(1, 13))
    assert went_on[0] == 0, went_on
    for ours, theirs in zip(responses.read_text().splitlines(), whole.splitlines(), strict=True):
        rounded = dict.fromkeys(("log_prob", "logprobs", "entropy"))
        assert json.loads(ours) | rounded == json.loads(theirs) | rounded
    assert failed[0] == 1
    assert failed[2].strip() == "lite score: ValueError: line 1: the response has no token to score"
    assert missing[0] == 1
    assert missing[2].startswith("lite score: FileNotFoundError: ")
