"""`lite mismatch`: how far log-probs of exports, or of what other tools wrote, are apart, and why."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lite.cli.model import LoadedModel, open_decoder
from lite.cli.output_files import check_file
from lite.cli.pages.mismatch import bin_names, page
from lite.cli.progress import say
from lite.cli.prompts import read_prompts, with_own_names
from lite.cli.score import read_records
from lite.models import (
    GenerationConfig,
    LoggedResponse,
    Mismatch,
    OnnxDecoder,
    generate,
    mismatch,
    read_log_probs,
)
from lite.models.batches.rows import is_messages, row_of
from lite.models.comparison.logged import NAMES

# What B responds to where no data are given.
_PROMPTS = (
    "Write a short story about a lighthouse.",
    "Explain why the sky is blue.",
    "List five uses of a paper clip.",
    "def quicksort(items):",
    "Translate to French: the weather is fine today.",
    "What is 17 * 23? Think step by step.",
)
_WIDTH = 40  # of the longest bar


def run(args: argparse.Namespace) -> int:
    """Print what `mismatch` finds, as a table or JSON; `--html` writes a page as well."""
    a, b = (
        _Side("A", args.a, args.variant, args.adapter),
        _Side("B", args.b, args.variant_b, args.adapter_b),
    )
    if b.is_model and not a.is_model:
        raise argparse.ArgumentError(
            None,
            f"A must be the folder of a model if B is one, got {args.a}: log-probs of a file come second",
        )
    if args.data is not None and not b.is_model:
        raise argparse.ArgumentError(
            None, f"--data is for two models; the tokens to compare are those of {args.b}"
        )
    check_file("--html", args.html, args.a, args.b, args.data)
    of_a = a.read(args)
    of_b, rows = _model_and_rows(b, args) if b.is_model else (b.read(args), None)
    compared = rows if rows is not None else of_b
    if isinstance(compared, list):
        tokens = sum(len(row.response_ids) for row in compared)
        say(args, f"comparing {tokens} tokens of {len(compared)} responses")
    found = mismatch(of_a, of_b, rows, divergence=args.divergence, bos_token_id=args.bos_token_id)
    if args.html is not None:
        Path(args.html).write_text(page(found, args.a, args.b, _verdict(found)), encoding="utf-8")
    if args.json:
        print(json.dumps({"a": args.a, "b": args.b, **found.to_dict()}, ensure_ascii=False))
    else:
        _print(found, args)
    return 0


@dataclass(frozen=True)
class _Side:
    """One side as it is named on the command line."""

    letter: str
    name: str
    variant: str | None
    adapter: str | None

    @property
    def is_model(self) -> bool:
        return os.path.isdir(self.name) or self.name.endswith(".onnx")

    def read(self, args: argparse.Namespace) -> OnnxDecoder | list[LoggedResponse]:
        if self.is_model:
            return open_decoder(self.name, args, self.variant, self.adapter)
        for flag, given in (("variant", self.variant), ("adapter", self.adapter)):
            if given is not None:
                end = "" if self.letter == "A" else "-b"
                raise ValueError(f"--{flag}{end} is for a model, and {self.letter} is the file {self.name}")
        return read_log_probs(self.name)


def _model_and_rows(side: _Side, args: argparse.Namespace) -> tuple[OnnxDecoder, list[LoggedResponse]]:
    """Model B and the responses to compare: those of `--data`, or some that B draws to its prompts."""
    given = None if args.data is None else _form(args.data)
    if given == "ids":
        decoder = open_decoder(side.name, args, side.variant, side.adapter)
        return decoder, read_log_probs(args.data, needed=False)
    model = LoadedModel(Path(side.name), args, side.variant, side.adapter)
    if given == "texts":
        rows = []
        with open(args.data, encoding="utf-8-sig") as file:
            for record in read_records(file):
                try:
                    ids, start = row_of(model, record, args.raw)
                except ValueError as error:
                    raise ValueError(f"line {record['line']}: {error}") from None
                rows.append(LoggedResponse(ids[:start], ids[start:], where=f"line {record['line']}"))
        return model.decoder, rows
    args.system, args.prompt, args.file = None, _PROMPTS, ()
    if given == "prompts":
        args.prompt, args.file = (), (args.data,)
    prompts = []
    for number, prompt in enumerate(read_prompts(args), 1):
        try:
            prompts.append(model.decoder.check_ids(prompt.ids(model, args)))
        except ValueError as error:
            raise ValueError(f"prompt {number}: {error}") from None
    config = GenerationConfig(
        max_new_tokens=args.max_new_tokens,
        do_sample=True,
        eos_token_ids=model.decoder.config.eos_token_ids if model.decoder.config else (),
    )
    say(args, f"B responds to {len(prompts)} prompts, {args.samples} times each")
    seeds = np.random.default_rng(args.seed).integers(0, 2**63, len(prompts) * args.samples, dtype=np.uint64)
    responses = generate(model.decoder, prompts, config, seeds=seeds, num_samples=args.samples)
    return model.decoder, [
        LoggedResponse(prompts[i // args.samples], response.tokens)
        for i, response in enumerate(responses)
        if len(response.tokens)
    ]


def _form(name: str) -> str:
    """What the first row of a file has: "ids"; "texts", as `lite score` takes them; or "prompts" alone."""
    with open(name, encoding="utf-8-sig", errors="replace") as file:
        if not Path(name).is_file():
            raise ValueError(f"--data {name} is read twice, which a pipe is not: give a file")
        line = next((line for line in file if line.strip()), "")
    try:
        record = with_own_names(json.loads(line))
    except (ValueError, RecursionError):
        return "ids"  # whoever reads it says what is wrong
    if not isinstance(record, dict) or isinstance(record.get("response_ids"), list):
        return "ids"
    turns: Any = record.get("messages")
    if isinstance(record.get("response", record.get("text")), str) or isinstance(turns, list):
        unanswered = is_messages(turns) and turns[-1]["role"] != "assistant" and "response" not in record
        return "prompts" if unanswered else "texts"
    return "prompts" if isinstance(record.get("prompt"), str) and NAMES.isdisjoint(record) else "ids"


def _print(found: Mismatch, args: argparse.Namespace) -> None:
    """Print a comparison as text."""
    numbers, late = found.estimates, found.first_divergence
    diverged = late[late >= 0]
    sizes = ", ".join(f"{p:g}%: {value:.4f}" for p, value in numbers.percentiles.items())
    lines = {
        "A": args.a,
        "B": args.b,
        "compared": f"{found.tokens} tokens of {len(found.rows)} responses",
        "log A - log B": f"mean {numbers.mean:+.5f}, deviation {numbers.deviation:.5f}",
        "its size": f"mean {numbers.mean_abs:.5f}, {sizes}, max {numbers.max_abs:.4f}",
        "KL(B, A)": f"k1 {numbers.k1:z.3g}, k3 {numbers.k3:z.3g}; chi-square {numbers.chi_square:z.3g}",
        "ratio A / B": f"mean {numbers.ratio_mean:.4f}, median {numbers.ratio_median:.4f}, "
        f"{numbers.outside:.2%} outside [0.9, 1.1]",
        "diverged": f"{len(diverged)} responses have a difference above {found.divergence:g}"
        + (f", the first at position {diverged.min()}" if len(diverged) else ""),
    }
    for name, text in lines.items():
        print(f"{name:<14} {text}")
    print("\nratio A / B")
    most = max(numbers.histogram)
    for name, count in zip(bin_names(), numbers.histogram, strict=True):
        print(f"{name:>14} {count:>9}  {'#' * round(_WIDTH * count / most)}".rstrip())
    for title, groups in (("position", found.by_position), ("probability", found.by_probability)):
        print(f"\n{title:<14} {'tokens':>9} {'mean':>9} {'mean size':>10}")
        for g in groups:
            print(f"{f'{g.low:g} to {g.high:g}':<14} {g.tokens:>9} {g.mean:>+9.4f} {g.mean_abs:>10.4f}")
    print(f"\ncause: {_verdict(found)}")
    for cause in found.tried:
        if cause.explained > 0:
            print(f"  {cause.explained:>6.1%} {cause.name}: {cause.detail}")


def _verdict(found: Mismatch) -> str:
    """The likely cause in a sentence."""
    cause = found.cause
    if cause is None:
        return "none: the two agree to rounding"
    share = f" ({cause.explained:.1%} of the difference)" if cause.explained else ""
    return f"{cause.name}: {cause.detail}{share}"
