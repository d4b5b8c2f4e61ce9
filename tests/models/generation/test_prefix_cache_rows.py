"""What prompts have in common runs once."""

from typing import Any

import numpy as np
import pytest
from helpers.models.scripted_decoder import VOCABULARY, ScriptedDecoder
from numpy.typing import NDArray

from lite.models import GenerationConfig, generate
from lite.models.generation.prefix_cache import Rows

ONE = GenerationConfig(max_new_tokens=1)


def text(rng: np.random.Generator, length: int) -> NDArray[np.int64]:
    return rng.integers(0, VOCABULARY, length)


def plain(prompts: list[Any]) -> NDArray[np.float32]:
    decoder = ScriptedDecoder()
    return np.stack([decoder.logits([int(token) for token in prompt]) for prompt in prompts])


def test_beginnings_of_beginnings(rng: np.random.Generator) -> None:
    """A tree: what all have in common, what halves of them have in common, what is one's own."""
    root = np.full(20, 1)
    branches = [
        np.concatenate([root, np.full(20, 2 + i), np.full(3, 9 + j)]) for i in range(2) for j in range(3)
    ]
    order = rng.permutation(6)
    prompts = [branches[i] for i in order]
    decoder = ScriptedDecoder()
    _, logits = Rows(decoder, 6).fill(prompts, {})
    np.testing.assert_array_equal(logits, plain(prompts))
    assert decoder.run_tokens == 20 + 2 * 20 + 6 * 3


def test_equal_prompts_run_once_and_short_beginnings_for_each() -> None:
    prompts = [np.array([1, 2, 3]), np.array([1, 2, 3]), np.array([1, 2, 4])]
    decoder = ScriptedDecoder()
    _, logits = Rows(decoder, 3).fill(prompts, {})
    np.testing.assert_array_equal(logits, plain(prompts))
    assert decoder.run_tokens == 6


def test_a_prompt_that_is_the_beginning_of_another(rng: np.random.Generator) -> None:
    long = text(rng, 50)
    for prompts in ([long, long[:30]], [long[:30], long]):
        decoder = ScriptedDecoder()
        _, logits = Rows(decoder, 2).fill(prompts, {})
        np.testing.assert_array_equal(logits, plain(prompts))
        assert decoder.run_tokens == 50 + (len(prompts[0]) == 50)  # its last token gives its logits


def test_busy_rows_and_rows_that_were_left_are_of_use(rng: np.random.Generator) -> None:
    header = text(rng, 30)
    decoder = ScriptedDecoder()
    rows = Rows(decoder, 3)
    first = [np.append(header, [7, 8]), np.append(text(rng, 30), [7])]
    (one, two), _ = rows.fill(first, {})
    decoder.run_tokens = 0
    second = np.append(header, [9, 9])
    (three,), logits = rows.fill([second], {one: first[0], two: first[1]})
    np.testing.assert_array_equal(logits, plain([second]))
    assert decoder.run_tokens == 2
    rows.free(one, first[0])
    rows.free(three, second)
    decoder.run_tokens = 0
    again = np.append(header, [9, 9, 4])
    got, logits = rows.fill([again], {two: first[1]})
    assert got == [three]
    np.testing.assert_array_equal(logits, plain([again]))
    assert decoder.run_tokens == 1
    rows.free(three, again)
    rows.empty()
    assert decoder.rows == {one: [], two: first[1].tolist(), three: []}
    rows.release()
    assert not decoder.rows


@pytest.mark.parametrize(("max_rows", "length"), [(2, 40), (5, 3)])
def test_samples_in_turn_read_their_prompt_once(max_rows: int, length: int, rng: np.random.Generator) -> None:
    prompts = [text(rng, length) for _ in range(3)]
    config = GenerationConfig(max_new_tokens=8, do_sample=True, temperature=2.0, eos_token_ids=(4, 5))
    seeds = np.arange(24, dtype=np.uint64)
    decoder = ScriptedDecoder()
    few = generate(decoder, prompts, config, seeds=seeds, num_samples=8, max_rows=max_rows)
    whole = generate(ScriptedDecoder(), prompts, config, seeds=seeds, num_samples=8)
    assert [r.tokens.tolist() for r in few] == [r.tokens.tolist() for r in whole]
    assert decoder.run_tokens == 3 * length
    assert decoder.most_rows == max_rows


class Plain:
    """A decoder that cannot go back."""

    def __init__(self) -> None:
        self.whole = ScriptedDecoder()

    def __getattr__(self, name: str) -> Any:
        if name in ("truncate", "continue_rows", "settle", "bytes_per_token"):
            raise AttributeError(name)
        return getattr(self.whole, name)


def test_a_decoder_that_cannot_go_back(rng: np.random.Generator) -> None:
    header = text(rng, 30)
    prompts = [np.append(header, [7, i]) for i in (1, 1, 2, 1)]
    decoder = Plain()
    out = generate(decoder, prompts, ONE, num_samples=2, max_rows=4)  # type: ignore[arg-type]
    theirs = generate(ScriptedDecoder(), prompts, ONE, num_samples=2)
    assert [r.tokens.tolist() for r in out] == [r.tokens.tolist() for r in theirs]
    assert decoder.whole.run_tokens == 3 * 32  # of four at a time, equal ones once


def test_nothing_is_shared_where_rows_keep_nothing(rng: np.random.Generator) -> None:
    header = text(rng, 30)
    decoder = ScriptedDecoder(bytes_per_token=0)
    Rows(decoder, 2).fill([np.append(header, [1]), np.append(header, [2])], {})
    assert decoder.run_tokens == 62
