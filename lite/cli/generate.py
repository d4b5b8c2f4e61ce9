"""`lite generate`: text, token count and speed."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.cli import chat
from lite.cli.model import LoadedModel, load, load_assistant, model_path
from lite.cli.on_ray import rows_on_ray
from lite.cli.options import config_of, options_of
from lite.cli.output_files import appended, check_file, lines_written
from lite.cli.progress import counted, say
from lite.cli.prompts import Prompt, read_prompts
from lite.cli.reply import Reply, reply
from lite.data import row_seeds
from lite.data.tables.columns import plain
from lite.kernels import DrawDetails
from lite.models import GenerateBatches, Generated, GenerationConfig, OnnxDecoder, generate, generate_each

_TOLD = ("score", *(field.name for field in dataclasses.fields(DrawDetails)))


def run(args: argparse.Namespace) -> int:
    """Continue each prompt and print the text with its token count, log-prob and speed; or hold a chat."""
    if args.chat:
        return chat.run(args)
    check_file("--output", args.output, *(args.file or ()))
    prompts = read_prompts(args)
    count = len(prompts) * args.samples
    done = _done(args, prompts)
    if args.output is not None and done == count:
        say(args, f"nothing to do: all {count} responses are in {args.output}")
        return 0
    if args.stream and count > 1:  # of a file
        raise argparse.ArgumentError(None, f"--stream prints one response as text, got {count} prompts")
    if args.ray is not None:
        return _run_on_ray(args, prompts, done)
    plain_text = not args.json and args.output is None
    one_by_one = args.stream is None and count == 1 and plain_text and sys.stdout.isatty()
    model = load(args)
    assistant = load_assistant(args)
    config = config_of(args, model)
    one_by_one = args.stream or (one_by_one and config.num_beams == 1)
    ids = [_checked(model, prompt.ids(model, args), i) for i, prompt in enumerate(prompts, 1)]
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
        first = done // args.samples
        rest = _replies(model, ids[first:], config, seeds[first * args.samples :], args, assistant)
        replies = islice(rest, done % args.samples, None)
    said = ({**prompts[i // args.samples].record, **one.record} for i, one in enumerate(replies, done))
    return _print(args, prompts, said, start, model.path, ready, done, streamed=one_by_one)


def _done(args: argparse.Namespace, prompts: Sequence[Prompt]) -> int:
    """How many responses an earlier run has written to `--output`, in the order of the prompts.

    Raises:
        ValueError: to other prompts, or to other numbers of samples.
    """
    lines = lines_written(args.output, "generate")
    if lines:
        last, number = json.loads(lines[-1]), (len(lines) - 1) // args.samples
        expected = {"line": number + 1, **prompts[number].record} if number < len(prompts) else {}
        if not expected or {name: last.get(name) for name in expected} != expected:
            raise ValueError(
                f"--output {args.output} has {len(lines)} lines, and the last of them is no response to the "
                f"prompt that stands there with --samples {args.samples}: give another file."
            )
    return len(lines)


def _print(
    args: argparse.Namespace,
    prompts: Sequence[Prompt],
    responses: Iterable[dict[str, Any]],
    start: float,
    model: Path,
    ready: float,
    done: int,
    *,
    streamed: bool = False,
) -> int:
    """Print or write responses as they come, or JSON of all of them, and say the speed since `start`.

    `done` of the responses are in the file already.
    """
    records: list[dict[str, Any]] = []
    count = len(prompts) * args.samples
    # Text that a terminal shows as it comes is its own progress.
    shown = sys.stdout.isatty() and not args.json and args.output is None
    with appended(args.output, "generate") as sink:
        for record in responses if shown else counted(args, responses, f"of {count} responses", done):
            number = (done + len(records)) // args.samples
            records.append(record)
            if sink is not None:
                print(json.dumps({"line": number + 1, **record}), file=sink, flush=True)
            elif not args.json:
                if count > 1:
                    print(f">>> {prompts[number].text}")
                print("" if streamed else record["text"])
    seconds = time.perf_counter() - start
    tokens = sum(record["tokens"] for record in records)
    speed = tokens / seconds if seconds else 0.0
    if args.json:
        summary = {
            "model": str(model),
            "responses": records,
            "tokens": tokens,
            "seconds": seconds,
            "tokens_per_second": speed,
            "load_seconds": ready,
        }
        print(json.dumps(summary, ensure_ascii=False))
    else:
        loaded = f" (ready in {ready:.2f} s)" if ready else ""
        say(args, f"{tokens} tokens in {seconds:.2f} s, {speed:.1f} tokens/s{loaded}")
    return 130 if records[-1]["finish_reason"] == "interrupted" else 0


def _run_on_ray(args: argparse.Namespace, prompts: Sequence[Prompt], done: int) -> int:
    """The same responses, written by the actors of a Ray cluster."""
    job = {
        "generate_kwargs": options_of(args),
        "num_samples": args.samples,
        "seed": args.seed,
        "system": args.system,
        "raw": args.raw,
        "max_rows": args.batch_size,
        "id_key": "prompt_number",
    }
    if args.assistant_model is not None:
        job["assistant_model"] = str(Path(args.assistant_model).absolute())
    rows = [
        {"prompt_number": i, "prompt": None if prompt.messages else prompt.text, "messages": prompt.messages}
        for i, prompt in enumerate(prompts, 1)
    ][done // args.samples :]
    start = time.perf_counter()
    model = model_path(args)
    written = islice(rows_on_ray(args, model, rows, GenerateBatches, job), done % args.samples, None)
    return _print(args, prompts, (_of_row(row, prompts) for row in written), start, model, 0.0, done)


def _of_row(row: Mapping[str, Any], prompts: Sequence[Prompt]) -> dict[str, Any]:
    """A response as JSON has it."""
    record: dict[str, Any] = {
        **prompts[int(row["prompt_number"]) - 1].record,
        "text": row["response"],
        "tokens": int(row["tokens"]),
        "log_prob": float(row["log_prob"]),
        "finish_reason": row["finish_reason"],
    }
    told = {name: plain(row[name]) for name in _TOLD if name in row}
    if "score" in told:
        record["score"] = told.pop("score")
    if told:
        ids = {name: plain(row[name]) for name in ("prompt_ids", "response_ids", "logprobs")}
        record |= ids | told
    return record


def _checked(model: LoadedModel, ids: NDArray[np.int64], number: int) -> NDArray[np.int64]:
    """The ids, if the model takes them: before anything runs, so that no work is lost to a prompt behind."""
    try:
        return model.decoder.check_ids(ids)
    except ValueError as error:
        raise ValueError(f"prompt {number}: {error}") from None


def _replies(
    model: LoadedModel,
    ids: Sequence[NDArray[np.int64]],
    config: GenerationConfig,
    seeds: NDArray[np.uint64],
    args: argparse.Namespace,
    assistant: OnnxDecoder | None,
) -> Iterator[Reply]:
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
                done.tokens.tolist(),
                model.tokenizer.decode(done.tokens, skip_special_tokens=True),
                float(done.log_probs.sum()),
                done.finish_reason,
                _more(done, ids[next_one // args.samples]),
            )
            next_one += 1


def _plain(config: GenerationConfig) -> GenerationConfig:
    """One token of the same kind of sampling."""
    return dataclasses.replace(
        config, max_new_tokens=1, min_new_tokens=0, stop_sequences=(), num_beams=1, grammar=None
    )


def _more(response: Generated, prompt: NDArray[np.int64]) -> dict[str, Any]:
    """What JSON has of a response where its options ask for it: the score of a search, details of each token.

    With details come the ids, named so that `lite mismatch` reads them.
    """
    more: dict[str, Any] = {}
    if response.score is not None:
        more["score"] = response.score
    if response.details is not None:
        more |= {
            "prompt_ids": prompt.tolist(),
            "response_ids": response.tokens.tolist(),
            "logprobs": response.log_probs.tolist(),
        }
        columns = {
            entry.name: getattr(response.details, entry.name)
            for entry in dataclasses.fields(response.details)
        }
        more |= {name: value.tolist() for name, value in columns.items() if value is not None}
    return more
