"""Text as it comes: pieces add up to the whole text and never end within a character."""

import queue
import random
from typing import Any

import numpy as np
import pytest
import tokenizers
from helpers.cases import raises
from helpers.models.sentencepiece import sentencepiece

from lite.models import TextIteratorStreamer, TextStreamer, Tokenizer
from lite.models.text.streaming import TextStream

TEXT = "Grüße, 12 € für 👩‍👩‍👧 und 𝄞; 日本語 \u200b fin\n\tno"


def byte_level() -> Tokenizer:
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    backend = tokenizers.Tokenizer(tokenizers.models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    return Tokenizer(backend, special_tokens={"eos_token": "<eos>"})


def pieces(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    stream = TextStream(tokenizer)
    return [*(stream.push(i) for i in ids), stream.end()]


def test_pieces_are_whole_characters_and_add_up() -> None:
    cases: list[Any] = [byte_level, sentencepiece]
    for make in cases:
        tokenizer = make()
        ids = tokenizer.encode(TEXT)
        # some tokens end within one
        assert any("\ufffd" in tokenizer.decode(ids[:n]) for n in range(len(ids)))
        out = pieces(tokenizer, ids)
        assert "".join(out) == tokenizer.decode(ids, skip_special_tokens=True) == TEXT, make
        assert not any("\ufffd" in piece for piece in out), make
        assert out[-1] == "", make  # nothing is kept back longer than needed


def test_text_before_half_a_character_is_not_kept_back() -> None:
    tokenizer = byte_level()
    stream = TextStream(tokenizer)
    assert [stream.push(i) for i in tokenizer.encode("aé")] == ["a", "", "é"]


def test_bytes_that_are_no_text_come_out_in_the_end() -> None:
    cases: list[Any] = [byte_level, sentencepiece]
    for make in cases:
        tokenizer = make()
        euro = tokenizer.encode("€")[-3:]
        out = pieces(tokenizer, euro[:2])
        assert out[:2] == ["", ""], make
        assert set(out[2]) == {"\ufffd"}, make
        # never a character: kept back only as long as it might be one
        out = pieces(tokenizer, euro[1:2] * 50)
        assert all(piece for piece in out[4:-1]), make


def test_special_tokens_leave_no_trace() -> None:
    tokenizer = sentencepiece()
    eos = tokenizer.eos_token_id
    assert eos is not None
    ids = tokenizer.encode("12 und")
    mixed = [eos, *(i for token in ids for i in (token, eos))]
    assert "".join(pieces(tokenizer, mixed)) == "12 und"


def test_any_bytes() -> None:
    tokenizer, rng = byte_level(), random.Random(0)
    for _ in range(60):
        ids = [rng.randrange(256) for _ in range(rng.randrange(12))]
        assert "".join(pieces(tokenizer, ids)) == tokenizer.decode(ids)


@pytest.mark.parametrize("skip_prompt", [False, True])
def test_a_streamer_prints_prompt_and_response(skip_prompt: bool, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = sentencepiece()
    eos, ids = tokenizer.eos_token_id, np.array(tokenizer.encode(TEXT))
    streamer = TextStreamer(tokenizer, skip_prompt, skip_special_tokens=True)
    for _ in range(2):  # it can be used again
        streamer.put(ids[None, :9])
        for token in ids[9:]:
            streamer.put(np.array([token]))
        streamer.put([eos])
        streamer.end()
        said = capsys.readouterr().out
        whole = TEXT if not skip_prompt else tokenizer.decode(ids[9:])
        assert said == whole + "\n"
    raises(ValueError, r"takes one response, got ids of shape \(2, 1\)", streamer.put, np.zeros((2, 1), int))


def test_an_iterator_gives_the_pieces_and_ends() -> None:
    tokenizer = byte_level()
    streamer = TextIteratorStreamer(tokenizer, timeout=0.01)
    for token in tokenizer.encode("aé"):
        streamer.put([token])
    assert [next(streamer) for _ in range(3)] == ["a", "", "é"]
    raises(queue.Empty, "", next, streamer)
    streamer.end()
    assert list(streamer) == [""]
