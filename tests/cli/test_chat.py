"""`lite chat`: history, commands, and what happens at a terminal."""

import io
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.commands import Run, Said
from helpers.models.real_models import MODELS

from lite.cli import main
from lite.models import GenerationConfig, OnnxDecoder, PrefixCache, Tokenizer, embedded_model_path, generate

MODEL = MODELS / "optimum-llama"


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch, run: Run) -> Run:
    """Runs the command with what is said on standard input."""

    def call(said: str, *flags: str, model: Path = MODEL, status: int = 0) -> Said:
        monkeypatch.setattr("sys.stdin", io.StringIO(said))
        return run(["chat", "--model", str(model), *flags], status)

    return call


def answers(prompts: list[str], system: str | None = None) -> list[str]:
    """What the model says when each prompt comes after all before it."""
    decoder, tokenizer = OnnxDecoder(MODEL), Tokenizer.from_pretrained(MODEL)
    config = GenerationConfig.from_kwargs({"max_new_tokens": 6, "temperature": 0}, decoder.config)
    turns = [] if system is None else [{"role": "system", "content": system}]
    out = []
    for prompt in prompts:
        turns.append({"role": "user", "content": prompt})
        ids = tokenizer.apply_chat_template(turns, add_generation_prompt=True)["input_ids"]
        (response,) = generate(decoder, [np.array(ids)], config)
        out.append(tokenizer.decode(response.tokens, skip_special_tokens=True))
        turns.append({"role": "assistant", "content": out[-1]})
    return out


def test_a_conversation_keeps_its_turns(chat: Run, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = ["--max-new-tokens", "6", "--system", "Be brief."]
    said = chat("hello\n\n  again \n/exit\nnever\n", *flags).out
    assert said == "".join(a + "\n" for a in answers(["hello", "again"], "Be brief."))
    monkeypatch.setattr("sys.stdin", io.StringIO("again"))  # its other name
    assert run(["generate", "--chat", "--model", str(MODEL), "hello", *flags]).out == said


def test_json_prompts_and_reset(chat: Run) -> None:
    flags = ["--max-new-tokens", "6", "--json", "hello"]
    out = chat("again\n/reset\nagain", *flags).rows
    assert [said["messages"][-1]["content"] for said in out] == ["hello", "again", "again"]
    assert [said["response"] for said in out] == [*answers(["hello", "again"]), *answers(["again"])]
    assert {"tokens", "log_prob", "finish_reason"} < set(out[0])


def test_a_conversation_is_not_read_again(chat: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Seen(PrefixCache):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            made.append(self)

    monkeypatch.setattr("lite.cli.chat.PrefixCache", Seen)
    said = chat("hello\nagain\nand again", "--max-new-tokens", "6").out
    assert said == "".join(a + "\n" for a in answers(["hello", "again", "and again"]))
    assert (made[0].hits, made[0].rows) == (2, 1)
    assert made[0].tokens_reused > 40


def test_samples_follow_the_seed(chat: Run) -> None:
    sampling = ["--temperature", "1", "--max-new-tokens", "6"]
    texts = [chat("a\na\n", *sampling, "--seed", seed).out for seed in ("1", "1", "2")]
    assert texts[0] == texts[1] != texts[2]


def test_a_conversation_longer_than_the_context_says_so(chat: Run) -> None:
    err = chat("word " * 300, status=1).err
    assert "the model's context 256: /reset starts over" in err
    assert len(err.splitlines()) == 1


def test_flags_that_make_no_sense_are_refused(run: Run) -> None:
    cases: list[list[str]] = [["--raw"], ["--file", "x"], ["--samples", "2"], ["--no-stream"], ["--ray"]]
    cases.append(["--truncate-prompt-tokens", "-1"])
    for flags in cases:
        assert f"a chat does not go with {flags[0]}" in run(["generate", "--chat", *flags], 2).err, flags
        with pytest.raises(SystemExit, match="2"):
            main(["chat", *flags])


def test_a_model_without_template_cannot_chat(chat: Run, tmp_path: Path) -> None:
    shutil.copytree(MODEL, tmp_path, dirs_exist_ok=True)
    (tmp_path / "chat_template.jinja").unlink()
    assert "a chat needs a chat template" in chat("", model=tmp_path, status=1).err


class Terminal:
    """The command on a terminal of its own."""

    def __init__(self, *flags: str) -> None:
        import pty

        self.end, theirs = pty.openpty()
        command = [sys.executable, "-m", "lite", "chat", *flags]
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env={**os.environ, "TERM": "dumb"}
        )
        os.close(theirs)
        self.seen = ""

    def wait_for(self, text: str, *, interrupt: bool = False) -> str:
        """Read until `text` comes, interrupting if asked to; returns what came before it."""
        import select

        limit, again = time.monotonic() + 60, time.monotonic() + 0.2
        while text not in self.seen:
            assert time.monotonic() < limit, self.seen
            if interrupt and time.monotonic() > again:  # too early a one is only seen with the next input
                self.process.send_signal(signal.SIGINT)
                again = time.monotonic() + 5
            if select.select([self.end], [], [], 1)[0]:
                self.seen += os.read(self.end, 4096).decode()
        before, self.seen = self.seen.split(text, 1)
        return before

    def type(self, text: str) -> None:
        os.write(self.end, text.encode())


@pytest.mark.processes
@pytest.mark.skipif(sys.platform == "win32", reason="a pseudo-terminal is asked of the system")
def test_at_a_terminal() -> None:
    terminal = Terminal("--model", str(embedded_model_path()))
    try:
        terminal.wait_for("> ")
        terminal.type("Copy: sun sea\n")
        assert "sun sea" in terminal.wait_for("> ").split("\n", 1)[1]
        terminal.wait_for("> ", interrupt=True)  # at the prompt: another prompt
        terminal.type("word " * 200 + "\n")
        terminal.wait_for("> ")  # too long: said, and the conversation goes on
        terminal.type("\x04")
        assert terminal.process.wait(30) == 0
    finally:
        terminal.process.kill()
        errors = terminal.process.communicate()[1].decode()
        os.close(terminal.end)
    assert "/reset forgets" in errors
    assert "lite chat: the conversation has" in errors
    assert "context" in errors
    assert "Traceback" not in errors
