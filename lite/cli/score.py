"""`lite score`: the log-prob of each given response."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from lite.cli.model import load, model_path
from lite.cli.on_ray import rows_on_ray
from lite.cli.output_files import appended, check_file, lines_written
from lite.cli.progress import counted, say
from lite.cli.score_page import ScorePage
from lite.models import ScoreBatches
from lite.models.batches.rows import is_messages

_ALTERNATIVES = 5  # that a page tells of each token
_WRITTEN: dict[str, type] = {"line": int, "log_prob": float, "tokens": int, "mean_log_prob": float}
# All rows of a table have the same columns.
_NONE: dict[str, Any] = dict.fromkeys(("prompt", "response", "messages"))


def run(args: argparse.Namespace) -> int:
    """Score every line of a JSON-lines file; `--output` makes the run resumable."""
    check_file("--output", args.output, args.file)
    check_file("--html", args.html, args.file, args.output)
    done = len(lines_written(args.output, "score"))
    empty: list[int] = []
    with _open(args.file) as source:
        records = read_records(source)
        for _ in islice(records, done):
            pass
        records = _noting_empty(records, empty)
        count = done
        page = None if args.html is None else ScorePage(args, done)
        with appended(args.output, "score") as sink:
            results = _results(args, records, page)
            if sink is not None or args.json or sys.stdout is None or not sys.stdout.isatty():
                results = counted(args, results, "scored", done)
            for result in results:  # lines that a terminal shows are their own progress
                _emit(result, sink, as_json=args.json)
                count += 1
                if sink is not None and (count - done) % args.batch_size == 0:
                    sink.flush()
    if count == done:
        what = f"its {done} lines are in {args.output}" if done else "it has no line to score"
        say(args, f"nothing to do for {args.file}: {what}")
    if empty:
        many, first = len(empty), f"the first is line {empty[0]}"
        say(args, f"lines with an empty prompt or response, scored as they are: {many}, {first}")
    if page is not None:
        Path(args.html).write_text(page.text(), encoding="utf-8")
    return 0


def _noting_empty(records: Iterator[dict[str, Any]], empty: list[int]) -> Iterator[dict[str, Any]]:
    """The records; the numbers of lines without a text are appended to `empty`."""
    for record in records:
        texts = [record["messages"][-1]["content"]] if record["messages"] else []
        if "" in (record["prompt"], record["response"], *texts):
            empty.append(record["line"])
        yield record


def _open(name: str) -> TextIO:
    return sys.stdin if name == "-" else open(name, encoding="utf-8-sig")


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
            return {"line": number, **_NONE, "prompt": record["prompt"], "response": record["response"]}
        messages: Any = record.get("messages")
        if is_messages(messages) and messages[-1]["role"] == "assistant":
            return {"line": number, **_NONE, "messages": messages}
    raise ValueError(
        f"{name}, line {number}: expected an object with 'prompt' and 'response' strings, or with 'messages' "
        "(role and content each) that end with an assistant turn."
    )


def _results(
    args: argparse.Namespace, records: Iterator[dict[str, Any]], page: ScorePage | None
) -> Iterator[dict[str, Any]]:
    """What is written of each record, in order. The model is opened here, unless Ray's actors open it."""
    if args.ray is not None:
        job = {"raw": args.raw, "max_rows": args.batch_size, "id_key": "line"}
        scored = rows_on_ray(args, model_path(args), list(records), ScoreBatches, job)
    else:
        model = load(args)
        judge = ScoreBatches(
            model.decoder, tokenizer=model.tokenizer, raw=args.raw, max_rows=args.batch_size, id_key="line"
        )
        scored = _in_batches(judge, records, args.batch_size, page)
        if page is not None:
            scored = page.noting(model, scored)
    return ({name: kind(row[name]) for name, kind in _WRITTEN.items()} for row in scored)


def _in_batches(
    judge: ScoreBatches, records: Iterator[dict[str, Any]], size: int, page: ScorePage | None
) -> Iterator[dict[str, Any]]:
    while batch := list(islice(records, size)):
        judge.logprobs = _ALTERNATIVES if page is not None and page.has_room else 0
        scored = judge({name: [record[name] for record in batch] for name in batch[0]})
        for i in range(len(batch)):
            yield {name: column[i] for name, column in scored.items()}


def _emit(result: dict[str, Any], sink: TextIO | None, as_json: bool) -> None:
    text = json.dumps(result)
    if sink is not None:
        print(text, file=sink)
    elif as_json:
        print(text)
    else:
        print(
            f"line {result['line']}: log-prob {result['log_prob']:z.4f}, {result['tokens']} tokens, "
            f"mean {result['mean_log_prob']:z.4f}"
        )
