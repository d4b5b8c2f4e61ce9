"""What runs show of a graph: logits of the last position only behind an open size, and looking ahead."""

from typing import Any

import numpy as np
import pytest
from helpers.models.decoder_graphs import FakeSession, config, expected

from lite.models import OnnxDecoder


def test_last_logits_behind_an_open_size() -> None:
    cases: list[dict[str, Any]] = [{}, {"mask": False}, {"branch": True}, {"cache": False}, {"rows": 1}]
    for options in cases:
        decoder = OnnxDecoder(
            config(), session=FakeSession(declared="rows" in options, last_only=True, **options)
        )
        assert decoder.spec.last_logits_only, options
        prompts = [[1, 2, 3], [4], [5, 6]]
        for got, prompt in zip(decoder.prefill_rows(range(3), prompts), prompts, strict=True):
            np.testing.assert_allclose(got, expected(prompt), atol=1e-5, err_msg=str(options))


def test_nothing_is_left_of_the_runs() -> None:
    for cache in (True, False):
        decoder = OnnxDecoder(config(), session=FakeSession(cache=cache))
        assert not decoder.spec.last_logits_only
        assert decoder.lengths.tolist() == [0]
        assert decoder.cache_bytes == 0


def test_graphs_that_look_ahead_are_refused() -> None:
    cases: list[dict[str, Any]] = [{}, {"mask": False, "positions": False}, {"gather": True}, {"rows": 1}]
    for options in cases:
        session = FakeSession(cache=False, causal=False, **options)
        with pytest.raises(
            ValueError, match="depend on what follows that token: it is not a causal language model"
        ):
            OnnxDecoder(config(), session=session)


def test_tokens_that_are_ruled_out_do_not_count() -> None:
    for causal in (True, False):
        session = FakeSession(cache=False, causal=causal)
        session.ruled_out = [3, 5]
        if causal:
            assert np.isinf(OnnxDecoder(config(), session=session).prefill(0, [1, 2])[[3, 5]]).all(), causal
        else:
            with pytest.raises(ValueError, match="not a causal language model"):
                OnnxDecoder(config(), session=session)


def test_a_graph_that_takes_no_second_row_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot run the graph on 2 rows of 8 new tokens"):
        OnnxDecoder(config(), session=FakeSession(cache=False, rows=1, declared=False))
