"""Runs the tests that meet arrays in CUDA memory, on a GPU or under Numba's CUDA simulator."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import simulator

HOST, CUDA = Path(__file__).parents[1], Path(__file__).parents[2] / "cuda"


ONE_OF_EACH = [
    f"{CUDA}/test_arrays.py::test_faults_are_read_back",
    f"{CUDA}/test_sequences.py::test_integers_are_numbers",
    f"{HOST}/test_returns.py::test_features_share_the_flags",
    f"{HOST}/test_advantages.py::test_gae_at_a_truncated_step_uses_its_own_next_value",
    f"{HOST}/test_advantages.py::test_vtrace_at_a_truncated_step_uses_its_own_next_value",
    f"{HOST}/test_advantages.py::test_retrace_keeps_nan_in_its_episode",
    f"{HOST}/test_multistep_return.py::test_time_may_be_any_axis",
    f"{HOST}/test_log_softmax.py::test_position_mask",
    f"{CUDA}/test_log_softmax.py::test_one_row_by_several_blocks",
    f"{HOST}/test_log_softmax.py::test_the_statistics_give_the_log_softmax",
    f"{HOST}/test_log_softmax.py::test_fused_equals_the_two_calls",
    f"{HOST}/test_token_log_probs.py::test_position_mask_and_ignore_index",
    f"{HOST}/test_sample_tokens.py::test_only_kept_tokens_are_drawn",
    f"{HOST}/test_sample_tokens_scores.py::test_bias_is_added_after_the_penalty",
    f"{CUDA}/test_sample_tokens.py::test_a_plan_draws_again_in_the_same_memory",
]


def test_one_of_each_kernel() -> None:
    simulator.run(*ONE_OF_EACH, at_least=len(ONE_OF_EACH))


@pytest.mark.simulator
@pytest.mark.parametrize(
    ("files", "at_least"),
    [
        ([HOST / "test_returns.py", HOST / "test_advantages.py", HOST / "test_multistep_return.py"], 30),
        ([CUDA / "test_log_softmax.py", CUDA / "test_token_log_probs.py"], 18),
        ([HOST / "test_log_softmax.py", HOST / "test_token_log_probs.py"], 50),
        ([CUDA / "test_arrays.py", CUDA / "test_sequences.py", CUDA / "test_sample_tokens.py"], 50),
        ([HOST / "test_sample_tokens.py", HOST / "test_sample_tokens_scores.py"], 30),
    ],
    ids=["returns", "logits", "log-probs", "arrays", "draws"],
)
def test_on_device_arrays(files: list[Path], at_least: int) -> None:
    simulator.run(*files, at_least=at_least)
