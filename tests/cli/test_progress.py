"""What is said beside results: on standard error, and not where nobody wants to hear it."""

from argparse import Namespace

import pytest

from lite.cli.progress import counted, say


def test_a_line_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    say(Namespace(quiet=False, command="score"), "heard")
    say(Namespace(quiet=True, command="score"), "not heard")
    assert capsys.readouterr() == ("", "lite score: heard\n")


def test_counts_are_for_terminals(monkeypatch, capsys):
    for terminal, quiet, shown in ((True, False, "4 done\r5 done\r\n"), (True, True, ""), (False, False, "")):
        monkeypatch.setattr("sys.stderr.isatty", lambda terminal=terminal: terminal)
        assert list(counted(Namespace(quiet=quiet), "ab", "done", 3)) == ["a", "b"], terminal
        assert capsys.readouterr() == ("", shown), terminal
