"""Loading a model directory for a command."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.models import OnnxDecoder, Tokenizer, embedded_model_path
from lite.models.text.assistant_spans import turn_end


class LoadedModel:
    """Decoder and tokenizer of one directory.

    Attributes:
        path: the directory.
        decoder: the graph behind its cache.
        tokenizer: the tokenizer beside the graph.
        seconds: what loading took.
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
    path = Path(args.model) if args.model else embedded_model_path()
    return LoadedModel(path, args, args.variant, args.adapter)


def open_decoder(
    path: str | Path, args: argparse.Namespace, variant: str | None, adapter: str | None
) -> OnnxDecoder:
    """Open one of a folder's graphs, or its only one, with the adapter of a file if there is to be one."""
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


def end_ids(model: LoadedModel, messages: Sequence[Mapping[str, Any]]) -> list[int]:
    """Token ids that end an assistant's turn after `messages`, as the model was trained to write them.

    They are what the chat template writes after a content, up to the first token that ends a response, or
    else up to the first special one. Without a template or such a token: the tokenizer's end token.
    """
    tokenizer = model.tokenizer
    eos = tokenizer.eos_token_id
    fallback = [] if eos is None else [eos]
    if tokenizer.chat_template is None:
        return fallback

    def render(turns: Sequence[Mapping[str, Any]], **options: Any) -> str:
        text: str = tokenizer.apply_chat_template(turns, tokenize=False, **options)
        return text

    try:
        tail = tokenizer.encode(turn_end(render, messages), add_special_tokens=False)
    except ValueError:  # the template writes no turn of an assistant here, or otherwise than as it is
        return fallback
    added = tokenizer.backend.get_added_tokens_decoder()
    ends = {*fallback, *(model.decoder.config.eos_token_ids if model.decoder.config else ())}
    special = {index for index, token in added.items() if token.special}
    for wanted in (ends, special):
        if (at := next((i for i, index in enumerate(tail) if index in wanted), None)) is not None:
            return tail[: at + 1]
    return fallback


def chat_ids(
    tokenizer: Tokenizer, messages: list[dict[str, str]], *, add_generation_prompt: bool
) -> NDArray[np.int64]:
    """Token ids of a conversation rendered by the model's chat template."""
    text = tokenizer.apply_chat_template(
        messages, add_generation_prompt=add_generation_prompt, tokenize=False
    )
    return np.asarray(tokenizer.encode(text, add_special_tokens=False), np.int64)
