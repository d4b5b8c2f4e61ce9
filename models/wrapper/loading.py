"""The model and tokenizer of a wrapper, from folders or as objects."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lite.models.decoder.decoder import OnnxDecoder
from lite.models.decoder.protocol import check_decoder
from lite.models.text.tokenizer import Tokenizer
from lite.models.wrapper.options import InputMode


def load_model(
    model: Any,
    device: str | None,
    *,
    adapters: Mapping[str, str | Path] | None = None,
    adapter: str | None = None,
) -> Any:
    """The decoder of a folder or file, or the object that was given instead.

    Args:
        model: a path, or a `Decoder`.
        device: where to open a path.
        adapters: files of adapters to open a path with, by name.
        adapter: the name of one, which the model must have.

    Raises:
        ValueError: ``device`` differs from that of the object, ``adapters`` are given for an object, or there
            is no such ``adapter``.
        TypeError: the object lacks the interface of `Decoder`.
    """
    model = _decoder(model, device, adapters)
    known = getattr(model, "adapters", ())
    if adapter is not None and adapter not in known:
        names = ", ".join(map(repr, known)) or "none was given"
        raise ValueError(f"adapter must be None or one of the model's adapters ({names}), got {adapter!r}")
    return model


def _decoder(model: Any, device: str | None, adapters: Mapping[str, str | Path] | None) -> Any:
    if isinstance(model, (str, Path)):
        return OnnxDecoder(model, device=device or "cpu", adapters=adapters)
    check_decoder(model)
    if adapters is not None:
        raise ValueError("adapters are for a model given as a path; give them where the model is made")
    own = getattr(model, "device", "cpu")
    if device not in (None, own):
        raise ValueError(
            f"device={device!r} differs from the model's, {own!r}; give the device where the model is made"
        )
    return model


def load_tokenizer(tokenizer: Any, model: Any, mode: InputMode) -> Any:
    """The tokenizer given (a folder or an object), or else the model's; in tokens mode possibly None.

    Raises:
        FileNotFoundError: a folder holds no tokenizer.
        ValueError: the mode needs a tokenizer and there is none.
    """
    if isinstance(tokenizer, (str, Path)):
        return Tokenizer.from_pretrained(tokenizer)
    if tokenizer is not None:
        return tokenizer
    if isinstance(model, (str, Path)):
        try:
            return Tokenizer.from_pretrained(model)
        except (FileNotFoundError, ImportError):
            if mode == "tokens":
                return None
            raise
    if hasattr(model, "get_tokenizer"):
        return model.get_tokenizer()
    if mode != "tokens":
        raise ValueError(f"input_mode={mode!r} needs a tokenizer: pass tokenizer, or the model as a folder")
    return None
