"""A response as it comes: the same as at once, and an interrupt ends it."""

import signal

import numpy as np
import pytest
from helpers.models.real_models import MODELS

from lite.cli.main import build_parser
from lite.cli.model import LoadedModel, load
from lite.cli.reply import reply
from lite.models import GenerationConfig, generate


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return load(build_parser().parse_args(["info", "--model", str(MODELS / "optimum-llama")]))


CONFIG = GenerationConfig.from_kwargs({"max_new_tokens": 30, "temperature": 1.5})


def test_a_reply_is_the_response_in_pieces(model: LoadedModel) -> None:
    ids, seed, pieces = np.array(model.tokenizer.encode("hello")), np.uint64(7), list[str]()
    said = reply(model, ids, CONFIG, seed, pieces.append)
    (expected,) = generate(model.decoder, [ids], CONFIG, seeds=np.array([seed]))
    np.testing.assert_array_equal(said.tokens, expected.tokens)
    np.testing.assert_allclose(said.log_probs, expected.log_probs, rtol=1e-5)
    np.testing.assert_allclose(said.record["log_prob"], expected.log_probs.sum(), rtol=1e-5)
    assert said.finish_reason == expected.finish_reason
    assert said.text == "".join(pieces) == model.tokenizer.decode(expected.tokens, skip_special_tokens=True)
    assert len(pieces) > 5
    assert all(pieces)


def test_a_stop_text_ends_it(model: LoadedModel) -> None:
    ids, seed = np.array(model.tokenizer.encode("hello")), np.uint64(7)
    whole = reply(model, ids, CONFIG, seed, len).text
    stop = whole[5:7]
    config = GenerationConfig.from_kwargs({"stop_sequences": [stop]}, CONFIG)
    said = reply(model, ids, config, seed, len)
    assert said.finish_reason == "stop"
    assert whole.startswith(said.text)
    assert stop in said.text[-8:]


def test_an_interrupt_ends_it_and_the_next_one_is_an_exception(model: LoadedModel) -> None:
    ids, seed = np.array(model.tokenizer.encode("hello")), np.uint64(7)
    before = signal.getsignal(signal.SIGINT)
    said = reply(model, ids, CONFIG, seed, lambda piece: signal.raise_signal(signal.SIGINT))
    assert said.finish_reason == "interrupted"
    assert 0 < len(said.tokens) < 5
    assert signal.getsignal(signal.SIGINT) is before
    assert not model.decoder.lengths.any()  # its row has been given back

    def twice(piece: str) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        reply(model, ids, CONFIG, seed, twice)
    assert signal.getsignal(signal.SIGINT) is before
    assert not model.decoder.lengths.any()
