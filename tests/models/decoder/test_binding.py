"""Runs of a decoder graph through bindings by pointer."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.decoder_graphs import FakeSession, config
from helpers.real_models import MODELS

from lite.models import OnnxDecoder
from lite.models.decoder.binding import BoundGraph, PlacedGraph
from lite.models.graph.session import PointerBinding

pytest.importorskip("onnxruntime")


def test_returned_logits_are_the_callers(decoder: OnnxDecoder) -> None:
    decoder.prefill(0, [1, 2, 3])
    first = decoder.decode([4])
    kept = first.copy()
    decoder.decode([5])
    np.testing.assert_array_equal(first, kept)


def test_an_input_is_bound_again_only_if_it_is_another_array(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = OnnxDecoder(MODELS / "optimum-llama", num_threads=1)
    graph = BoundGraph(PlacedGraph(loaded.session, loaded.spec, 512, 256, "cpu", 0))
    bound: list[str] = []
    monkeypatch.setattr(PointerBinding, "bind_input", lambda self, name, *rest: bound.append(name))
    ids, same = np.array([[1, 2]]), np.array([[1, 2]])
    for values in (ids, ids, same, same, ids):
        graph.bind_input("input_ids", values)
    assert bound == ["input_ids"] * 3


@pytest.mark.parametrize(
    ("options", "shape"), [({"steps": 1}, "Got: 3 Expected: 1"), ({"last_only": True}, r"\(1, 1, 23\)")]
)
def test_graphs_that_take_less_than_they_declare(options: dict[str, int], shape: str) -> None:
    """A graph for single steps, or with the last position's logits only, whose sizes have names."""
    decoder = OnnxDecoder(config(), session=FakeSession(declared=False, **options))
    message = (
        rf"1 row of 3 new tokens \(input_ids \[1, 3\], attention_mask \[1, 3\], position_ids \[1, 3\]\): "
        rf".*{shape}.*must declare that: input_ids \[batch, 1\], logits \[batch, 1, vocabulary\]"
    )
    with pytest.raises(RuntimeError, match=message):
        decoder.prefill(0, [1, 2, 3])
    decoder.prefill(0, [4])
    with pytest.raises(ValueError, match=r"cannot run the graph on 2 rows of 2 new tokens"):
        OnnxDecoder(config(), session=FakeSession(cache=False, declared=False, last_only=True))
