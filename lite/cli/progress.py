"""Progress messages: on standard error, and none with `--quiet`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

_T = TypeVar("_T")


def say(args: argparse.Namespace, text: str) -> None:
    """A line on standard error, unless `--quiet` was given."""
    if not args.quiet:
        print(f"lite {args.command}: {text}", file=sys.stderr)


def counted(args: argparse.Namespace, things: Iterable[_T], done: str, start: int = 0) -> Iterator[_T]:
    """Yield the things, and show on a terminal how many there were: "12 scored".

    Args:
        args: "quiet", of the command.
        things: what is counted.
        done: the participle to show, such as "scored".
        start: how many there were before.
    """
    if args.quiet or not sys.stderr.isatty():
        yield from things
        return
    for count, thing in enumerate(things, start + 1):
        # The next count, or an error that ends it all, is written over this one.
        print(f"{count} {done}", end="\r", file=sys.stderr, flush=True)
        yield thing
    print(file=sys.stderr)
