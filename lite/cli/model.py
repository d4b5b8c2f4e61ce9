"""Loading a model directory for a command."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from lite.models import OnnxDecoder, Tokenizer, embedded_model_path


class LoadedModel:
    """Decoder and tokenizer of one directory.

    Attributes:
        path: the directory.
        decoder: the graph behind its cache.
        tokenizer: the tokenizer beside the graph.
        seconds: what loading took.
    """

    def __init__(self, path: Path, device: str, num_threads: int | None = None) -> None:
        start = time.perf_counter()
        self.path = path
        self.decoder = OnnxDecoder(path, device=device, num_threads=num_threads)
        self.tokenizer = Tokenizer.from_pretrained(path)
        self.seconds = time.perf_counter() - start


def load(args: argparse.Namespace) -> LoadedModel:
    """Load the model that `--model` names, or the embedded one."""
    path = Path(args.model) if args.model else embedded_model_path()
    return LoadedModel(path, args.device, args.threads)


def load_assistant(args: argparse.Namespace) -> OnnxDecoder | None:
    """Load the model that `--assistant-model` names, if it names one."""
    if args.assistant_model is None:
        return None
    return OnnxDecoder(args.assistant_model, device=args.device, num_threads=args.threads)
