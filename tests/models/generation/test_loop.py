"""Greedy and sampled generation on real exports: a response depends on its prompt and seed only."""

import threading
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.models.real_models import EXPECTED, each_export, open_model
from numpy.typing import NDArray

from lite.models import GenerationConfig, OnnxDecoder, generate, generate_each, score, stream

SAMPLED = GenerationConfig(max_new_tokens=12, do_sample=True, temperature=0.9, top_k=40, top_p=0.95)


def seeds(count: int) -> NDArray[np.uint64]:
    return np.arange(100, 100 + count, dtype=np.uint64)


@each_export
def test_greedy(name: str, decoder: OnnxDecoder, prompts: list[Any]) -> None:
    out = generate(decoder, prompts, GenerationConfig(max_new_tokens=12), num_samples=2)
    cases = [case for case in EXPECTED[name]["greedy"] for _ in range(2)]
    assert len(out) == len(cases)
    for got, case in zip(out, cases, strict=True):
        assert got.tokens.tolist() == case["tokens"]
        assert got.tokens.dtype == np.int64
        assert got.log_probs.dtype == np.float32
        assert got.finish_reason == "length"
        np.testing.assert_allclose(
            got.log_probs, case["log_probs"], atol=EXPECTED[name]["atol_log_prob"], rtol=0
        )


def test_finished_rows_leave_the_batch(decoder: OnnxDecoder, prompts: list[Any]) -> None:
    free = generate(decoder, prompts, GenerationConfig(max_new_tokens=12))
    eos = int(free[1].tokens[3])
    config = GenerationConfig(max_new_tokens=12, eos_token_ids=(eos,))
    out = generate(decoder, prompts, config)
    for got, long in zip(out, free, strict=True):
        hits = np.flatnonzero(long.tokens == eos)
        length = int(hits[0]) + 1 if len(hits) else 12
        assert got.tokens.tolist() == long.tokens[:length].tolist()
        assert got.finish_reason == ("eos" if len(hits) else "length")
        np.testing.assert_allclose(got.log_probs, long.log_probs[:length], atol=1e-4)
    assert len(out[1].tokens) <= 4


@pytest.mark.parametrize("name", ["optimum-llama"])
def test_stop_sequences_end_a_response(decoder: OnnxDecoder, prompts: list[Any]) -> None:
    def text(ids: NDArray[np.int64]) -> str:
        return "".join(f"<{i}>" for i in ids)

    free = generate(decoder, prompts, GenerationConfig(max_new_tokens=12))
    tokens = free[0].tokens
    stop = f"{tokens[3]}><{tokens[4]}"  # spans two tokens
    config = GenerationConfig(max_new_tokens=12, stop_sequences=("never", stop))
    out = generate(decoder, prompts, config, decode_text=text)
    end = text(tokens).index(stop) + len(stop)
    assert out[0].finish_reason == "stop"
    assert text(out[0].tokens)[:-1] == text(tokens)[:end]
    raises(ValueError, "stop_sequences need decode_text", lambda: generate(decoder, prompts, config))


@pytest.mark.parametrize("name", ["optimum-llama"])
def test_a_stop_sequence_in_the_prompt_does_not_count(decoder: OnnxDecoder, prompts: list[Any]) -> None:
    first = int(prompts[0][-1])
    config = GenerationConfig(max_new_tokens=4, stop_sequences=(f"<{first}>",))
    out = generate(decoder, prompts[:1], config, decode_text=lambda ids: "".join(f"<{i}>" for i in ids))
    assert first not in out[0].tokens
    assert out[0].finish_reason == "length"


def test_the_context_bounds_the_response(decoder: OnnxDecoder, rng: np.random.Generator) -> None:
    rows = [rng.integers(0, 512, length) for length in (253, 256, 10)]
    out = generate(decoder, rows, GenerationConfig(max_new_tokens=5))
    assert [len(got.tokens) for got in out] == [3, 0, 5]
    assert [got.finish_reason for got in out] == ["length"] * 3


@pytest.mark.parametrize("name", ["optimum-llama"])
def test_a_closed_stream_gives_its_rows_back(decoder: OnnxDecoder, prompts: list[Any]) -> None:
    steps = stream(decoder, prompts, GenerationConfig(max_new_tokens=6))
    next(steps)
    assert (decoder.lengths > 0).sum() == 3
    steps.close()
    assert (decoder.lengths == 0).all()
    rows = decoder.acquire(3)
    assert decoder.num_rows <= 4
    decoder.release(rows)
    for begin in stream, generate_each:
        steps = begin(decoder, prompts, GenerationConfig(max_new_tokens=1))
        next(steps)
        with pytest.raises(OSError, match="gone") as kept:
            steps.throw(OSError("gone"))
        assert (decoder.lengths == 0).all(), kept


@pytest.mark.parametrize("name", ["optimum-llama"])
def test_another_thread_closes_a_stream_that_computes(decoder: OnnxDecoder, prompts: list[Any]) -> None:
    computing, closed = threading.Event(), threading.Event()

    def third(ids: NDArray[np.int64], scores: NDArray[np.float32]) -> None:
        if len(ids) == len(prompts[0]) + 2:
            raises(ValueError, "runs already", lambda: next(steps))
            computing.set()
            assert closed.wait(60)

    config = GenerationConfig(max_new_tokens=6, logits_processor=(third,))
    steps, taken = stream(decoder, prompts[:1], config), []
    thread = threading.Thread(target=lambda: taken.extend(steps))
    thread.start()
    assert computing.wait(60)
    steps.close()
    assert (decoder.lengths > 0).any()  # it is computing
    closed.set()
    thread.join()
    assert [step.index for step in taken] == [0, 1]
    assert (decoder.lengths == 0).all()
    assert list(steps) == []


def test_rows_in_use_are_left_alone(decoder: OnnxDecoder, prompts: list[Any]) -> None:
    logits = decoder.prefill(0, prompts[0])
    generate(decoder, prompts, SAMPLED, seeds=seeds(3))
    score(decoder, prompts)
    assert decoder.lengths[0] == len(prompts[0])
    decoder.truncate(0, len(prompts[0]) - 1)
    np.testing.assert_allclose(decoder.decode(prompts[0][-1:], [0])[0], logits, atol=0.1)


@pytest.mark.parametrize("name", ["optimum-llama"])
def test_seeds_are_numbers_of_64_bits(decoder: OnnxDecoder, prompts: list[Any]) -> None:
    same = (np.array([-1]), np.array([2**64 - 1], np.uint64))
    one, other = (generate(decoder, prompts[:1], SAMPLED, seeds=seeds)[0] for seeds in same)
    np.testing.assert_array_equal(one.tokens, other.tokens)


@pytest.mark.parametrize("name", ["optimum-llama"])
def test_nothing_to_do(decoder: OnnxDecoder, prompts: list[Any]) -> None:
    assert generate(decoder, [], SAMPLED) == []
    assert generate(decoder, [], SAMPLED, seeds=np.array([], np.uint64), num_samples=4) == []
    out = generate(decoder, prompts[:1], GenerationConfig(max_new_tokens=0))
    assert out[0].tokens.shape == out[0].log_probs.shape == (0,)


@pytest.mark.parametrize("name", ["optimum-llama"])
def test_bad_calls(decoder: OnnxDecoder, prompts: list[Any]) -> None:
    of_config = "config must be a GenerationConfig, or one for each prompt"
    for error, message, options in (
        (ValueError, "seeds must be 6 integers", {"seeds": seeds(3), "num_samples": 2}),
        (ValueError, "seeds must be 3 integers", {"seeds": np.ones(3)}),
        (ValueError, "num_samples must be at least 1, got 0", {"num_samples": 0}),
        (TypeError, r"num_samples must be an integer, got 2\.0", {"num_samples": 2.0}),
        (TypeError, "max_rows must be an integer, got '2'", {"max_rows": "2"}),
        *((TypeError, of_config, {"config": config}) for config in ({"max_new_tokens": 3}, [{}] * 3, None)),
        (ValueError, "empty prompt", {"prompts": [*prompts, []]}),
    ):
        raises(error, message, generate, decoder, **{"prompts": prompts, "config": SAMPLED, **options})
    with pytest.raises(ValueError, match="a prompt of 300 tokens is longer than the model's context of 256"):
        stream(decoder, [np.ones(300, np.int64)], SAMPLED)  # before the first step is asked for
    assert (decoder.lengths == 0).all()


def test_a_limit_is_no_allocation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A huge max_new_tokens for a model that does not say how much it holds costs nothing ahead of time."""
    decoder = open_model("optimum-llama")
    (greedy,) = generate(decoder, [[3, 4, 5]], GenerationConfig(max_new_tokens=6))
    unlimited = open_model("optimum-llama")
    monkeypatch.setattr(OnnxDecoder, "context_length", None)
    config = GenerationConfig(max_new_tokens=10**15, eos_token_ids=(int(greedy.tokens[5]),))
    (response,) = generate(unlimited, [[3, 4, 5]], config)
    expected = greedy.tokens[: greedy.tokens.tolist().index(greedy.tokens[5]) + 1]
    np.testing.assert_array_equal(response.tokens, expected)


class _Told:
    def __init__(self, fail_at: int = -1) -> None:
        self.calls: list[list[int] | None] = []
        self._fail_at = fail_at

    def put(self, value: Any) -> None:
        if len(self.calls) == self._fail_at:
            raise OSError("the reader went away")
        self.calls.append(value.tolist())

    def end(self) -> None:
        self.calls.append(None)


@pytest.mark.parametrize("options", [{}, {"prompt_lookup_num_tokens": 3}])
def test_a_streamer_is_told_the_prompt_and_each_token(options: dict[str, Any]) -> None:
    decoder = open_model("optimum-llama")
    config, told = GenerationConfig(max_new_tokens=12, **options), _Told()
    (response,) = generate(decoder, [[10, 20, 10, 20, 10]], config, streamer=told)
    assert told.calls == [[10, 20, 10, 20, 10], *([token] for token in response.tokens.tolist()), None]
    told = _Told(fail_at=3)
    with pytest.raises(OSError, match="went away") as kept:
        generate(decoder, [[10, 20]], config, streamer=told)
    assert told.calls[-1] is None
    assert not decoder.lengths.any(), kept  # its row has been given back, though a traceback is kept


def test_a_streamer_takes_one_response() -> None:
    """And is told the end of what is refused, as who reads it in another thread waits no longer then."""
    message = "streamer takes one response and no beams, got"
    for prompts, beams, samples, wanted in (
        ([[1], [2]], 1, 1, message), ([[1]], 1, 2, message), ([[1]], 2, 1, message), ([], 1, 1, message),
        ([[]], 1, 1, "at least one token"),
    ):  # fmt: skip
        config, told = GenerationConfig(max_new_tokens=2, num_beams=beams), _Told()
        decoder, options = open_model("optimum-llama"), {"streamer": told, "num_samples": samples}
        raises(ValueError, wanted, generate, decoder, prompts, config, **options)
        assert told.calls == [None], prompts
