"""Loading a model directory for a command."""

from __future__ import annotations

import argparse
import hashlib
import time
from pathlib import Path
from typing import Any

from lite.cli.progress import say
from lite.models import ModelConfig, OnnxDecoder, Tokenizer, embedded_model_path
from lite.models.decoder.adapters import LEARNT

_OF_PEFT = ("adapter_config.json", "adapter_model.safetensors")


class LoadedModel:
    """Decoder and tokenizer of one directory.

    Attributes:
        path: the directory.
        decoder: the graph behind its cache.
        tokenizer: the tokenizer beside the graph.
        seconds: the time of loading.
    """

    def __init__(
        self, path: Path, args: argparse.Namespace, variant: str | None, adapter: str | None
    ) -> None:
        start = time.perf_counter()
        self.path = path
        self.decoder = open_decoder(path, args, variant, adapter)
        self.tokenizer = Tokenizer.from_pretrained(path)
        self.seconds = time.perf_counter() - start


def load(args: argparse.Namespace) -> LoadedModel:
    """Load the model that `--model` names, or the embedded one."""
    return LoadedModel(model_path(args), args, args.variant, args.adapter)


def model_path(args: argparse.Namespace) -> Path:
    """The path of `--model`, or else of the embedded model, with a line that says so."""
    if not args.model:
        say(args, "no --model is given: this is the small model that comes with the package")
    return _folder(args)


def made_with(args: argparse.Namespace) -> dict[str, Any]:
    """The settings that `--output` records for a command: the model, its adapter, how prompts are read.

    Raises:
        FileNotFoundError, ValueError: see `ModelConfig.from_directory`.
    """
    folder, adapter = _folder(args), None
    config = ModelConfig.from_directory(folder, variant=args.variant)
    if args.adapter is not None:
        adapter = {"path": str(Path(args.adapter).absolute()), "sha256": _digest(Path(args.adapter))}
    return {
        "command": args.command,
        "model": {"path": str(config.graph.absolute()), "sha256": config.digest()},
        "adapter": adapter,
        "raw": args.raw,
    }


def _digest(path: Path) -> str:
    """The hash of a file, of the two files of a PEFT folder, or of the adapter file of `lite learn`."""
    files = [path / name for name in _OF_PEFT] if path.is_dir() else [path]
    if (path / LEARNT).is_file() and not any(file.is_file() for file in files):
        files = [path / LEARNT]
    missing = [file for file in files if not file.is_file()]
    if missing:
        raise FileNotFoundError(f"--adapter {path}: there is no file {missing[0]}")
    found = hashlib.sha256()
    for file in files:
        found.update(file.read_bytes())
    return found.hexdigest()


def _folder(args: argparse.Namespace) -> Path:
    return Path(args.model) if args.model else embedded_model_path()


def open_decoder(
    path: str | Path, args: argparse.Namespace, variant: str | None, adapter: str | None
) -> OnnxDecoder:
    """Open one of a folder's graphs, or its only one, with the adapter of a file if one is given."""
    adapters = named_adapter(adapter)
    decoder = OnnxDecoder(
        path, device=args.device, num_threads=args.threads, variant=variant, adapters=adapters
    )
    decoder.adapter = next(iter(adapters), None)
    return decoder


def named_adapter(file: str | None) -> dict[str, str]:
    """The file of `--adapter` under its own name, as `adapters` are given; empty for None."""
    return {} if file is None else {Path(file).stem: file}


def load_assistant(args: argparse.Namespace) -> OnnxDecoder | None:
    """Load the model that `--assistant-model` names, if it names one."""
    if args.assistant_model is None:
        return None
    try:
        return open_decoder(args.assistant_model, args, None, None)
    except (FileNotFoundError, ValueError) as error:
        raise type(error)(f"--assistant-model: {error}") from None
