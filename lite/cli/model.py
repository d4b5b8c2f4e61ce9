"""Loading a model directory for a command."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lite.models import OnnxDecoder, Tokenizer, embedded_model_path


class LoadedModel:
    """Decoder and tokenizer of one directory.

    Attributes:
        path: the directory.
        decoder: the graph behind its cache.
        tokenizer: the tokenizer beside the graph.
        seconds: what loading took.
    """

    def __init__(self, path: Path, device: str) -> None:
        start = time.perf_counter()
        self.path = path
        self.decoder = OnnxDecoder(path, device=device)
        self.tokenizer = Tokenizer.from_pretrained(path)
        self.seconds = time.perf_counter() - start


def load(args: argparse.Namespace) -> LoadedModel:
    """Load the model that `--model` names, or the embedded one."""
    return LoadedModel(Path(args.model) if args.model else embedded_model_path(), args.device)


def prompt_ids(
    tokenizer: Tokenizer, prompt: str, *, raw: bool, system: str | None = None
) -> NDArray[np.int64]:
    """Token ids of a prompt, as one user turn of the chat template unless `raw` or there is none."""
    if raw or tokenizer.chat_template is None:
        text = prompt if system is None else f"{system}\n{prompt}"
        return np.asarray(tokenizer.encode(text), np.int64)
    messages = [{"role": "user", "content": prompt}]
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
    return chat_ids(tokenizer, messages, add_generation_prompt=True)


def chat_ids(
    tokenizer: Tokenizer, messages: list[dict[str, str]], *, add_generation_prompt: bool
) -> NDArray[np.int64]:
    """Token ids of a conversation rendered by the model's chat template."""
    text = tokenizer.apply_chat_template(
        messages, add_generation_prompt=add_generation_prompt, tokenize=False
    )
    return np.asarray(tokenizer.encode(text, add_special_tokens=False), np.int64)
