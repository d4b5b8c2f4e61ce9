"""What the commands take: every argument is explained, and every example is a command line."""

import argparse
import importlib.util
import re
import shlex

import pytest
from helpers.cases import raises

from lite.cli import commands
from lite.cli.commands import COMMANDS, build_parser


def parser_of(command: str) -> argparse.ArgumentParser:
    (commands,) = (a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    parser = commands.choices[command]
    parser.format_help()  # gives it its arguments
    return parser


def test_every_argument_is_explained() -> None:
    for command in COMMANDS:
        unexplained = [
            action.dest for action in parser_of(command)._actions if not (action.help or "").strip()
        ]
        assert unexplained == [], command
        assert importlib.util.find_spec(f"lite.cli.{command}"), command


LEARN = {
    "evaluate_every": 0, "steps": 100, "prompts": 8, "samples": 8, "max_new_tokens": 64, "temperature": 1.0,
    "lr": 1e-4, "clip": 0.2, "iterations": 1, "batch_size": 16, "method": "grpo",
    "reward": "exact", "scale_rewards": "group", "label_smoothing": 0.0,
}  # fmt: skip
DEFAULTS: dict[str, dict[str, object]] = {
    "demo": {"prompts": 7, "samples": 4, "n_steps": 32, "gamma": 0.99, "temperature": 2.0},
    "generate": {"samples": 1, "batch_size": 8},
    "score": {"batch_size": 8, "logprobs": 0},
    "learn": LEARN,
    "mismatch": {"samples": 4, "max_new_tokens": 64, "divergence": 0.1},
    "bench": {"rounds": 15},
    "footprint": {"repeat": 5},
}


def test_defaults() -> None:
    for command in COMMANDS:
        found = {
            action.dest: action.default
            for action in parser_of(command)._actions
            if action.default not in (None, False, argparse.SUPPRESS) or type(action.default) in (int, float)
        }
        shared = {"seed": 0, "device": "cpu"}
        assert {k: v for k, v in found.items() if k not in shared} == DEFAULTS.get(command, {}), command
        assert {k: v for k, v in found.items() if k in shared}.items() <= shared.items(), command


def test_bounds_of_numbers() -> None:
    for kind, taken, refused in (
        (commands._positive, ["1"], ["0", "-1"]),
        (commands._kept, ["-1", "1"], ["0", "-2"]),
        (commands._not_negative, ["0"], ["-1"]),
        (commands._amount, ["0", "1e300"], ["-1e-9", "inf", "nan"]),
        (commands._rate, ["0", "0.999"], ["1", "-1e-9"]),
        (commands._share, ["1", "1e-9"], ["0", "1.001"]),
    ):
        assert [kind(text) for text in taken] == [float(text) for text in taken]
        for text in refused:
            raises(argparse.ArgumentTypeError, f"got {text}", kind, text)


def test_every_example_is_a_command_line() -> None:
    for command in COMMANDS:
        assert "examples:" in parser_of(command).format_help(), command
        assert COMMANDS[command].examples, command
        for example in COMMANDS[command].examples:
            words = shlex.split(example, comments=True)
            redirected = next((i for i, word in enumerate(words) if word in ("<", ">")), len(words))
            assert words[:2] == ["lite", command], command
            args = build_parser().parse_args(words[1:redirected])
            check = COMMANDS[command].check
            if check is not None:
                check(args)


def test_a_help_text_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for command in COMMANDS:
        monkeypatch.setenv("COLUMNS", "80")
        assert [line for line in parser_of(command).format_help().splitlines() if len(line) > 80] == []


def test_the_help_has_the_exit_codes() -> None:
    text = build_parser().format_help()
    section = text[text.index("exit status:") :]
    assert re.findall(r"^  (\d+) ", section, re.MULTILINE) == ["0", "1", "2", "130", "141"]


def test_options_of_all_commands_stand_on_either_side() -> None:
    for words in (["--quiet", "warmup"], ["warmup", "--quiet"]):
        args = build_parser().parse_args(words)
        assert (args.quiet, args.debug) == (True, False)
    assert build_parser().parse_args(["--debug", "warmup", "--quiet"]).debug
