"""Tokens by themselves have a text, or their id."""

from helpers.models.real_models import MODELS

from lite.cli.text_stream import token_namer, token_texts
from lite.models import Tokenizer


def test_tokens_by_themselves_have_a_text_or_their_id() -> None:
    tokenizer = Tokenizer.from_pretrained(MODELS / "optimum-llama")
    name = token_namer(tokenizer)
    letter, half = tokenizer.encode("a")[0], tokenizer.encode("ü")[0]
    assert (name(letter), name(half)) == ("a", half)  # half a character is no text
    assert token_texts(tokenizer, [letter, half, letter]) == ["a", "\u00b7", "\ufffda"]
    assert token_texts(tokenizer, [letter, half]) == ["a", "\ufffd"]
