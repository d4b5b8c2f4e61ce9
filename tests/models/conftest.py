"""A byte-level tokenizer: ids 0..255 are bytes ("Hi" is [39, 72]), then <eos>, <bos>, <unk>, <pad>."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lite.models.tokenizer import Tokenizer

SPECIALS = ("<eos>", "<bos>", "<unk>", "<pad>")


def make_backend() -> Any:
    tokenizers = pytest.importorskip("tokenizers")
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    backend = tokenizers.Tokenizer(tokenizers.models.BPE({char: i for i, char in enumerate(alphabet)}, []))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    backend.add_special_tokens([tokenizers.AddedToken(t, special=True, normalized=False) for t in SPECIALS])
    return backend


@pytest.fixture(scope="session")
def byte_backend() -> Callable[[], Any]:
    """Makes the ``tokenizers.Tokenizer``."""
    return make_backend


@pytest.fixture(scope="session")
def byte_tokenizer() -> Callable[..., Tokenizer]:
    """Makes the tokenizer; named special tokens can be given, None leaves one out."""

    def make(*, chat_template: Any = None, name_or_path: str = "bytes", **special: str | None) -> Tokenizer:
        named = {"eos_token": "<eos>", "pad_token": "<pad>", **special}
        return Tokenizer(
            make_backend(), special_tokens=named, chat_template=chat_template, name_or_path=name_or_path
        )

    return make


@pytest.fixture
def tokenizer_folder(tmp_path: Path) -> Callable[..., Path]:
    """Writes tokenizer.json into a fresh folder, with further JSON files given by name."""

    def make(**files: Any) -> Path:
        folder = tmp_path / "model"
        folder.mkdir()
        make_backend().save(str(folder / "tokenizer.json"))
        for name, content in files.items():
            (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
        return folder

    return make
