"""What a model must offer."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.cases import raises

from lite.models import GenerationConfig, OnnxWrapper, generate, generate_each, mismatch, score, stream
from lite.models.decoder.protocol import check_decoder


def test_a_model_must_be_a_decoder() -> None:
    with pytest.raises(TypeError, match=r"interface of lite.models.Decoder; int has no vocab_size, "):
        OnnxWrapper(42, input_mode="tokens")


def test_what_a_model_lacks_is_named(scripted_model: Callable[..., Any]) -> None:
    model = scripted_model()
    check_decoder(model)
    half = SimpleNamespace(**{name: getattr(model, name) for name in dir(model) if name != "fork"})
    raises(TypeError, r"SimpleNamespace has no fork$", check_decoder, half)


def test_a_path_is_no_model_yet() -> None:
    config = GenerationConfig()
    for name, call in (
        ("decoder", lambda: generate("folder", [[1]], config)),  # type: ignore[arg-type]
        ("decoder", lambda: list(generate_each("folder", [[1]], config, max_rows=1))),  # type: ignore[arg-type]
        ("decoder", lambda: list(stream("folder", [[1]], config))),  # type: ignore[arg-type]
        ("decoder", lambda: score("folder", [[1]])),  # type: ignore[arg-type,list-item]
        ("a", lambda: mismatch("folder", [])),  # type: ignore[arg-type]
    ):
        raises(TypeError, rf"{name} must be a model, as OnnxDecoder\(path\), got the path", call)
