"""The `lite` command: wrong arguments, and errors in one line."""

import argparse
import subprocess
import sys
import warnings

import pytest
from helpers.models.real_models import MODELS

from lite.cli import main
from lite.kernels.backends.compiler import listeners

pytest.importorskip("onnxruntime", reason="needs the llm extra: pip install 'tensordict-lite[llm]'")
MODEL = MODELS / "optimum-llama"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["generate", "--model", "/does/not/exist", "x"], "FileNotFoundError"),
        (["generate", "--model", str(MODEL), "x", "--device", "cuda:99"], "cuda"),
        (["generate", "--model", str(MODEL), "x", "--device", "tpu"], "tpu"),
        (["generate", "--model", str(MODEL), "word " * 400], "context of 256"),
        (["score", "--model", str(MODEL), "/does/not/exist"], "FileNotFoundError"),
        (
            ["generate", "--model", str(MODEL), "x", "--assistant-model", "/no"],
            "--assistant-model: model: there",
        ),
    ],
)
def test_errors_are_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 1
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err


def test_the_module_runs_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lite", "--help"], capture_output=True, text=True, check=True
    )
    for command in ("demo", "generate", "score", "mismatch", "info", "warmup"):
        assert command in done.stdout


def test_a_first_call_says_once_that_it_compiles(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(args: object) -> int:
        for _ in range(2):
            for tell in tuple(listeners):
                tell("returns.advantages")
        return 0

    monkeypatch.setattr("lite.cli.demo.run", run)
    assert main(["demo"]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert "compiling kernels" in line
    assert "lite warmup" in line


def test_wrong_arguments_exit_with_two() -> None:
    with pytest.raises(SystemExit) as error:
        main(["demo", "--samples", "0"])
    assert error.value.code == 2


def test_a_negative_seed_is_a_wrong_argument(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["generate", "--model", str(MODEL), "--seed", "-1", "a"])
    assert "must be at least 0, got -1" in capsys.readouterr().err


@pytest.mark.filterwarnings("always")
def test_warnings_and_errors_are_a_line_each(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(args: argparse.Namespace) -> int:
        warnings.warn("slow\n  here", UserWarning, stacklevel=1)
        raise ValueError("bad\n\tthing")

    monkeypatch.setattr("lite.cli.warmup.run", run)
    shown = warnings.showwarning
    assert main(["warmup"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "lite: warning: slow here",
        "lite warmup: ValueError: bad thing",
    ]
    assert warnings.showwarning is shown
