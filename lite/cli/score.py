"""`lite score`: the log-prob of each given response."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Mapping
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from lite.cli.model import load, made_with, model_path
from lite.cli.on_ray import rows_on_ray
from lite.cli.output_files import appended, check_file, other_columns, rows_written
from lite.cli.pages.score import ScorePage
from lite.cli.progress import counted, say
from lite.cli.prompts import with_own_names
from lite.data.tables.columns import plain
from lite.data.tables.json_lines import json_lines
from lite.models import ScoreBatches, Tokenizer
from lite.models.batches.rows import is_answered, is_messages, split_messages

_ALTERNATIVES = 5  # that a page tells of each token
_IDS = ("prompt_ids", "response_ids")
_READ = (*_IDS, "messages", "tools", "prompt", "response", "text")
_NAMED = ("id", "sample")  # how rows are told apart
_WRITTEN = (*_IDS, "logprobs", "log_prob", "tokens", "mean_log_prob")
_TOP = ("top_ids", "top_log_probs")


def run(args: argparse.Namespace) -> int:
    """Score every line of a JSON-lines file; `--output` makes the run resumable."""
    check_file("--output", args.output, args.file)
    check_file("--html", args.html, args.file, args.output)
    asked = {name: getattr(args, name) for name in ("logprobs", "truncate_prompt_tokens")}
    told = {name: value for name, value in asked.items() if value}
    made = {} if args.output is None else made_with(args) | told
    empty: list[int] = []
    unknown: list[int] = []
    with _open(args.file) as source:
        records = read_records(source)
        done = 0
        for row in rows_written(args.output, made, records):
            done += 1
            if args.json:
                print(json.dumps(row))
            if row["log_prob"] is None:
                unknown.append(row["line"])
        records = _noting_empty(records, empty)
        count = done
        page = None if args.html is None else ScorePage(args, done)
        with appended(args.output, made, done) as write:
            results = _results(args, records, page)
            if write or args.json or not sys.stdout.isatty():
                results = counted(args, results, "scored", done)
            for result in results:  # lines that a terminal shows are their own progress
                if write is not None:
                    write(result)
                if args.json or write is None:
                    print(json.dumps(result) if args.json else _line(result), flush=True)
                count += 1
                if result["log_prob"] is None:
                    unknown.append(result["line"])
    if count == done:
        what = f"its {done} lines are in {args.output}" if done else "it has no line to score"
        say(args, f"nothing to do for {args.file}: {what}")
    if empty:
        many, first = len(empty), f"the first is line {empty[0]}"
        say(args, f"lines with an empty prompt or response, scored as they are: {many}, {first}")
    if page is not None:
        Path(args.html).write_text(page.text(), encoding="utf-8")
    if unknown:
        raise ValueError(
            f"the model's logits are not numbers in {len(unknown)} of the lines, the first is line "
            f"{unknown[0]}: their log-probs are NaN, or null in JSON. Its weights may be damaged."
        )
    return 0


def _noting_empty(records: Iterator[dict[str, Any]], empty: list[int]) -> Iterator[dict[str, Any]]:
    """Yield the records, and append the numbers of lines with an empty text to `empty`."""
    for record in records:
        if _IDS[0] not in record:
            turns, response = record.get("messages"), record.get("response")
            if "" in (record.get("prompt"), split_messages(turns, response)[1] if turns else response):
                empty.append(record["line"])
        yield record


def _open(name: str) -> TextIO:
    if name == "-" and isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8-sig")  # as JSON is, whatever texts of the system are
    return sys.stdin if name == "-" else open(name, encoding="utf-8-sig")


def read_records(source: TextIO) -> Iterator[dict[str, Any]]:
    """The records of JSON lines, or of the object that `lite generate --json` prints, each with a number.

    Raises ValueError for another format; the message names the file and the line.
    """
    more = 0  # records beyond one in a line
    for number, _, record in json_lines(source):
        found = record.get("responses") if isinstance(record, dict) else None
        rows = found if isinstance(found, list) else [record]
        for at, row in enumerate(rows, number + more):
            yield _check(row, _name(source), at)
        more += len(rows) - 1


def _name(source: TextIO) -> str:
    return str(getattr(source, "name", "<stdin>"))


def _check(record: Any, name: str, number: int) -> dict[str, Any]:
    """The fields of a row: its id, its texts, its token ids, and what the command does not read."""
    where, record = f"{name}, line {number}: ", with_own_names(record)
    if isinstance(record, dict):
        named = {key: record[key] for key in _NAMED if record.get(key) is not None}
        row = named | _texts(record) | other_columns(record)
        ids = {key: record[key] for key in _IDS if record.get(key) is not None}
        if len(ids) == len(_IDS):
            for key, value in ids.items():
                if not isinstance(value, list) or any(type(token) is not int for token in value):
                    raise ValueError(f"{where}{key!r} must be a list of integers, got {_short(value)}")
            return {"line": number, **row, **ids}
        if "messages" in row:
            try:
                split_messages(row["messages"], row.get("response"))
            except ValueError as error:
                raise ValueError(f"{where}{error}") from None
            return {"line": number, **row}
        if is_answered(row) or isinstance(row.get("text"), str):
            return {"line": number, **row}
    raise ValueError(
        f"{where}expected an object with 'prompt' and 'response' strings, with 'messages' (role and content "
        "each) that end with an assistant turn or have a 'response' beside them, with 'prompt_ids' and "
        f"'response_ids', or with a 'text', got {_short(record)}"
    )


def _texts(record: Mapping[str, Any]) -> dict[str, Any]:
    prompt, messages, response = (record.get(name) for name in ("prompt", "messages", "response"))
    answer = {"response": response} if isinstance(response, str) else {}
    if isinstance(prompt, str) and (answer or not is_messages(messages)):
        return {"prompt": prompt, **answer}
    return {"messages": messages, **answer} if is_messages(messages) else answer


def _results(
    args: argparse.Namespace, records: Iterator[dict[str, Any]], page: ScorePage | None
) -> Iterator[dict[str, Any]]:
    """The row of each record, in order. The model is opened here, unless Ray's actors open it."""
    options = {"raw": args.raw, "max_rows": args.batch_size, "id_key": "line", "token_ids": True}
    options |= {"logprobs": args.logprobs, "truncate_prompt_tokens": args.truncate_prompt_tokens}
    if args.ray is not None:
        path = model_path(args)
        given = list(_in_these_tokens(records, Tokenizer.from_pretrained(path)))
        scored = rows_on_ray(args, path, list(map(_columns, given)), ScoreBatches, options)
        pairs: Iterator[tuple[dict[str, Any], dict[str, Any]]] = zip(given, scored, strict=True)
    else:
        model = load(args)
        judge = ScoreBatches(model.decoder, tokenizer=model.tokenizer, **options)
        pairs = _in_batches(judge, _in_these_tokens(records, model.tokenizer), args.batch_size, page)
        if page is not None:
            pairs = page.noting(model, pairs)
    for record, row in pairs:
        yield record | {name: plain(row[name]) for name in (*_WRITTEN, *(_TOP if args.logprobs else ()))}


def _in_these_tokens(records: Iterator[dict[str, Any]], tokenizer: Tokenizer) -> Iterator[dict[str, Any]]:
    """The records; ValueError for one whose token ids are of another tokenizer, as its text shows.

    Writers leave out special tokens or a stop text at the end, and spaces.
    """
    for record in records:
        text = "".join(record.get("response", "").split())
        if text and _IDS[0] in record:
            try:
                read = [tokenizer.decode(record[_IDS[1]], skip_special_tokens=skip) for skip in (True, False)]
            except (ValueError, OverflowError):
                read = []
            if not any("".join(one.split()).startswith(text) for one in read):
                raise ValueError(
                    f"line {record['line']}: its token ids are not those of this model's tokenizer: "
                    f"{_short(read)} in place of {_short(record['response'])}. Leave 'response_ids' out to "
                    "score the text."
                )
        yield record


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def _columns(record: Mapping[str, Any]) -> dict[str, Any]:
    """All rows of a table have the same columns."""
    return {name: record.get(name) for name in ("line", *_READ)}


def _in_batches(
    judge: ScoreBatches, records: Iterator[dict[str, Any]], size: int, page: ScorePage | None
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    asked = judge.logprobs
    while batch := list(islice(records, size)):
        judge.logprobs = asked or (_ALTERNATIVES if page is not None and page.has_room else 0)
        scored = judge({name: [record.get(name) for record in batch] for name in _columns({})})
        for i, record in enumerate(batch):
            yield record, {name: column[i] for name, column in scored.items()}


def _line(result: dict[str, Any]) -> str:
    total, mean = (math.nan if result[key] is None else result[key] for key in ("log_prob", "mean_log_prob"))
    return f"line {result['line']}: log-prob {total:z.4f}, {result['tokens']} tokens, mean {mean:z.4f}"
