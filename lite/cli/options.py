"""The flags of generation, made from the fields of `GenerationConfig`, and the configuration they give."""

from __future__ import annotations

import argparse
import inspect
import json
import re
from dataclasses import fields, replace
from typing import Any

from lite.cli.model import LoadedModel
from lite.models import GenerationConfig
from lite.models.generation.options import SAMPLING_KEYS

# Fields that are no flag: said in another way, belonging to the model, or settled by how text is printed.
_NO_FLAG = {
    "do_sample",
    "eos_token_ids",
    "max_new_tokens",
    "num_return_sequences",
    "pad_token_id",
    "skip_special_tokens",
    "stop_sequences",
}
_NUMBERS = {"int": int, "int | None": int, "float": float, "float | None": float}
NEW_TOKENS, NEW_TOKENS_OF_CHAT = 64, 512


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add a flag for every option of generation; those that are not given leave the model's defaults."""
    parser.add_argument(
        "--max-new-tokens",
        type=int,
        metavar="N",
        help=f"most tokens per response ({NEW_TOKENS}; in a chat {NEW_TOKENS_OF_CHAT})",
    )
    parser.add_argument("--stop", action="append", metavar="TEXT", help="end a response after this text")
    said = _said(GenerationConfig)
    for field in fields(GenerationConfig):
        kind = str(field.type)
        if field.name in _NO_FLAG or "Callable" in kind or "Processor" in kind:
            continue
        flag, text = f"--{field.name.replace('_', '-')}", said.get(field.name, "").replace("%", "%%")
        if field.name == "temperature":
            text += "; greedy unless something of sampling is asked for"
        if kind == "bool":
            parser.add_argument(flag, action="store_const", const=True, help=text)
        else:
            metavar = {"int": "N", "float": "X"}.get(kind.removesuffix(" | None"), "JSON")
            parser.add_argument(flag, type=_NUMBERS.get(kind, _value), metavar=metavar, help=text)


def config_of(args: argparse.Namespace, model: LoadedModel) -> GenerationConfig:
    """The configuration that the flags ask for, on top of what the model's files say.

    Raises:
        ValueError, TypeError: a value is out of range; the message names the option.
    """
    config = GenerationConfig.from_kwargs(options_of(args), model.decoder.config)
    if config.grammar is not None:
        config = replace(config, grammar=config.grammar.bound(model.tokenizer))
    return config


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """The options that the flags ask for.

    Without a word about sampling, one sample, or beams, are greedy whatever the model's files say.
    """
    names = {field.name for field in fields(GenerationConfig)} - _NO_FLAG
    given = {name: getattr(args, name, None) for name in sorted(names)}
    options = {name: value for name, value in given.items() if value is not None}
    options["max_new_tokens"] = args.max_new_tokens
    if args.max_new_tokens is None:
        options["max_new_tokens"] = NEW_TOKENS_OF_CHAT if args.chat else NEW_TOKENS
    if args.stop:
        options["stop_sequences"] = args.stop
    if not SAMPLING_KEYS & set(options):
        options["do_sample"] = args.samples > 1 and options.get("num_beams", 1) == 1
    return options


def _value(text: str) -> Any:
    """JSON, or else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _said(kind: type) -> dict[str, str]:
    """What a docstring in Google's style says of each attribute."""
    section = re.search(r"^Attributes:\n((?:    .*\n|\n)+)", inspect.getdoc(kind) or "", re.MULTILINE)
    lines = section.group(1) if section else ""
    entries = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", lines, re.MULTILINE)
    return {name: " ".join(text.split()).rstrip(".").replace("`", "") for name, text in entries}
