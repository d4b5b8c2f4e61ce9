"""Attention that reads the cache in place: the same numbers, and only where it is the same function."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from helpers.models import attention_graphs as graphs
from helpers.models.handmade_exports import HEADS
from helpers.models.real_models import EXPECTED, MODELS, open_model
from helpers.models.responses import assert_same_responses
from helpers.tiers import standing_for_all

from lite._files.onnx.rewriting import with_weights_outside
from lite.models import GenerationConfig, OnnxDecoder, Padding, generate, score
from lite.models.decoder import opening
from lite.models.decoder.attention import replace_attention
from lite.models.graph.session import open_session


def both(folder: Path) -> tuple[OnnxDecoder, OnnxDecoder]:
    """A model with the cache in place, and as it was exported."""
    return OnnxDecoder(folder, num_threads=1), OnnxDecoder(folder, num_threads=1, cache_in_place=False)


@pytest.mark.parametrize("name", standing_for_all(["optimum-llama", "handmade-last-logits"]))
def test_greedy_tokens_and_log_probs(name: str) -> None:
    changed, plain = both(MODELS / name)
    assert (changed.spec.padding, plain.spec.padding) == (Padding.SLOTS, Padding.LEFT)
    prompts = [case["prompt"] for case in EXPECTED[name]["greedy"]]
    config = GenerationConfig(max_new_tokens=33)
    for rows in (prompts, [p[:1] + p for p in prompts[::-1]] * 2):
        got, want = (generate(decoder, rows, config, max_rows=4) for decoder in (changed, plain))
        assert_same_responses(got, want, atol=2e-5)
        texts = [[*row, *r.tokens] for row, r in zip(rows, got, strict=True)]
        for mine, theirs in zip(score(changed, texts), score(plain, texts), strict=True):
            np.testing.assert_allclose(mine, theirs, atol=2e-5, rtol=0)


def test_pairs_and_adapters_stay_as_they_are() -> None:
    """Of a pair one graph may need a past; an adapter's sizes may differ where their names do not."""
    for name in ("exporter-llama-pair", "handmade-lora"):
        assert open_model(name).spec.padding is Padding.LEFT


def test_pickling_keeps_the_choice() -> None:
    import pickle

    plain = OnnxDecoder(MODELS / "optimum-gpt2", num_threads=1, cache_in_place=False)
    assert pickle.loads(pickle.dumps(plain)).spec.padding is Padding.LEFT


# -- other attention ---------------------------------------------------------------------------

SAME = [
    graphs.nothing,
    graphs.other_scale,
    graphs.other_lowest,
    partial(graphs.scores_changed, kind="Mul", value=np.float32(1.5)),
    partial(graphs.size_of_past, start=0, end=1),  # the number of rows
]
UNKNOWN = [
    partial(graphs.window, length=10_000), partial(graphs.scores_changed, kind="Tanh"), graphs.other_values,
    graphs.filler_by_id, graphs.width_of_mask, graphs.length_of_past,
    partial(graphs.size_of_past, start=2, end=3), partial(graphs.size_of_past, start=-2, end=3),
    partial(graphs.size_of_past, start=0, end=-1), graphs.half,
    partial(graphs.open_size, axis=1), partial(graphs.open_size, axis=3),
]  # fmt: skip


@pytest.mark.grid
@pytest.mark.parametrize("change", SAME)
def test_forms_that_are_the_same(change: graphs.Change, tmp_path: Path, rng: np.random.Generator) -> None:
    changed, plain = both(graphs.folder_of(graphs.changed_graph(change), tmp_path))
    assert (changed.spec.padding, plain.spec.padding) == (Padding.SLOTS, Padding.LEFT)
    texts = [rng.integers(0, 512, length) for length in (40, 3, 90)]
    got, want = (decoder.prefill_rows(range(3), texts) for decoder in (changed, plain))
    np.testing.assert_allclose(got, want, atol=2e-4, rtol=0)
    for token in range(20):
        got, want = (decoder.decode([token] * 3) for decoder in (changed, plain))
        np.testing.assert_allclose(got, want, atol=2e-4, rtol=0)  # logits of up to 6


def test_forms_that_are_left_alone() -> None:
    for change in UNKNOWN:
        assert replace_attention(graphs.changed_graph(change), HEADS) is None, change
    for heads in (HEADS, HEADS + 1):  # of which the cache's are a part
        replaced = replace_attention(graphs.changed_graph(graphs.nothing), heads)
        assert (replaced is None) is (heads % HEADS > 0)


def test_a_change_that_does_not_run_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever trials have missed."""
    path = MODELS / "optimum-gpt2" / "model.onnx"
    wrong = replace_attention(path.read_bytes(), 8)
    assert wrong is not None
    monkeypatch.setattr(opening, "tried", lambda *_: True)
    monkeypatch.setattr(opening, "query_heads", lambda _: 8)
    assert open_session(path, content=wrong.model)  # it loads
    decoder = OnnxDecoder(path, num_threads=1)
    assert decoder.spec.padding is Padding.LEFT
    assert decoder.spec.gather


def test_what_is_no_model_is_refused() -> None:
    for data in (b"", b"nonsense", b"\x3a\x7f"):
        with pytest.raises(ValueError, match="not a"):
            replace_attention(data, 2)


@pytest.mark.depth
def test_cut_and_garbled_models_raise_or_are_left_alone(rng: np.random.Generator) -> None:
    """They come from a file; large weights are elsewhere, so that what is garbled is the graph."""
    path = MODELS / "optimum-gpt2" / "model.onnx"
    model = with_weights_outside(path.read_bytes(), path.name, 64)
    for _ in range(60):
        garbled = bytearray(model)
        for at in rng.integers(0, len(model), 6):
            garbled[at] = rng.integers(256)
        try:
            replaced = replace_attention(bytes(garbled), 4)
        except ValueError:
            continue
        assert replaced is None or replaced.model
