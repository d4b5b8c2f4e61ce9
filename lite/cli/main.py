"""The `lite` command: it runs the named command and prints errors as one line instead of a traceback."""

from __future__ import annotations

import argparse
import codecs
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module

from lite.cli.commands import COMMANDS, build_parser
from lite.cli.progress import say
from lite.kernels.backends.compiler import listeners

# Exit statuses of programs that a signal ended.
_INTERRUPTED, _NOT_READ = 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the `lite` command and return its exit status.

    Args:
        argv: arguments without the program name (those of the process if None).

    Returns:
        0 on success, 1 after an error (one line on standard error; the exception itself with `--debug`), 2
        for arguments that contradict each other, 130 after Ctrl-C, 141 if the reader of the output went away.

    Raises:
        SystemExit: with status 2 for arguments that are wrong by themselves, with 0 after `--help` and
            `--version`.
    """
    with ExitStack() as opened:
        for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
            if getattr(sys, name) is None:  # closed; print(file=None) would write errors to standard output
                opened.callback(setattr, sys, name, None)
                setattr(sys, name, opened.enter_context(open(os.devnull, mode)))
        try:
            return _main(argv)
        except KeyboardInterrupt:  # before a command began, or while the first interrupt was reported
            return _INTERRUPTED


def _main(argv: Sequence[str] | None) -> int:
    try:
        args = build_parser().parse_args(argv)
    except SystemExit:
        _settle()  # the reader of a help text may have closed the pipe
        raise
    with warnings.catch_warnings(), _any_text():  # restores what shows them
        warnings.showwarning = _warn
        if args.quiet:
            warnings.simplefilter("ignore")
        if args.command != "warmup":  # which tells more
            listeners[:] = [lambda kernel: _compiling(args)]
        try:
            return _run(args)
        except KeyboardInterrupt as interrupt:
            if argv is None:  # the next one ends the process, and whatever it is busy with, at once
                signal.signal(signal.SIGINT, signal.SIG_DFL)
            told = _line(interrupt)
            print(f"lite {args.command}: interrupted{told and ': ' + told}", file=sys.stderr)
            return _INTERRUPTED


def _compiling(args: argparse.Namespace) -> None:
    """Say once that kernels are being compiled."""
    listeners.clear()
    say(
        args,
        "compiling kernels, which takes seconds to a minute, once on this machine (`lite warmup` does it "
        "ahead of time)",
    )


def _warn(message: Warning | str, *where: object, **options: object) -> None:
    """A warning as one line, without the place in the code that it came from."""
    print(f"lite: warning: {_line(message)}", file=sys.stderr)


def _run(args: argparse.Namespace) -> int:
    name = f"lite {args.command}"
    try:
        check = COMMANDS[args.command].check
        if check is not None:
            check(args)
        status: int = import_module(f"lite.cli.{args.command}").run(args)
        sys.stdout.flush()  # here, where errors are reported
        return status
    except BrokenPipeError:
        return _NOT_READ
    except argparse.ArgumentError as error:
        print(f"{name}: error: {_line(error)} (see {name} --help)", file=sys.stderr)
        return 2
    except Exception as error:
        if args.debug:
            raise
        print(f"{name}: {type(error).__name__}: {_line(error)}", file=sys.stderr)
        return 1
    finally:
        _settle()


def _settle() -> None:
    """Empty the output buffer even if it cannot be written, so that the interpreter does not fail at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _any_text() -> Iterator[None]:
    """Write characters that the encoding of standard output lacks as JSON escapes, instead of failing."""
    codecs.register_error("lite.escapes", _escapes)
    out = sys.stdout
    if not hasattr(out, "reconfigure"):
        yield
        return
    before = out.errors
    out.reconfigure(errors="lite.escapes")
    try:
        yield
    finally:
        out.reconfigure(errors=before)


def _escapes(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4)), error.end


def _line(said: object) -> str:
    return " ".join(str(said).split())
