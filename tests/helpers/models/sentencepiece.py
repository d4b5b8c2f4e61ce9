"""A tokenizer that puts a space before a text, as SentencePiece does."""

from typing import Any

import tokenizers

from lite.models import Tokenizer


def sentencepiece() -> Tokenizer:
    """As Llama 2: a space before words, bytes for unknown characters."""
    pieces = ["<unk>", *(f"<0x{i:02X}>" for i in range(256)), "▁", "▁und", "▁fin", "f", "ü", "r", "▁12", "no"]
    vocabulary = [(piece, -1.0) for piece in pieces]
    model: Any = tokenizers.models.Unigram(vocabulary, unk_id=0, byte_fallback=True)
    backend = tokenizers.Tokenizer(model)
    backend.normalizer = tokenizers.normalizers.Sequence(
        [tokenizers.normalizers.Prepend("▁"), tokenizers.normalizers.Replace(" ", "▁")]
    )
    backend.decoder = tokenizers.decoders.Sequence(
        [
            tokenizers.decoders.Replace("▁", " "),
            tokenizers.decoders.ByteFallback(),
            tokenizers.decoders.Fuse(),
            tokenizers.decoders.Strip(" ", 1, 0),
        ]
    )
    return Tokenizer(backend, special_tokens={"eos_token": "<eos>"})
