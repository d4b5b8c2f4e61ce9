"""`lite info`: what a model directory holds and how it will be run."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import Any

from lite.cli.model import load
from lite.models import GraphSpec


def run(args: argparse.Namespace) -> int:
    """Print the graph convention, the configuration and the tokenizer of a model directory."""
    model = load(args)
    tokenizer = model.tokenizer
    config = {} if model.decoder.config is None else dataclasses.asdict(model.decoder.config)
    for whole_file in ("raw", "genai", "summary"):
        config.pop(whole_file, None)
    facts: dict[str, Any] = {
        "model": str(model.path),
        "graph": _for_json(dataclasses.asdict(model.decoder.spec)),
        "notes": _notes(model.decoder.spec),
        "config": _for_json(config),
        "tokenizer": {
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
            "chat_template": tokenizer.chat_template is not None,
        },
        "load_seconds": round(model.seconds, 3),
    }
    if args.json:
        print(json.dumps(facts, ensure_ascii=False))
        return 0
    for section, value in facts.items():
        if section == "notes":
            for note in value:
                print(f"note: {note}")
        elif isinstance(value, dict):
            print(f"{section}:")
            for key, item in value.items():
                print(f"  {key}: {item}")
        else:
            print(f"{section}: {value}")
    return 0


def _notes(spec: GraphSpec) -> list[str]:
    """What makes this graph slower than others of its model would be."""
    notes = []
    if not spec.cache:
        notes.append(
            "the graph has no key/value cache, so each new token runs its whole row again: generation is "
            "slow, scoring is not. An export with past key values generates faster"
        )
    if spec.one_token:
        notes.append("the graph takes one new token at a time: prompts and scores run token by token")
    elif spec.last_logits_only:
        notes.append(
            "the graph gives the logits of the last position only: scoring runs token by token, and prompts "
            "share a run only if they are equally long. An export with all logits is faster at both"
        )
    if spec.one_row:
        notes.append("the graph takes one row at a time: a batch is as slow as its rows one after the other")
    return notes


def _for_json(value: Any) -> Any:
    """A form that JSON can hold: enums, paths and dtypes by their text."""
    if isinstance(value, dict):
        return {str(k): _for_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_for_json(v) for v in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
