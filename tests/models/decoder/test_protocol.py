"""What a model must offer."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from lite.models import OnnxWrapper
from lite.models.decoder.protocol import check_decoder

pytest.importorskip("tokenizers")


def test_a_model_must_be_a_decoder() -> None:
    with pytest.raises(TypeError, match=r"interface of lite.models.Decoder; int has no vocab_size, "):
        OnnxWrapper(42, input_mode="tokens")


def test_what_a_model_lacks_is_named(scripted_model: Callable[..., Any]) -> None:
    model = scripted_model()
    check_decoder(model)
    half = SimpleNamespace(**{name: getattr(model, name) for name in dir(model) if name != "fork"})
    with pytest.raises(TypeError, match=r"SimpleNamespace has no fork$"):
        check_decoder(half)
