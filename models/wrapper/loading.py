"""The model and tokenizer of a wrapper, from folders or as objects."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lite.models.decoder.adapters import AdapterSource
from lite.models.decoder.decoder import OnnxDecoder
from lite.models.decoder.protocol import check_decoder
from lite.models.generation.pool import check_sessions
from lite.models.graph.runtime import choose_runtime
from lite.models.graph.session import default_threads
from lite.models.text.tokenizer import Tokenizer
from lite.models.wrapper.options import InputMode


def load_model(
    model: Any,
    device: str | None,
    *,
    sessions: int = 1,
    num_threads: int | None = None,
    variant: str | None = None,
    adapters: Mapping[str, AdapterSource] | None = None,
    runtime: str | None,
    name: str = "model",
) -> Any:
    """The decoder of a folder or file; a `Decoder` is checked and returned.

    Args:
        model: a path, or a `Decoder`.
        device: the device of a model from a path.
        sessions: the number of threads that will run it at the same time.
        num_threads: threads for all of them together; default: the physical cores this process may use.
        variant: the graph of a folder to open.
        adapters: files or values of adapters of a model from a path, by name.
        runtime: the runtime of a model from a path, see `OnnxDecoder`.
        name: name of the argument, for messages.

    Raises:
        ValueError: ``device`` differs from that of the object, ``num_threads``, ``variant``, ``adapters`` or
            ``runtime`` are given for an object, or either number is not positive.
        TypeError: the object lacks the interface of `Decoder`.
    """
    check_sessions(sessions)
    if isinstance(model, (str, Path)):
        runtime = choose_runtime(runtime)
        if runtime == "onnxruntime" and sessions > 1 and (num_threads is None or num_threads > 0):
            # Each run uses its caller's thread, too.
            num_threads = max(1, (num_threads or default_threads()) - sessions + 1)
        try:
            return OnnxDecoder(
                model,
                device=device or "cpu",
                num_threads=num_threads,
                variant=variant,
                adapters=adapters,
                runtime=runtime,
            )
        except FileNotFoundError as error:
            if name == "model":
                raise
            raise FileNotFoundError(f"{name}: {error}") from None
    check_decoder(model, name, path=True)
    given = {"num_threads": num_threads, "variant": variant, "adapters": adapters, "runtime": runtime}
    for other, value in given.items():
        if value is not None:
            raise ValueError(
                f"{other}={value!r} is for a model given as a path; give it where the model is made"
            )
    own = getattr(model, "device", "cpu")
    if device not in (None, own):
        raise ValueError(
            f"device={device!r} differs from the {name}'s, {own!r}; give the device where the model is made"
        )
    return model


def check_adapter(model: Any, adapter: str | None) -> None:
    """Raise ValueError if a model has no adapter of that name."""
    known = getattr(model, "adapters", ()) if hasattr(model, "with_adapter") else ()
    if adapter is not None and adapter not in known:
        names = ", ".join(map(repr, known)) or "none was given"
        raise ValueError(f"adapter must be None or one of the model's adapters ({names}), got {adapter!r}")


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
