"""Trials of attention: what gives other numbers is found out, at whatever distance."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.models import attention_graphs as graphs
from helpers.models.handmade_exports import HEADS

from lite.models import OnnxDecoder, Padding
from lite.models.decoder.attention import Attention, AttentionShape, Experiment, replace_attention
from lite.models.decoder.attention_experiment import _new, succeeds, tried

TRIED = [
    partial(graphs.window, length=6), partial(graphs.window, length=200), graphs.everything,
    graphs.itself_not, graphs.no_filler,
    partial(graphs.scores_changed, kind="Mul", value=np.array([1, 2], np.float32).reshape(1, HEADS, 1, 1)),
    graphs.farther_is_less, graphs.cache_in_reverse,
]  # fmt: skip


@pytest.mark.grid
@pytest.mark.parametrize("change", TRIED)
def test_what_gives_other_numbers_is_found_out(change: graphs.Change, tmp_path: Path) -> None:
    content = graphs.changed_graph(change)
    replaced = replace_attention(content, HEADS)
    assert replaced is not None
    alike = change is not graphs.cache_in_reverse
    assert len(replaced.experiments) == (1 if alike else 2)
    folder = graphs.folder_of(content, tmp_path)
    assert not all(succeeds(one, folder / "model.onnx", 256) for one in replaced.experiments)
    if alike:  # otherwise it is no cache
        assert OnnxDecoder(folder, num_threads=1).spec.padding is Padding.LEFT


def test_the_layers_are_tried_one_by_one_where_they_differ(tmp_path: Path) -> None:
    content = graphs.changed_graph(partial(graphs.farther_is_less, layers=slice(1, None)))
    replaced = replace_attention(content, HEADS)
    assert replaced is not None
    found = [
        succeeds(one, graphs.folder_of(content, tmp_path) / "model.onnx", 256) for one in replaced.experiments
    ]
    assert sorted(found) == [False, True]


def test_heads_that_do_not_fit_are_found_out(tmp_path: Path) -> None:
    """A folder's configuration may be of another model."""
    content = graphs.changed_graph(graphs.nothing)
    assert replace_attention(content, 3) is None
    replaced = replace_attention(content, 2 * HEADS)
    assert replaced is not None
    path = graphs.folder_of(content, tmp_path) / "model.onnx"
    assert not any(succeeds(one, path, 256) for one in replaced.experiments)


def test_queries_are_long_so_that_few_positions_count() -> None:
    names = Attention(b"q", b"k", b"v", *[b""] * 5, scale=1.0)
    new = _new(names, AttentionShape(4, 2, 64), 8, 5, np.random.default_rng(0))
    assert {name: x.shape for name, x in new.items()} == {
        "q": (8, 4, 5, 64),
        **dict.fromkeys("kv", (8, 2, 5, 64)),
    }
    np.testing.assert_allclose([new[name].std() for name in "qkv"], [2, 1, 1], rtol=0.05)


def test_rows_too_short_to_try_are_left_alone(tmp_path: Path) -> None:
    content = graphs.changed_graph(graphs.nothing)
    replaced = replace_attention(content, HEADS)
    assert replaced is not None
    path = graphs.folder_of(content, tmp_path) / "model.onnx"
    assert [succeeds(replaced.experiments[0], path, length) for length in (4, 9, None)] == [False, True, True]


def test_a_success_is_remembered_where_a_folder_is_named(tmp_path, monkeypatch):
    replaced = replace_attention(graphs.changed_graph(graphs.nothing), HEADS)
    assert replaced is not None
    (one,) = replaced.experiments
    other = one._replace(exported=one.exported + b"\x0a\x00")
    outcomes: list[bool] = []
    calls: list[Experiment] = []

    def counted(experiment: Experiment, *_: Any) -> bool:
        calls.append(experiment)
        return outcomes.pop(0)

    monkeypatch.setattr("lite.models.decoder.attention_experiment.succeeds", counted)
    path = tmp_path / "model.onnx"
    outcomes[:] = [True, True]
    monkeypatch.delenv("LITE_CACHE_DIR", raising=False)
    assert [tried(one, path, 64) for _ in range(2)] == [True, True]
    assert len(calls) == 2
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv("LITE_CACHE_DIR", str(tmp_path / "cache"))
    outcomes[:] = [False, True, True, False]
    assert [tried(one, path, 64) for _ in range(3)] == [False, True, True]  # a failure is tried again
    assert len(calls) == 4
    assert tried(one, path, 32)  # of shorter rows less was tried
    assert not tried(other, path, 64)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LITE_CACHE_DIR", str(tmp_path / "file"))
    outcomes[:] = [True]
    assert tried(one, path, 64)
