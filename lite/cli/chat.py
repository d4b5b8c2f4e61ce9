"""`lite chat`: a conversation on standard input and output."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from lite.cli.model import LoadedModel, load, load_assistant
from lite.cli.options import config_of
from lite.cli.progress import say
from lite.cli.reply import reply
from lite.models import GenerationConfig, PrefixCache
from lite.models.batches.rows import encoded_prompt

_MAX_CACHE_BYTES = 2**31
_INTRODUCTION = "/reset forgets the conversation, /exit or Ctrl-D ends it, Ctrl-C stops a response"


def run(args: argparse.Namespace) -> int:
    """Answer line by line until the input ends or says /exit."""
    model = load(args)
    if model.tokenizer.chat_template is None:
        raise ValueError(f"a chat needs a chat template, and the model in {model.path} has none")
    config = config_of(args, model)
    at_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    conversation = _Conversation(model, config, args)
    if at_terminal:
        say(args, f"{model.path}: {_INTRODUCTION}")
    for line in _lines(args.prompt, at_terminal):
        if line == "/exit":
            break
        if line == "/reset":
            conversation.reset()
            continue
        try:
            conversation.answer(line)
        except ValueError as error:
            if not at_terminal:
                raise
            print(f"lite {args.command}: {error}", file=sys.stderr)
    return 0


class _Conversation:
    """The turns so far; only complete ones are kept."""

    def __init__(self, model: LoadedModel, config: GenerationConfig, args: argparse.Namespace) -> None:
        self._model = model
        self._config = config
        self._json = args.json
        self._system = [] if args.system is None else [{"role": "system", "content": args.system}]
        self._rng = np.random.default_rng(args.seed)
        self._turns: list[dict[str, str]] = []
        self._assistant = load_assistant(args)
        self._read = PrefixCache(model.decoder, _MAX_CACHE_BYTES, max_rows=1)  # the conversation so far

    def reset(self) -> None:
        self._turns = []

    def answer(self, text: str) -> None:
        """Print the response to `text`, which are then two turns more. ValueError if they do not fit."""
        turns = [*self._turns, {"role": "user", "content": text}]
        ids = self._ids(turns)
        seed = self._rng.integers(0, 2**63, dtype=np.uint64)
        said = reply(
            self._model,
            ids,
            self._config,
            seed,
            self._write,
            prefix_cache=self._read,
            assistant_model=self._assistant,
        )
        if self._json:
            row = {"messages": self._system + turns, **said.record}
            print(json.dumps(row, ensure_ascii=False), flush=True)
        else:
            print(flush=True)
        self._turns = [*turns, {"role": "assistant", "content": said.text}]

    def _ids(self, turns: list[dict[str, str]]) -> NDArray[np.int64]:
        ids = encoded_prompt(self._model.tokenizer, self._system + turns).ids
        limit = self._model.decoder.context_length
        if limit is not None and len(ids) >= limit:
            raise ValueError(
                f"the conversation has {len(ids)} tokens and the model's context {limit}: /reset starts over"
            )
        return ids

    def _write(self, piece: str) -> None:
        if not self._json:
            print(piece, end="", flush=True)


def _lines(first: list[str], at_terminal: bool) -> Iterator[str]:
    """The lines that the user types, without empty ones; an interrupt at the prompt shows it again."""
    yield from (text.strip() for text in first if text.strip())
    if not at_terminal:
        yield from (line.strip() for line in sys.stdin if line.strip())
        return
    with suppress(ImportError):
        import readline  # noqa: F401  (gives `input` a history)
    while True:
        try:
            line = input("> ").strip()
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            print()
            continue
        if line:
            yield line
