"""A model folder loaded for a command."""

from argparse import Namespace

import pytest
from helpers.models.real_models import MODELS

from lite.cli.model import load
from lite.models import embedded_model_path

pytest.importorskip("onnxruntime", reason="needs the llm extra: pip install 'tensordict-lite[llm]'")


def test_the_embedded_model_is_loaded_where_none_is_named() -> None:
    assert load(Namespace(model=None, device="cpu", threads=None)).path == embedded_model_path()
    loaded = load(Namespace(model=str(MODELS / "optimum-llama"), device="cpu", threads=None))
    assert loaded.path == MODELS / "optimum-llama"
    assert loaded.decoder.vocab_size == 512
    assert loaded.tokenizer.eos_token_id == 2
    assert loaded.seconds > 0
