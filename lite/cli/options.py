"""The command-line flags of generation, from the fields of `GenerationConfig`, and the resulting options."""

from __future__ import annotations

import argparse
import inspect
import json
import re
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from lite.models import GenerationConfig
from lite.models.generation.options import SAMPLING_KEYS

if TYPE_CHECKING:  # options are checked before the import of the runtime
    from lite.cli.model import LoadedModel

# Fields without a flag: other flags set them, or the model, or the output of the command.
_NO_FLAG = {
    "do_sample", "eos_token_ids", "max_new_tokens", "num_return_sequences", "pad_token_id",
    "skip_special_tokens", "stop_sequences",
}  # fmt: skip
_DETAILS = ("logprobs", "sampled_log_probs", "kept_ids", "entropy")
_NUMBERS = {"int": int, "int | None": int, "float": float, "float | None": float}
NEW_TOKENS, NEW_TOKENS_OF_CHAT = 64, 512


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add a flag for every option of generation; without a flag the model's default holds."""
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


def check_options(args: argparse.Namespace) -> None:
    """Check the options as far as that needs no model.

    Raises:
        ArgumentError: an option is out of range or of a wrong type, or excludes another one.
    """
    if args.chat:
        refused = {
            "--raw": args.raw,
            "--file": args.file,
            "--samples": args.samples > 1,
            "--no-stream": args.stream is False,
            "--ray": args.ray is not None,
            "--truncate-prompt-tokens": args.truncate_prompt_tokens is not None,
        }
        if wrong := [flag for flag, given in refused.items() if given]:
            raise argparse.ArgumentError(None, f"a chat does not go with {', '.join(wrong)}")
    elif not args.prompt and not args.file:
        raise argparse.ArgumentError(
            None, "a prompt is needed: lite generate \"prompt\" ('-' reads it, --file FILE reads many)"
        )
    if args.stream and (args.json or len(args.prompt) > 1 or args.samples > 1):
        raise argparse.ArgumentError(
            None, "--stream prints one response as text: give one prompt, one sample and no --json"
        )
    if args.stream and args.ray is not None:
        raise argparse.ArgumentError(
            None, "--stream prints text as it is written here, and --ray has it written elsewhere"
        )
    try:
        # The model's own end token, which a grammar needs, is not known yet.
        options = options_of(args) | {"num_return_sequences": args.samples, "eos_token_ids": (0,)}
        config = GenerationConfig.from_kwargs(options)
    except (TypeError, ValueError) as error:
        raise argparse.ArgumentError(None, str(error)) from None
    check_shown(config, args)


def check_shown(config: GenerationConfig, args: argparse.Namespace) -> None:
    """Check that the command can show the results that a configuration requests.

    Raises:
        ArgumentError: it cannot.
    """
    if args.chat and (config.wants_details or config.num_beams > 1):
        raise argparse.ArgumentError(
            None, "a chat does not go with --num-beams, nor with flags that ask for numbers of each token"
        )
    if args.stream and config.num_beams > 1:
        raise argparse.ArgumentError(None, "--stream does not go with --num-beams: beams end together")
    if config.wants_details and not args.json and args.output is None:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in _DETAILS)
        raise argparse.ArgumentError(None, f"{flags} are given with --json or --output only")


def config_of(args: argparse.Namespace, model: LoadedModel) -> GenerationConfig:
    """The configuration by the flags, with the defaults of the model's files.

    Raises:
        ArgumentError: the command cannot show the requested results.
        ValueError: the model contradicts an option.
    """
    config = GenerationConfig.from_kwargs(options_of(args), model.decoder.config)
    if config.grammar is not None:
        config = replace(config, grammar=config.grammar.bound(model.tokenizer))
    check_shown(config, args)
    return config


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """The options by the flags.

    Without a sampling flag, one sample and beams are greedy, whatever the model's files say.
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
    """The description of each attribute in a docstring in Google's style."""
    section = re.search(r"^Attributes:\n((?:    .*\n|\n)+)", inspect.getdoc(kind) or "", re.MULTILINE)
    lines = section.group(1) if section else ""
    entries = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", lines, re.MULTILINE)
    return {name: " ".join(text.split()).rstrip(".").replace("`", "") for name, text in entries}
