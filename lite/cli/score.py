"""`lite score`: the log-prob of each given response."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from lite.cli.model import LoadedModel, chat_ids, end_ids, load, prompt_ids
from lite.models import score


def run(args: argparse.Namespace) -> int:
    """Score every line of a JSON-lines file; `--output` makes the run resumable."""
    if args.output is not None and args.file != "-" and _same_file(args.file, args.output):
        raise ValueError(f"--output {args.output} is the file to be scored: give another one.")
    done = _lines_done(args.output)
    with _open(args.file) as source:
        records = read_records(source)
        for _ in islice(records, done):
            pass
        model = load(args)
        with _append(args.output) as sink:
            count = done
            while batch := list(islice(records, args.batch_size)):
                for result in _score(model, batch, raw=args.raw):
                    _emit(result, sink, as_json=args.json)
                    count += 1
                if sink is not None:
                    sink.flush()
                if sys.stderr.isatty():
                    print(f"\r{count} scored", end="", file=sys.stderr, flush=True)
            if sys.stderr.isatty():
                print(file=sys.stderr)
    return 0


def _append(output: str | None) -> AbstractContextManager[TextIO | None]:
    return nullcontext() if output is None else open(output, "a", encoding="utf-8")


def _open(name: str) -> TextIO:
    return sys.stdin if name == "-" else open(name, encoding="utf-8-sig")


def _same_file(first: str, second: str) -> bool:
    return os.path.exists(first) and os.path.exists(second) and os.path.samefile(first, second)


def _lines_done(output: str | None) -> int:
    """Complete lines of an earlier run; a line that was cut off is removed, to be scored again.

    Raises ValueError, and leaves the file as it is, if something else wrote it.
    """
    if output is None or not Path(output).exists():
        return 0
    data = Path(output).read_bytes()
    whole = data.rfind(b"\n") + 1
    for number, line in enumerate(data[:whole].splitlines(), 1):
        if not line.startswith(b'{"line": '):
            raise ValueError(
                f"--output {output} has a line ({number}) that `lite score` did not write: give another file."
            )
    if not whole and data and not b'{"line": '.startswith(data[:9]):
        raise ValueError(f"--output {output} was not written by `lite score`: give another file.")
    if whole != len(data):
        with open(output, "r+b") as file:
            file.truncate(whole)
    return data[:whole].count(b"\n")


def read_records(source: TextIO) -> Iterator[dict[str, Any]]:
    """The records of JSON lines. ValueError if the file is none; the message names it and the line."""
    for number, line in _numbered(source):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{_name(source)}, line {number}: not JSON ({error}).") from None
        yield _check(record, _name(source), number)


def _name(source: TextIO) -> str:
    return str(getattr(source, "name", "<stdin>"))


def _numbered(source: TextIO) -> Iterator[tuple[int, str]]:
    try:
        yield from enumerate(source, 1)
    except UnicodeDecodeError as error:
        raise ValueError(f"{_name(source)} is not text in UTF-8: {error}") from None


def _check(record: Any, name: str, number: int) -> dict[str, Any]:
    if isinstance(record, dict):
        if isinstance(record.get("prompt"), str) and isinstance(record.get("response"), str):
            return {"line": number, "prompt": record["prompt"], "response": record["response"]}
        messages = record.get("messages")
        if (
            isinstance(messages, list)
            and messages
            and all(
                isinstance(m, dict) and isinstance(m.get("role"), str) and isinstance(m.get("content"), str)
                for m in messages
            )
            and messages[-1]["role"] == "assistant"
        ):
            return {"line": number, "messages": messages}
    raise ValueError(
        f"{name}, line {number}: expected an object with 'prompt' and 'response' strings, or with 'messages' "
        "(role and content each) that end with an assistant turn."
    )


def row_of(model: LoadedModel, record: dict[str, Any], raw: bool) -> tuple[NDArray[np.int64], int]:
    """Prompt and response ids in one row, and how many of them are the prompt."""
    tokenizer = model.tokenizer
    if "messages" in record:
        before, text = record["messages"][:-1], record["messages"][-1]["content"]
        prompt = chat_ids(tokenizer, before, add_generation_prompt=True)
    else:
        before, text = [{"role": "user", "content": record["prompt"]}], record["response"]
        prompt = prompt_ids(tokenizer, record["prompt"], raw=raw)
    response = np.asarray(tokenizer.encode(text, add_special_tokens=False), np.int64)
    if not raw:
        # A chat response ends with the end of its turn, and the model is asked for it as well.
        response = np.append(response, np.asarray(end_ids(model, before), np.int64))
    if not response.size:
        raise ValueError(f"line {record['line']}: the response has no token to score.")
    if not len(prompt):
        raise ValueError(f"line {record['line']}: the prompt has no token to come before it.")
    return np.concatenate([prompt, response]), len(prompt)


def _score(model: LoadedModel, batch: list[dict[str, Any]], raw: bool) -> Iterator[dict[str, Any]]:
    rows = [row_of(model, record, raw) for record in batch]
    for record, (_, start), log_probs in zip(
        batch, rows, score(model.decoder, [ids for ids, _ in rows]), strict=True
    ):
        part = log_probs[start:]
        yield {
            "line": record["line"],
            "log_prob": float(part.sum()),
            "tokens": len(part),
            "mean_log_prob": float(part.mean()),
        }


def _emit(result: dict[str, Any], sink: TextIO | None, as_json: bool) -> None:
    text = json.dumps(result)
    if sink is not None:
        print(text, file=sink)
    elif as_json:
        print(text)
    else:
        print(
            f"line {result['line']}: log-prob {result['log_prob']:.4f}, {result['tokens']} tokens, "
            f"mean {result['mean_log_prob']:.4f}"
        )
