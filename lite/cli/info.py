"""`lite info`: what a model directory holds and how it will be run."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import Any

from lite.cli.model import load


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
        if isinstance(value, dict):
            print(f"{section}:")
            for key, item in value.items():
                print(f"  {key}: {item}")
        else:
            print(f"{section}: {value}")
    return 0


def _for_json(value: Any) -> Any:
    """A form that JSON can hold: enums, paths and dtypes by their text."""
    if isinstance(value, dict):
        return {str(k): _for_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_for_json(v) for v in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
