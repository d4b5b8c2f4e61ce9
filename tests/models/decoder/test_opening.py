"""Pairs of graphs: which of the two reads what, and that halves of different models are refused."""

from __future__ import annotations

import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.models.decoder_graphs import FakeSession, config, make
from helpers.models.real_models import MODELS

from lite.models import OnnxDecoder
from lite.models.decoder import opening


def pair(**options: object) -> tuple[OnnxDecoder, FakeSession, FakeSession]:
    goes_on, reads = FakeSession(steps=1), FakeSession(prompts=True, **options)  # type: ignore[arg-type]
    decoder = OnnxDecoder(config(), session=(goes_on, reads))
    reads.runs.clear()
    return decoder, goes_on, reads


def test_prompts_are_read_whole_and_the_rest_token_by_token() -> None:
    decoder, goes_on, reads = pair()
    decoder.prefill_rows(range(3), [[1, 2, 3], [4], [5, 6]])
    assert (sorted(reads.runs), goes_on.runs) == ([(3, 0, 3)], [])
    decoder.decode([1, 2, 3])
    decoder.extend([0, 1], [[4, 5], [6]])
    assert goes_on.runs == [(3, 3, 1), (2, 4, 1), (1, 5, 1)]
    assert len(reads.runs) == 1


def test_rows_with_and_without_a_past_do_not_share_a_run() -> None:
    decoder, goes_on, reads = pair()
    decoder.prefill(0, [1, 2])
    reads.runs.clear()
    assert decoder.acquire(1) == [1]
    decoder.extend([0, 1], [[3], [4, 5, 6]])
    assert (goes_on.runs, reads.runs) == ([(1, 2, 1)], [(1, 0, 3)])
    decoder.reset(1)
    decoder.decode([7, 8], [0, 1])
    assert (goes_on.runs[1:], reads.runs[1:]) == ([(1, 3, 1)], [(1, 0, 1)])


def test_a_graph_that_reads_prompts_itself_stands_alone() -> None:
    decoder, session, _ = make("pair of many tokens")
    assert decoder.spec.prompts is None
    decoder.prefill(0, [1, 2, 3])
    assert session.runs == [(1, 0, 3)]


def test_halves_of_different_models_are_refused() -> None:
    raises(ValueError, "gives another cache than the other one takes", lambda: pair(cache_type="float16"))


def test_either_file_opens_both() -> None:
    for folder, names in (
        ("exporter-llama-pair", ("decode.onnx", "prefill.onnx")),
        ("optimum-gpt2-pair", ("decoder_model.onnx", "decoder_with_past_model.onnx")),
    ):
        want = OnnxDecoder(MODELS / folder, num_threads=1).prefill(0, [5, 6, 7])
        for name in names:
            decoder = OnnxDecoder(MODELS / folder / name, num_threads=1)
            assert decoder.spec.prompts is not None
            np.testing.assert_array_equal(decoder.prefill(0, [5, 6, 7]), want)


def test_pairs_are_pickled() -> None:
    decoder = OnnxDecoder(MODELS / "optimum-gpt2-pair", num_threads=1)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(decoder)).prefill(0, [5, 6, 7]), decoder.prefill(0, [5, 6, 7])
    )


def test_one_half_alone(tmp_path: Path) -> None:
    for name in ("decoder_with_past_model.onnx", "config.json"):
        shutil.copy(MODELS / "optimum-gpt2-pair" / name, tmp_path)
    whole = OnnxDecoder(MODELS / "optimum-gpt2-pair", num_threads=1)
    alone = OnnxDecoder(tmp_path, num_threads=1)  # reads prompts token by token
    np.testing.assert_allclose(alone.prefill(0, [5, 6, 7]), whole.prefill(0, [5, 6, 7]), atol=1e-5)
    (tmp_path / "decoder_with_past_model.onnx").rename(tmp_path / "old")  # Windows removes no mapped file
    shutil.copy(MODELS / "optimum-gpt2-pair" / "decoder_model.onnx", tmp_path)
    raises(ValueError, "the prefill half of a pair", lambda: OnnxDecoder(tmp_path))


def test_a_cache_of_fixed_length_bounds_the_context() -> None:
    decoder, _, _ = make("static pair")
    assert decoder.context_length == 64
    decoder = OnnxDecoder(
        replace(config(), context_length=20), session=FakeSession(static=64, extras=("cumulative_length",))
    )
    assert decoder.context_length == 20


def test_half_precision_on_a_cpu_is_said() -> None:
    settings = config()
    assert settings.summary is not None
    with pytest.warns(UserWarning, match="float16 weights, which onnxruntime converts at every run on a CPU"):
        OnnxDecoder(
            replace(settings, summary=replace(settings.summary, half_weights=True)), session=FakeSession()
        )


def test_a_variant_is_chosen_by_name(tmp_path: Path) -> None:
    for name, variant in (("optimum-gpt2", "q4"), ("optimum-llama", "int8")):
        shutil.copy(MODELS / name / "model.onnx", tmp_path / f"model_{variant}.onnx")
    raises(ValueError, "pass one of the files, or variant='int8'", lambda: OnnxDecoder(tmp_path))
    decoder = OnnxDecoder(tmp_path, num_threads=1, variant="q4")
    assert decoder.config is not None
    assert decoder.config.graph.name == "model_q4.onnx"
    copied = pickle.loads(pickle.dumps(decoder))
    np.testing.assert_array_equal(copied.prefill(0, [5, 6, 7]), decoder.prefill(0, [5, 6, 7]))


def test_memory_of_small_graphs_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    def planned() -> bool:
        session: Any = OnnxDecoder(MODELS / "optimum-llama", num_threads=1).session
        return bool(session.get_session_options().enable_mem_pattern)

    assert planned()
    monkeypatch.setattr(opening, "_SMALL", 1)
    assert not planned()
