"""`lite info`: the contents of a model directory and how it will be run, or why it is refused."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import textwrap
import time
import warnings
from pathlib import Path
from typing import Any

from lite.cli.info_files import describe
from lite.cli.model import model_path, open_decoder
from lite.kernels._install import install
from lite.kernels.backends.choice import choice
from lite.models import GraphSpec, ModelConfig, OnnxDecoder, Padding, Tokenizer
from lite.models.decoder.device_logits import drawn_on_gpus
from lite.models.graph.runtime import import_onnxruntime
from lite.models.graph.session import default_threads
from lite.models.graph.tensors import ELEMENT_TYPES

_SHARING = {
    Padding.SLOTS: "a slot for each row; rows of any lengths decode together, prompts run one by one",
    Padding.LEFT: "rows of any lengths run together, padded on the left",
    Padding.EQUAL: "only rows of equal length run together",
    Padding.RIGHT: "rows of any lengths run together, padded on the right",
}
_MOST = 40  # lines of a section
_ATTENTION = ("GroupQueryAttention", "MultiHeadAttention", "Attention", "PagedAttention")


def run(args: argparse.Namespace) -> int:
    """Print what a file or folder holds; of a model its run plan, convention, configuration and tokenizer.

    For a model that is refused, prints what was found and the reason, and returns 1.
    """
    if args.path is not None:
        described = describe(Path(args.path))
        if described is not None:
            _show(described, args)
            return 0
        args.model = args.path
    path = model_path(args)
    start = time.perf_counter()
    config = ModelConfig.from_directory(path, variant=args.variant)
    facts: dict[str, Any] = {"model": str(path)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the notes say the same
            decoder = open_decoder(path, args, args.variant, args.adapter)
    except (ValueError, TimeoutError) as error:
        facts |= {"refused": " ".join(str(error).split()), "found": _found(config)}
        if Path(f"{config.graph}.json").is_file():
            facts["notes"] = ["to_onnx wrote this graph of a module: lite.models.OnnxModule runs it"]
    else:
        facts |= {
            "plan": _plan(decoder, args),
            "notes": _notes(decoder),
            "graph": _for_json(dataclasses.asdict(decoder.spec)),
        }
    files = dataclasses.asdict(dataclasses.replace(config, summary=None))
    for whole_file in ("raw", "genai", "summary"):
        files.pop(whole_file)
    facts |= {"config": _for_json(files), "tokenizer": _tokenizer(path)}
    facts["load_seconds"] = round(time.perf_counter() - start, 3)
    _show(facts, args)
    return 1 if "refused" in facts else 0


def _show(facts: dict[str, Any], args: argparse.Namespace) -> None:
    if args.json:
        print(json.dumps(facts, ensure_ascii=False))
    else:
        _print(facts)


def _kernels() -> str:
    """The backend of `lite.kernels` in this process."""
    found = choice()
    return found.backend if found.library is None else f"{found.backend}, {found.library.level}"


def _plan(decoder: OnnxDecoder, args: argparse.Namespace) -> dict[str, Any]:
    """How the model will be run."""
    spec, context = decoder.spec, decoder.context_length
    providers: list[str] = getattr(decoder.session, "get_providers", list)()
    each = decoder.bytes_per_token
    on_numpy = decoder.runtime == "numpy"
    return {
        "provider": providers[0] if providers else None,
        "runtime": decoder.runtime,
        "onnxruntime": None if on_numpy else import_onnxruntime().__version__,
        "threads": None if on_numpy else args.threads or default_threads(),
        "kernels": _kernels(),
        "attention": _attention(spec, decoder.config),
        "weights": spec.quantisation or "not quantised",
        "adapters": f"{len(spec.optional)} optional inputs" if spec.optional else None,
        "adapter": decoder.adapter,
        "window": spec.window,
        "padding": spec.padding.value,
        "rows": _SHARING[spec.padding],
        "cache_type": ELEMENT_TYPES[spec.cache_type].name if spec.cache else None,
        "cache_bytes_per_token": each,
        "context_length": context,
        "cache_bytes_of_a_full_row": None if context is None else each * context,
    }


def _attention(spec: GraphSpec, config: ModelConfig | None) -> str:
    if not spec.cache:
        return "no cache: whole rows run again for each token"
    if spec.in_place:
        return "GroupQueryAttention for the exported operators, past and present in one buffer"
    if spec.group_query:
        return "GroupQueryAttention, past and present in one buffer"
    operators = config.summary.op_types if config and config.summary else frozenset[str]()
    operator = next((name for name in _ATTENTION if name in operators), "plain operators")
    if spec.static_length is not None:
        return f"{operator}, new keys written into a cache of {spec.static_length} positions"
    return f"{operator}, past and new keys concatenated at each step"


def _found(config: ModelConfig) -> dict[str, Any]:
    """The properties of a graph that are known without running it."""
    summary = config.summary
    operators = summary.op_types if summary else frozenset[str]()
    return {
        "graph": config.graph.name,
        "bytes": config.graph.stat().st_size,
        "external_data": sorted(summary.external_files) if summary else [],
        "producer": summary.producer if summary else "",
        "attention": [name for name in _ATTENTION if name in operators],
        "quantisation": [name for name in ("MatMulInteger", "MatMulNBits") if name in operators],
        "operators": len(operators),
    }


def _tokenizer(path: Path) -> dict[str, Any]:
    try:
        tokenizer = Tokenizer.from_pretrained(path)
    except (OSError, ValueError, ImportError) as error:  # the graph runs without: on token ids
        return {"refused": " ".join(str(error).split())}
    return {
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "chat_template": tokenizer.chat_template is not None,
    }


def _notes(decoder: OnnxDecoder) -> list[str]:
    """Reasons why this graph is slower, or less exact, than other exports of its model."""
    spec, notes = decoder.spec, []
    if not spec.cache:
        notes.append(
            "the graph has no key/value cache, so each new token runs its whole row again: generation is "
            "slow, scoring is not. An export with past key values generates faster"
        )
    if spec.prompts is not None:
        notes.append(
            "a graph of its own reads prompts and what is scored, whole; further tokens "
            + ("run one at a time" if spec.one_token else "run on the other")
        )
    elif spec.one_token:
        notes.append("the graph takes one new token at a time: prompts and scores run token by token")
    elif spec.last_logits_only:
        notes.append(
            "the graph gives the logits of the last position only: scoring runs token by token, and prompts "
            "share a run only if they are equally long. An export with all logits is faster at both"
        )
    if spec.one_row:
        notes.append("the graph takes one row at a time: a batch is as slow as its rows one after the other")
    if spec.quantisation == "MatMulInteger":
        notes.append(
            "the graph is dynamically quantised (MatMulInteger): its log-probs depend on what else is in the "
            "run (by 0.1 to 0.25 typically). An export in float32 or with MatMulNBits does not"
        )
    summary = decoder.config.summary if decoder.config else None
    half = "tensor(float16)" in (spec.cache_type, spec.logits_type) or bool(summary and summary.half_weights)
    if half and decoder.device == "cpu":
        notes.append(
            "the graph is in float16, which onnxruntime converts to float32 and back at every operator on a "
            "CPU: it is slower there than the same model in float32, int8 or int4"
        )
    if decoder.device != "cpu" and not drawn_on_gpus():
        notes.append(
            "Numba finds no GPU, so the logits of each step are copied to the host and drawn from there: "
            + install("cuda")
        )
    return notes


def _print(facts: dict[str, Any]) -> None:
    for section, value in facts.items():
        if section == "notes":
            for note in value:
                print(_wrapped(f"note: {note}"))
        elif isinstance(value, dict):
            print(f"{section}:" if value else f"{section}: none")
            for key, item in itertools.islice(value.items(), _MOST):
                if key == "cache":
                    item = _tensors([tensor["past"] for tensor in item])
                elif key == "optional":
                    item = _tensors(item)
                elif isinstance(item, dict) and key == "prompts":
                    item = "another graph"  # its own facts would be as long as all others
                elif isinstance(item, dict):
                    item = ", ".join(f"{name}={told}" for name, told in item.items())
                elif isinstance(item, list):
                    item = ", ".join(
                        " ".join(map(str, one)) if isinstance(one, list) else str(one) for one in item
                    )
                print(_wrapped(f"  {key}: {'none' if item in (None, '') else item}"))
            if len(value) > _MOST:
                print(f"  and {len(value) - _MOST} more: --json has them")
        else:
            print(_wrapped(f"{section}: {value}"))


def _tensors(names: list[str]) -> str:
    """Many names as their number, the first and the last."""
    if len(names) < 3:
        return ", ".join(names)
    return f"{len(names)} tensors, {names[0]} to {names[-1]}"


def _wrapped(line: str) -> str:
    """A line broken where a terminal would, its further lines indented."""
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return textwrap.fill(line, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _for_json(value: Any) -> Any:
    """A form that JSON can hold: enums, paths and dtypes by their text."""
    if isinstance(value, dict):
        return {str(k): _for_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_for_json(v) for v in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
