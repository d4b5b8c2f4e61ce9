"""The `lite` command: wrong arguments, and errors in one line."""

import argparse
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
from helpers.cases import each_case, raises
from helpers.commands import Run
from helpers.models.real_models import MODELS

import lite
from lite.cli import main
from lite.kernels.backends.compiler import listeners
from lite.models import embedded_model_path

MODEL = MODELS / "optimum-llama"


def test_errors_are_one_line(run: Run) -> None:
    cases: list[tuple[list[str], str]] = [
        (["generate", "--model", "/does/not/exist", "x"], "FileNotFoundError"),
        (["generate", "--model", str(MODEL), "x", "--device", "cuda:99"], "cuda"),
        (["generate", "--model", str(MODEL), "x", "--device", "tpu"], "tpu"),
        (["generate", "--model", str(MODEL), "word " * 400], "context of 256"),
        (["score", "--model", str(MODEL), "/does/not/exist"], "FileNotFoundError"),
        (
            ["generate", "--model", str(MODEL), "x", "--assistant-model", "/no"],
            "--assistant-model: model: there",
        ),
    ]
    for arguments, message in cases:
        err = run(arguments, 1).err
        assert message in err, arguments
        assert "Traceback" not in err, arguments


def test_a_first_call_says_once_that_it_compiles(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def command(args: object) -> int:
        for _ in range(2):
            for tell in tuple(listeners):
                tell("returns.advantages")
        return 0

    monkeypatch.setattr("lite.cli.demo.run", command)
    (line,) = run(["demo"]).err.splitlines()
    assert "compiling kernels" in line
    assert "lite warmup" in line


@pytest.mark.filterwarnings("always")
def test_warnings_and_errors_are_a_line_each(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    def command(args: argparse.Namespace) -> int:
        warnings.warn("slow\n  here", UserWarning, stacklevel=1)
        raise ValueError("bad\n\tthing")

    monkeypatch.setattr("lite.cli.warmup.run", command)
    shown = warnings.showwarning
    assert run(["warmup"], 1).err.splitlines() == [
        "lite: warning: slow here",
        "lite warmup: ValueError: bad thing",
    ]
    assert warnings.showwarning is shown


def test_the_version_is_the_package_s(capsys: pytest.CaptureFixture[str]) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", lite.__version__)
    raises(SystemExit, "0", main, ["--version"])
    assert capsys.readouterr().out == f"lite {lite.__version__}\n"


def _fails(*args: object, **options: object) -> int:
    raise AttributeError("a mistake\nof ours")


def _stops(*args: object, **options: object) -> int:
    raise KeyboardInterrupt


def test_what_nobody_foresaw_is_one_line_without_debug(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    cases: list[list[str]] = [["--debug", "warmup"], ["warmup", "--debug"]]
    for flags in cases:
        monkeypatch.setattr("lite.cli.warmup.run", _fails)
        assert run(["warmup"], 1).err == "lite warmup: AttributeError: a mistake of ours\n", flags
        raises(AttributeError, "a mistake", main, flags)


def test_an_interrupt_exits_with_130(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.setattr("lite.cli.warmup.run", _stops)
    assert run(["warmup"], 130).err == "lite warmup: interrupted\n"


class _Interrupted(io.StringIO):
    """A stream that an interrupt meets when it is first written to, or first flushed."""

    def __init__(self, method: str) -> None:
        super().__init__()
        setattr(self, method, self._interrupt)
        self._method = method

    def _interrupt(self, *given: object) -> None:
        delattr(self, self._method)
        raise KeyboardInterrupt


@each_case(("stream", "method"), [("stdout", "flush"), ("stderr", "write")])
@each_case("run", [_stops, lambda args: 0])
def test_an_interrupt_at_the_very_end_exits_with_130(stream, method, run, monkeypatch):
    monkeypatch.setattr("lite.cli.warmup.run", run)
    monkeypatch.setattr(sys, stream, _Interrupted(method))
    before = signal.getsignal(signal.SIGINT)
    assert main(["warmup"]) == (130 if run is _stops or stream == "stdout" else 0)
    assert signal.getsignal(signal.SIGINT) is before  # it belongs to the program that calls


WRONG: list[tuple[list[str], str]] = [
    (["generate", "x", "--temperature", "-1"], "Temperature must be non-negative, got -1.0"),
    (["generate", "x", "--top-p", "7"], "top_p must be between 0 and 1"),
    (["generate", "x", "--top-k", "-2"], "top_k must be positive"),
    (["generate", "x", "--top-k", "many"], "argument --top-k: invalid int value: 'many'"),
    (["generate", "x", "--logit-bias", "[5]"], "logit_bias must map ids to numbers"),
    (["generate", "x", "--samples", "4", "--num-beams", "3"], "at most num_beams"),
    (["generate", "x", "--min-new-tokens", "9", "--max-new-tokens", "3"], "at most max_new_tokens"),
    (["generate", "x", "--entropy"], "given with --json or --output only"),
    (["generate"], "a prompt is needed"),
    (["generate", "x", "--seed", "-1"], "must be at least 0, got -1"),
    (["demo", "--samples", "0"], "argument --samples: must be at least 1, got 0"),
    (["score", "-", "--truncate-prompt-tokens", "0"], "must be -1 or at least 1, got 0"),
    (["demo", "--gamma", "1.5"], "argument --gamma: must be above 0 and at most 1, got 1.5"),
    (["demo", "--temperature", "-1"], "argument --temperature: must be at least 0 and finite, got -1"),
    (["demo", "--temperature", "hot"], "argument --temperature: invalid number value: 'hot'"),
    (["mismatch", "a", "b", "--divergence", "nan"], "argument --divergence: must be at least 0"),
    (["score", "x", "--html", "y", "--ray"], "--ray scores elsewhere"),
    (["demo", "--nonsense"], "unrecognized arguments: --nonsense (see lite demo --help)"),
    (["demmo"], "invalid choice: 'demmo'"),
    ([], "the following arguments are required: COMMAND"),
]


def test_wrong_options_are_told_before_anything_is_loaded(monkeypatch, capsys):
    for arguments, message in WRONG:
        # no command is so much as imported
        monkeypatch.setattr(sys.modules["lite.cli.main"], "import_module", _fails)
        try:
            status: object = main(arguments)
        except SystemExit as wrong:
            status = wrong.code
        assert status == 2, arguments
        err = capsys.readouterr().err
        assert message in err, arguments
        assert len(err.splitlines()) == 1, arguments
        assert "--help)" in err, arguments


def test_wrong_options_load_no_runtime() -> None:
    code = """
import sys
from lite.cli import main
status = main(["generate", "--temperature", "-1", "x"])
print(status, [n for n in ("onnxruntime", "tokenizers", "numba", "lite.cli.model") if n in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "2 []\n"


@pytest.mark.filterwarnings("always")
def test_quiet_leaves_errors_only(monkeypatch: pytest.MonkeyPatch, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text('{"prompt": "What is 2 + 2?", "response": "4"}\n{"prompt": "hi", "response": ""}\n')
    said = run(["score", str(file)])
    lines = [line for line in said.err.splitlines() if "compiling kernels" not in line]  # the first time
    assert lines == [
        "lite score: no --model is given: this is the small model that comes with the package",
        "lite score: lines with an empty prompt or response, scored as they are: 1, the first is line 2",
    ]
    for command in (["--quiet", "score", str(file)], ["score", str(file), "--quiet"]):
        quiet = run(command)
        assert (quiet.out, quiet.err) == (said.out, "")

    def command(args: argparse.Namespace) -> int:
        warnings.warn("slow", UserWarning, stacklevel=1)
        raise ValueError("bad")

    monkeypatch.setattr("lite.cli.warmup.run", command)
    assert run(["warmup", "--quiet"], 1).err == "lite warmup: ValueError: bad\n"


def test_the_embedded_model_answers_where_none_is_named(run: Run) -> None:
    out, err = run(["generate", "What is 12 + 30?"])
    assert out == "42\n"
    assert "no --model is given" in err
    assert run(["generate", "What is 12 + 30?", "--json", "--quiet"]).json["model"] == str(
        embedded_model_path()
    )
    assert run(["info", "--json", "--quiet"]).json["model"] == str(embedded_model_path())


def _program(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "lite", *arguments], stderr=subprocess.PIPE, check=False, **options
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
def test_a_full_disk_is_one_line() -> None:
    with open("/dev/full", "wb") as full:  # the command prints a line, which is not written before it ends
        done = _program("warmup", stdout=full, env=os.environ | {"LITE_KERNELS": "numpy"})
    assert done.returncode == 1
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("lite warmup: OSError: [Errno 28]")


@pytest.mark.skipif(sys.platform == "win32", reason="closes a pipe as Unix does")
def test_closed_streams_are_nobody_who_reads(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of a service without streams; what is said to standard error does not come out of standard output."""
    with monkeypatch.context() as closed:
        closed.setattr(sys, "stderr", None)
        assert main(["info", "/nonexistent"]) == 1
        assert capfd.readouterr().out == ""
        closed.setattr(sys, "stdin", None)
        closed.setattr(sys, "stdout", None)
        assert main(["chat"]) == main(["generate", "hello", "--max-new-tokens", "1"]) == 0
        assert sys.stdout is None


def test_a_reader_that_goes_away_is_no_error_to_tell() -> None:
    read, write = os.pipe()
    os.close(read)
    done = _program("--help", stdout=write)
    os.close(write)
    assert (done.stderr, done.returncode) == (b"", 0)


class _OneLine(io.StringIO):
    """A pipe whose reader goes away after a line."""

    def write(self, text: str) -> int:
        if "\n" in self.getvalue():
            raise BrokenPipeError
        return super().write(text)


def test_what_is_scored_is_read_as_it_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, stdout = tmp_path / "in.jsonl", _OneLine()
    file.write_text('{"prompt": "a", "response": "b"}\n' * 3000)  # a minute, if all are scored first
    monkeypatch.setattr(sys, "stdout", stdout)
    assert main(["score", str(file), "--quiet"]) == 141
    assert stdout.getvalue().startswith("line 1: log-prob -")


def test_what_the_encoding_lacks_is_escaped_as_in_json(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    stdout = io.TextIOWrapper(written, encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stdout)
    told = "Copy: ü 😀"
    assert main(["generate", told, "--json", "--quiet"]) == 0
    assert json.loads(written.getvalue())["responses"][0]["prompt"] == told
    assert b"\\u00fc \\ud83d\\ude00" in written.getvalue()
    assert stdout.errors == "strict"  # as it was


@pytest.mark.processes
@pytest.mark.skipif(sys.platform == "win32", reason="interrupts another process with a signal")
def test_an_interrupted_score_can_be_resumed(tmp_path: Path) -> None:
    file, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    rows = [{"prompt": f"What is {i} + 1?", "response": str(i + 1) * 30} for i in range(3000)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [sys.executable, "-m", "lite", "score", str(file), "--output", str(output), "--batch-size", "1"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"COLUMNS": "80"})
    try:
        limit = time.monotonic() + 60
        while not output.exists() or output.read_bytes().count(b"\n") < 5:
            assert process.poll() is None
            assert time.monotonic() < limit
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        told = process.communicate(timeout=60)[1].splitlines()
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    done = output.read_bytes().count(b"\n")
    assert 5 <= done < len(rows)
    assert told[-1] == (
        f"lite score: interrupted: {done} lines are in {output}, the same command goes on behind them"
    )
    file.write_text("".join(json.dumps(row) + "\n" for row in rows[: done + 3]))  # the rest need not be long
    assert main(command[3:]) == 0
    assert [json.loads(line)["line"] for line in output.read_text().splitlines()] == [*range(1, done + 4)]
