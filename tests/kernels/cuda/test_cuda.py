"""Runs the tests that meet arrays in CUDA memory, on a GPU or under Numba's CUDA simulator."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import simulator

HOST, CUDA = Path(__file__).parents[1], Path(__file__).parents[2] / "cuda"


@pytest.mark.parametrize(
    ("files", "at_least"),
    [
        ([CUDA / "test_arrays.py"], 20),
        ([CUDA / "test_sequences.py"], 50),
        ([HOST / "test_returns.py", HOST / "test_advantages.py", HOST / "test_multistep_return.py"], 90),
        ([CUDA / "test_log_softmax.py"], 50),
        ([HOST / "test_log_softmax.py", HOST / "test_token_log_probs.py"], 150),
        ([CUDA / "test_token_log_probs.py"], 20),
        ([CUDA / "test_sample_tokens.py", HOST / "test_sample_tokens.py"], 95),
        ([HOST / "test_sample_tokens_scores.py"], 35),
    ],
    ids=["arrays", "sequences", "returns", "logits", "log-probs", "supports", "sampling", "scores"],
)
def test_on_device_arrays(files: list[Path], at_least: int) -> None:
    simulator.run(*files, at_least=at_least)
