"""`lite generate`: text, token count and speed."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.cli import chat
from lite.cli.model import LoadedModel, load, load_assistant, made_with, model_path
from lite.cli.on_ray import rows_on_ray
from lite.cli.options import config_of, options_of
from lite.cli.output_files import appended, check_file, rows_written
from lite.cli.progress import counted, say
from lite.cli.prompts import Prompt, read_prompts
from lite.cli.reply import Reply, reply
from lite.data import row_seeds
from lite.data.tables.columns import plain
from lite.kernels import DrawDetails
from lite.models import GenerateBatches, Generated, GenerationConfig, OnnxDecoder, generate, generate_each
from lite.models.batches.rows import prompt_for

# What a row has of a response, beside what its options ask for.
_RESPONSE = ("response", "prompt_ids", "response_ids", "logprobs", "log_prob", "tokens", "finish_reason")
_TOLD = (*_RESPONSE, "score", *(field.name for field in dataclasses.fields(DrawDetails)))


def run(args: argparse.Namespace) -> int:
    """Continue each prompt and print the text with its token count, log-prob and speed; or hold a chat."""
    if args.chat:
        return chat.run(args)
    check_file("--output", args.output, *(args.file or ()))
    prompts = read_prompts(args)
    rows = _Rows(args, prompts)
    if rows.done == rows.count:
        say(args, f"nothing to do: all {rows.count} responses are in {args.output}")
        return rows.written(iter(()), time.perf_counter(), Path(rows.made["model"]["path"]), 0.0)
    if args.stream and rows.count > 1:  # of a file
        raise argparse.ArgumentError(None, f"--stream prints one response as text, got {rows.count} prompts")
    if args.ray is not None:
        return _run_on_ray(args, prompts, rows)
    plain_text = not args.json and args.output is None
    one_by_one = args.stream is None and rows.count == 1 and plain_text and sys.stdout.isatty()
    model = load(args)
    assistant = load_assistant(args)
    config = config_of(args, model)
    one_by_one = args.stream or (one_by_one and config.num_beams == 1)
    ids = [_ids(model, prompt, args, i) for i, prompt in enumerate(prompts, 1)]
    seeds = row_seeds(args.seed, range(1, len(prompts) + 1), args.samples).reshape(-1)
    warm = time.perf_counter()
    # The first step compiles the sampling kernel, or loads it from the cache: not part of the speed.
    generate(model.decoder, [ids[0][:1]], _plain(config))
    start = time.perf_counter()
    ready = model.seconds + start - warm

    if one_by_one:
        write = partial(print, end="", flush=True)
        replies = iter([reply(model, ids[0], config, seeds[0], write, assistant_model=assistant)])
    else:
        first = rows.done // args.samples
        rest = _replies(model, ids[first:], config, seeds[first * args.samples :], args, assistant)
        replies = islice(rest, rows.done % args.samples, None)
    return rows.written((one.record for one in replies), start, model.path, ready, streamed=one_by_one)


class _Rows:
    """The rows of a run, of which the first `done` are in `--output`.

    Raises:
        ValueError: the file was made by another run.
    """

    def __init__(self, args: argparse.Namespace, prompts: Sequence[Prompt]) -> None:
        self.count, self.done = len(prompts) * args.samples, 0
        self.made: dict[str, Any] = {}
        self._args = args
        self._prompts = prompts
        self._records: list[dict[str, Any]] = []  # for JSON
        if args.output is not None:
            given = {"system": args.system, "seed": args.seed, "samples": args.samples}
            if args.truncate_prompt_tokens is not None:
                given["truncate_prompt_tokens"] = args.truncate_prompt_tokens
            self.made = made_with(args) | given | options_of(args)
        for row in rows_written(args.output, self.made, map(self._begun, range(self.count))):
            self.done += 1
            if args.json:
                self._records.append(row)

    def _begun(self, number: int) -> dict[str, Any]:
        """The fields of a row about its prompt."""
        prompt, sample = divmod(number, self._args.samples)
        return {"line": prompt + 1, "sample": sample, **self._prompts[prompt].record}

    def written(
        self, responses: Iterator[dict[str, Any]], start: float, model: Path, ready: float, *,
        streamed: bool = False,
    ) -> int:  # fmt: skip
        """Print or write responses as they come, or JSON of all rows, and say the speed since `start`."""
        args, tokens, reason = self._args, 0, None
        # Text that a terminal shows as it comes is its own progress.
        shown = sys.stdout.isatty() and not args.json and args.output is None
        with appended(args.output, self.made, self.done) as write:
            told = responses if shown else counted(args, responses, f"of {self.count} responses", self.done)
            for number, response in enumerate(told, self.done):
                row = self._begun(number) | response
                tokens, reason = tokens + row["tokens"], row["finish_reason"]
                if write is not None:
                    write(row)
                if args.json:
                    self._records.append(row)
                elif write is None:
                    if self.count > 1:
                        print(f">>> {self._prompts[number // args.samples].text}")
                    print("" if streamed else row["response"], flush=True)
        seconds = time.perf_counter() - start
        speed = tokens / seconds if seconds else 0.0
        if args.json:
            summary = {
                "model": str(model),
                "responses": self._records,
                "tokens": sum(row["tokens"] for row in self._records),
                "seconds": seconds,
                "tokens_per_second": speed,
                "load_seconds": ready,
            }
            print(json.dumps(summary, ensure_ascii=False))
        elif reason is not None:
            loaded = f" (ready in {ready:.2f} s)" if ready else ""
            say(args, f"{tokens} tokens in {seconds:.2f} s, {speed:.1f} tokens/s{loaded}")
        return 130 if reason == "interrupted" else 0


def _run_on_ray(args: argparse.Namespace, prompts: Sequence[Prompt], rows: _Rows) -> int:
    """Let the actors of a Ray cluster write the responses."""
    job = {
        "generate_kwargs": options_of(args), "num_samples": args.samples, "seed": args.seed,
        "system": args.system, "raw": args.raw, "max_rows": args.batch_size, "id_key": "prompt_number",
        "truncate_prompt_tokens": args.truncate_prompt_tokens,
    }  # fmt: skip
    if args.assistant_model is not None:
        job["assistant_model"] = str(Path(args.assistant_model).absolute())
    given = [
        {"prompt_number": i, "prompt": None if prompt.messages else prompt.text, "messages": prompt.messages}
        for i, prompt in enumerate(prompts, 1)
    ][rows.done // args.samples :]
    start = time.perf_counter()
    model = model_path(args)
    found = islice(rows_on_ray(args, model, given, GenerateBatches, job), rows.done % args.samples, None)
    responses = ({name: plain(row[name]) for name in _TOLD if name in row} for row in found)
    return rows.written(responses, start, model, 0.0)


def _ids(model: LoadedModel, prompt: Prompt, args: argparse.Namespace, number: int) -> NDArray[np.int64]:
    """Ids that the model takes: before anything runs, so that no work is lost to a prompt behind."""
    try:
        most, new = args.truncate_prompt_tokens, options_of(args)["max_new_tokens"]
        return prompt_for(model.decoder, prompt.ids(model, args), most, new)
    except ValueError as error:
        raise ValueError(f"prompt {number}: {error}") from None


def _replies(
    model: LoadedModel, ids: Sequence[NDArray[np.int64]], config: GenerationConfig, seeds: NDArray[np.uint64],
    args: argparse.Namespace, assistant: OnnxDecoder | None,
) -> Iterator[Reply]:  # fmt: skip
    """Responses in the order of their prompts, each as soon as it and those before it have ended."""
    options: dict[str, Any] = {
        "num_samples": args.samples,
        "decode_text": model.tokenizer.decode,
        "max_rows": args.batch_size,
        "assistant_model": assistant,
    }
    if config.num_beams > 1:
        ended: Iterable[tuple[int, Generated]] = enumerate(
            generate(model.decoder, ids, config, seeds=seeds, **options)
        )
    else:
        ended = generate_each(model.decoder, ids, config, seeds=seeds.tolist(), **options)
    waiting: dict[int, Generated] = {}
    next_one = 0
    for number, response in ended:
        waiting[number] = response
        while next_one in waiting:
            done = waiting.pop(next_one)
            yield Reply(
                ids[next_one // args.samples].tolist(),
                done.tokens.tolist(),
                model.tokenizer.decode(done.tokens, skip_special_tokens=True),
                done.log_probs.tolist(),
                done.finish_reason,
                _more(done),
            )
            next_one += 1


def _plain(config: GenerationConfig) -> GenerationConfig:
    """One token of the same kind of sampling."""
    return dataclasses.replace(
        config, max_new_tokens=1, min_new_tokens=0, stop_sequences=(), num_beams=1, grammar=None
    )


def _more(response: Generated) -> dict[str, Any]:
    """Optional fields of a response: the score of a search, details of tokens."""
    more: dict[str, Any] = {}
    if response.score is not None:
        more["score"] = response.score
    if response.details is not None:
        columns = {
            entry.name: getattr(response.details, entry.name)
            for entry in dataclasses.fields(response.details)
        }
        more |= {name: value.tolist() for name, value in columns.items() if value is not None}
    return more
