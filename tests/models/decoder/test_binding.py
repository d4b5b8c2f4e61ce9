"""Runs of a decoder graph through bindings by pointer."""

import numpy as np
import pytest
from helpers.models.decoder_graphs import FakeSession, config
from helpers.models.real_models import open_model

from lite.models import OnnxDecoder
from lite.models.decoder.binding import BoundGraph, PlacedGraph
from lite.models.graph.session import PointerBinding


def test_an_input_is_bound_again_only_if_it_is_another_array(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = open_model("optimum-llama")
    graph = BoundGraph(PlacedGraph(loaded.session, loaded.spec, 512, 256, "cpu", 0))
    bound: list[str] = []
    monkeypatch.setattr(PointerBinding, "bind_input", lambda self, name, *rest: bound.append(name))
    ids, same = np.array([[1, 2]]), np.array([[1, 2]])
    for values in (ids, ids, same, same, ids):
        graph.bind_input("input_ids", values)
    assert bound == ["input_ids"] * 3


def test_what_cannot_run_says_with_which_sizes() -> None:
    """A graph for single steps whose sizes have names."""
    message = (
        r"1 row of 2 new tokens \(input_ids \[1, 2\], attention_mask \[1, 2\], position_ids \[1, 2\]\): "
        r"Got: 2 Expected: 1\. .*one token at a time must declare that: input_ids \[batch, 1\]"
    )
    with pytest.raises(ValueError, match=message):
        OnnxDecoder(config(), session=FakeSession(declared=False, steps=1))
    session = FakeSession()
    session.run_with_iobinding = lambda binding: 1 // 0  # type: ignore[method-assign,assignment]
    with pytest.raises(ValueError, match=r"1 row of 2 new tokens .*: .*by zero$"):
        OnnxDecoder(config(), session=session)
