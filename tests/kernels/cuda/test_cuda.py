"""Runs the tests that meet arrays in CUDA memory, on a GPU or under Numba's CUDA simulator."""

from pathlib import Path

import pytest
from helpers import simulator

HOST, CUDA = Path(__file__).parents[1], Path(__file__).parents[2] / "cuda"


@pytest.mark.parametrize(
    ("files", "at_least"),
    [
        ([HOST / "test_returns.py", HOST / "test_advantages.py", HOST / "test_multistep_return.py"], 30),
        ([CUDA / "test_log_softmax.py", CUDA / "test_token_log_probs.py"], 18),
        ([HOST / "test_log_softmax.py", HOST / "test_token_log_probs.py"], 45),
        ([CUDA / "test_arrays.py", CUDA / "test_sequences.py", CUDA / "test_sample_tokens.py"], 50),
        ([HOST / "test_sample_tokens.py", HOST / "test_sample_tokens_scores.py"], 30),
    ],
    ids=["returns", "logits", "log-probs", "arrays", "draws"],
)
def test_on_device_arrays(files: list[Path], at_least: int) -> None:
    simulator.run(*files, at_least=at_least)
