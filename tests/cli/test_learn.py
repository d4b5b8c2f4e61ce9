"""`lite learn`: a model that learns, goes on, and is told apart."""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from helpers.commands import Run
from helpers.lessons import SMALL, TIMES

from lite.cli import main
from lite.cli.learn import _line
from lite.data.replay.ring_file import WriterLock


def steps(output: Path) -> list[dict[str, Any]]:
    """What was told of each step, but for times."""
    lines = (output / "steps.jsonl").read_text(encoding="utf-8").splitlines()
    return [{name: v for name, v in json.loads(line).items() if name not in TIMES} for line in lines]


def test_a_run_that_goes_on_is_the_run_that_was_not_interrupted(rows, tmp_path, run, monkeypatch):
    """Another run, or one beside another, leaves the folder as it is."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    learn = ["learn", str(rows), *SMALL, "--full", "--method", "sft"]
    run([*learn, "--output", str(whole), "--steps", "2"])
    assert run([*learn, "--output", str(parts), "--steps", "1"]).out.startswith(
        "step 0: before learning\nstep 1: loss "
    )
    other, before = WriterLock(str(parts)), (parts / "steps.jsonl").read_bytes()
    assert "another `lite learn` writes there now" in run([*learn, "--output", str(parts)], 1).err
    other.close()
    with monkeypatch.context() as patch:
        patch.setattr("lite.models.OnnxDecoder.__init__", lambda *args, **options: pytest.fail("opened"))
        again = [*learn, "--output", str(parts), "--steps", "1"]
        assert "seed was 0 and is 1" in run([*again, "--seed", "1"], 1).err
        assert run([*again, "--html", str(tmp_path / "page.html")]).out == ""  # done
    assert "</html>" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert (parts / "steps.jsonl").read_bytes() == before
    run([*learn, "--output", str(parts), "--steps", "2"])
    assert [one["step"] for one in steps(whole)] == [0, 1, 2]
    assert steps(parts) == steps(whole)
    assert (parts / "model/model.onnx").read_bytes() == (whole / "model/model.onnx").read_bytes()


def test_a_run_that_was_killed_behind_its_last_step_is_saved(rows: Path, tmp_path: Path, run: Run) -> None:
    output = tmp_path / "folders" / "that are made"
    learn = ["learn", str(rows), *SMALL, "--method", "sft", "--steps", "1", "--output", str(output)]
    run(learn)
    written = (output / "adapter.onnx_adapter").read_bytes()
    for left in ("model", "state.tdz"):  # there is no model, or one that is older than the state
        if left == "model":
            shutil.rmtree(output / left)
        else:
            later = time.time_ns() + 10**9  # than the model, which the run before has just written
            os.utime(output / left, ns=(later, later))
        (output / "adapter.onnx_adapter").write_bytes(b"")
        assert run(learn).out == ""
        assert (output / "adapter.onnx_adapter").read_bytes() == written
    run(["generate", "--model", str(output / "model"), "--adapter", str(output), "Copy: sun"])


def test_a_row_that_does_not_fit_the_model_is_told_before_a_step(rows, tmp_path, run):
    bad = tmp_path / "bad.jsonl"
    calls = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f"}}]}
    for prompt, message in (
        ({"prompt": "word " * 300}, "row 8: ids: a prompt of"),
        ({"messages": [calls, {"role": "user", "content": "a"}]}, "row 8: the chat template failed"),
    ):
        row = {**prompt, "answer": "a", "response": "b"}
        bad.write_text(rows.read_text(encoding="utf-8") + json.dumps(row), encoding="utf-8")
        for method in ("grpo", "sft"):
            learn = ["learn", str(bad), *SMALL, "--method", method, "--output", str(tmp_path / method)]
            failed = run(learn, 1)
            assert message in failed.err
            assert failed.out == ""
            assert not (tmp_path / method).exists()


def test_what_is_wrong_is_told_before_a_model_is_opened(rows, tmp_path, run, monkeypatch):
    cases: list[tuple[list[str], int, str]] = [
        (["--reward", "os.system"], 2, "module:function"),
        (["--samples", "1"], 2, "--samples must be at least 2"),
        (["--temperature", "0"], 2, "--temperature must be above 0"),
        (["--reward", "nowhere:score"], 1, "No module named 'nowhere'"),
        (["--held-out", "missing.jsonl"], 1, "missing.jsonl"),
        (["--html", "missing/page.html"], 1, "there is no folder missing"),
        (["--full", "--adapter", "a.onnx_adapter"], 2, "--full and --adapter"),
        (["--adapter", "missing"], 1, "--adapter missing: there is no file missing"),
    ]
    for words, status, message in cases:
        monkeypatch.setattr(
            "lite.models.OnnxDecoder.__init__", lambda *args, **options: pytest.fail("opened")
        )
        err = run(["learn", str(rows), "--output", str(tmp_path / "o"), *words], status).err
        assert message in err, words
        assert not (tmp_path / "o").exists(), words


def test_a_step_that_teaches_nothing_is_told() -> None:
    record = {"step": 3, "reward": 1.0, "told": 0.0, "loss": 0.0}
    assert _line(record) == "step 3: reward 1.000, loss 0.0000, no response was better than another"
    assert "better" not in _line(record | {"told": 0.5})
    assert _line({"step": 0}) == "step 0: before learning"


@pytest.mark.depth
def test_parts_are_computed_again_on_the_way_back(rows, tmp_path, run, monkeypatch):
    from lite.cli.learning.learner import Learner

    made: list[Learner] = []
    step = Learner.step
    monkeypatch.setattr(Learner, "step", lambda self: (made.append(self), step(self))[1])
    run(["learn", str(rows), *SMALL, "--steps", "1", "--output", str(tmp_path / "o"), "--checkpoint", "3"])
    assert [max(getattr(m, "checkpoint", 0) for m in one.policy.modules()) for one in made] == [3]


@pytest.mark.processes
def test_an_interrupt_keeps_the_steps(rows, tmp_path, monkeypatch, capsys):
    from lite.cli.learning.learner import Learner

    step = Learner.step

    def interrupted(self: Any) -> Any:
        if self.run_state.steps == 1:
            raise KeyboardInterrupt
        return step(self)

    learn = ["learn", str(rows), *SMALL, "--output", str(tmp_path / "o"), "--steps", "2"]
    monkeypatch.setattr(Learner, "step", interrupted)
    assert main(learn) == 130
    assert "1 steps are in" in capsys.readouterr().err
    monkeypatch.setattr(Learner, "step", step)
    assert main(learn) == 0
    assert main([*learn[:-4], "--output", str(tmp_path / "whole"), "--steps", "2"]) == 0
    assert steps(tmp_path / "o") == steps(tmp_path / "whole")


@pytest.mark.depth
def test_the_model_takes_what_was_learnt(rows: Path, tmp_path: Path, run: Run) -> None:
    """The folder, its file, or the file with the graph that was written beside it."""
    learnt = tmp_path / "learnt"
    lesson = [str(rows), *SMALL, "--lr", "0.05", "--method", "sft", "--steps", "2"]
    run(["learn", *lesson, "--output", str(learnt)])
    file = learnt / "adapter.onnx_adapter"
    asked = ["score", "--json", str(rows)]
    wanted = run([*asked, "--model", str(learnt / "model"), "--adapter", str(file)]).rows
    for given in (learnt, file):
        for one, row in zip(run([*asked, "--adapter", str(given)]).rows, wanted, strict=True):
            assert one["log_prob"] == pytest.approx(row["log_prob"], rel=1e-5)
    assert run(asked).rows[0]["log_prob"] != pytest.approx(wanted[0]["log_prob"], rel=1e-3)
