"""Steps of the same rows write into bound arrays: nothing of an earlier step, or of other rows, shows."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers.models import decoder_graphs
from helpers.models.real_models import EXPECTED, MODELS, open_model
from helpers.tiers import standing_for_all
from numpy.typing import NDArray

from lite.models import OnnxDecoder
from lite.models.graph.session import PointerBinding


class Model(NamedTuple):
    decoder: OnnxDecoder
    after: Callable[[Sequence[int]], Any]
    """The logits after some tokens."""
    atol: float


SOME = ["optimum-llama", "positions", "slots", "no cache"]
ALL = [*SOME, "genai-lfm2", *sorted({*EXPECTED, *decoder_graphs.GRAPHS} - {*SOME, "genai-lfm2"})]


@pytest.fixture(params=SOME)
def model(request: pytest.FixtureRequest) -> Model:
    name = request.param
    if name in EXPECTED:
        other, decoder = open_model(name), open_model(name)
        atol = 0.1 if name == "genai-qwen2-int4" else 5e-5  # int4: a last bit may become a step of rounding
        made = Model(decoder, lambda ids: other.prefill(0, ids), atol)
    else:
        decoder, _, after = decoder_graphs.make(name)
        made = Model(decoder, after, 5e-3 if "half" in name else 1e-5)
    decoder.release(decoder.acquire(4))
    return made


@pytest.mark.parametrize("model", standing_for_all(ALL, 5), indirect=True)
def test_steps_between_everything_else(model: Model, rng: np.random.Generator) -> None:
    decoder, after, atol = model
    texts = [rng.integers(0, decoder.vocab_size, length).tolist() for length in (4, 2, 7, 1)]
    decoder.prefill_rows(range(4), texts)
    for _ in range(12):
        rows = [[0, 1, 2, 3], [3, 1], [2]][rng.integers(3)]  # often those of the last time
        for _ in range(rng.integers(1, 4)):  # the same rows again
            tokens = rng.integers(0, decoder.vocab_size, len(rows))
            logits = decoder.decode_unchecked(tokens, rows)
            for row, token, got in zip(rows, tokens, logits, strict=True):
                texts[row].append(int(token))
                np.testing.assert_allclose(got, after(texts[row]), atol=atol)
        source, target = (int(i) for i in rng.permutation(4)[:2])
        match rng.integers(4):
            case 0:
                decoder.fork(source, target)
                texts[target] = list(texts[source])
            case 1:
                length = min(len(texts[source]), 3)
                decoder.truncate(source, length)
                texts[source] = texts[source][:length]
            case 2:
                new = rng.integers(0, decoder.vocab_size, 2).tolist()
                decoder.extend([source], [new])
                texts[source] += new
            case 3:
                decoder.prefill(target, texts[source][:2])
                texts[target] = texts[source][:2]
    assert decoder.lengths.tolist() == [len(text) for text in texts]


@pytest.mark.grid
def test_from_nothing_to_the_end_of_the_context(model: Model) -> None:
    """Buffers grow on the way; a merged graph leaves its branch without a past."""
    decoder, after, atol = model
    texts: list[list[int]] = [[], []]
    for step in range(min(decoder.context_length or 70, 70)):
        tokens = np.array([step % 20, 3 * step % 20])
        logits = decoder.decode_unchecked(tokens, [1, 0])
        for text, token in zip(texts, tokens.tolist(), strict=True):
            text.append(token)
        if step in (0, 1, 2, 31, 32, 33, 63, 64, 65):
            for got, text in zip(logits, texts, strict=True):
                np.testing.assert_allclose(got, after(text), atol=atol)


def test_logits_stay_until_the_same_rows_step_again(model: Model) -> None:
    """Two callers take turns, as threads that share a decoder do."""
    decoder, after, atol = model
    texts = [[1, 2, 3], [4, 5], [6], [7, 8, 9]]
    decoder.prefill_rows(range(4), texts)
    for token in range(10, 14):
        kept = []
        for rows in ([0, 1], [2, 3], [3]):
            kept.append((rows, decoder.decode_unchecked(np.full(len(rows), token), rows)))
            for row in rows:
                texts[row].append(token)
        want = {0: texts[0], 1: texts[1], 2: texts[2], 3: texts[3][:-1]}
        for rows, logits in kept[:2]:
            for row, got in zip(rows, logits, strict=True):
                np.testing.assert_allclose(got, after(want[row]), atol=atol)


def test_decode_gives_arrays_of_its_own(model: Model) -> None:
    decoder = model.decoder
    decoder.prefill_rows([0, 1], [[1, 2], [3]])
    first = decoder.decode([4, 5])
    kept = first.copy()
    second = decoder.decode([6, 7])
    np.testing.assert_array_equal(first, kept)
    assert not np.shares_memory(first, second)


@pytest.mark.parametrize("name", ["positions", "slots", "no mask", "merged"])
def test_a_step_that_fails_can_be_taken_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder, session, after = decoder_graphs.make(name)
    texts = [[1, 2, 3], [4]]
    run = session.run_with_iobinding
    fails: list[bool] = []

    def broken(binding: Any) -> None:
        run(binding)
        if fails and fails.pop():
            raise RuntimeError("out of memory")

    monkeypatch.setattr(session, "run_with_iobinding", broken)
    decoder = OnnxDecoder(decoder.config, session=session, batch_size=2)  # binds what runs it now
    decoder.prefill_rows([0, 1], texts)
    for token in range(5, 12):
        if token % 3 == 1:
            fails.append(True)
            with pytest.raises(RuntimeError, match="out of memory"):
                decoder.decode_unchecked(np.array([20, 21]), [0, 1])
        logits = decoder.decode_unchecked(np.array([token, token + 1]), [0, 1])
        for row, got in enumerate(logits):
            texts[row].append(token + row)
            np.testing.assert_allclose(got, after(texts[row]), atol=1e-5)


def bound(monkeypatch: pytest.MonkeyPatch, take: Callable[[], Any]) -> list[str]:
    """The names that are bound meanwhile."""
    names: list[str] = []
    for kind in ("bind_input", "bind_output"):
        method = getattr(PointerBinding, kind)

        def noted(self: Any, name: str, *rest: Any, method: Any = method) -> None:
            names.append(name)
            method(self, name, *rest)

        monkeypatch.setattr(PointerBinding, kind, noted)
    pairs = PointerBinding.bind_pairs

    def noted_pairs(self: Any, some: Sequence[tuple[str, str]], *rest: Any) -> None:
        names.append("caches")
        pairs(self, some, *rest)

    monkeypatch.setattr(PointerBinding, "bind_pairs", noted_pairs)
    take()
    monkeypatch.undo()
    return names


@pytest.mark.parametrize(
    ("name", "each"),
    [("genai-llama-fp32", []), ("optimum-llama", ["caches", "attention_mask"]), ("optimum-gpt2-nopos", None)],
)
def test_steps_of_the_same_rows_bind_what_changes_shape(name, each, monkeypatch):
    decoder = OnnxDecoder(MODELS / name, num_threads=1, cache_in_place=False)
    decoder.prefill_rows([0, 1], [[1, 2, 3], [4, 5, 6]])
    tokens = np.array([7, 8])
    logits = decoder.decode_unchecked(tokens, [0, 1])
    again: list[NDArray[Any]] = []
    names = bound(
        monkeypatch, lambda: again.extend(decoder.decode_unchecked(tokens, [0, 1]) for _ in range(3))
    )
    assert names == 3 * (["caches", "attention_mask"] if each is None else each)
    assert all(other is logits or np.shares_memory(other, logits) for other in again)


def test_siblings_share_the_session_and_nothing_else(model: Model) -> None:
    decoder, after, atol = model
    other = decoder.sibling()
    assert (other.session, other.spec, other.device) == (decoder.session, decoder.spec, decoder.device)
    texts = {0: [1, 2, 3], 1: [4, 5]}
    decoders = {0: decoder, 1: other}
    for which, text in texts.items():
        decoders[which].prefill(0, text)
    for token in (6, 7, 8):
        for which, text in texts.items():
            (got,) = decoders[which].decode_unchecked(np.array([token]), [0])
            text.append(token)
            np.testing.assert_allclose(got, after(text), atol=atol)
    assert (decoder.lengths.tolist()[0], other.lengths.tolist()) == (6, [5])
    assert other.acquire(1) == [1]  # row 0 is not empty; the first decoder's rows are its own
    assert not decoder._held.any()


@pytest.mark.usefixtures("only_new_garbage")
def test_logits_are_not_kept_when_rows_are_given_back(model: Model) -> None:
    """Each number of rows has a binding of its own; none of them holds on to the logits of its last step."""
    decoder = model.decoder
    held = decoder.acquire(4)
    decoder.prefill_rows(held, [[1, 2]] * 4)
    alive = []
    while held:
        logits = decoder.decode_unchecked(np.full(len(held), 3), held)
        alive += [weakref.ref(array) for array in (logits, logits.base) if array is not None]
        decoder.release([held.pop()])
    del logits
    gc.collect()
    assert not [ref for ref in alive if ref() is not None]
