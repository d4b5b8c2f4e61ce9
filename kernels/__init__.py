"""Array kernels: returns and advantages, softmax of logits, sampling, ragged batches.

One file for each public function or family: `returns`, `advantages` and, under TorchRL's names,
`value_estimates`; `multistep_return`; `log_softmax`, `token_log_probs` and `linear_log_probs`;
`sample_tokens`, one use of a `sampling_plan`; `ragged`; `sum_tree`. Each documents, checks and prepares, and
calls a compiled half in `cpu/` or `cuda/`. `lite.nn` calls `_layers` and the derivatives beside
`linear_log_probs`, `lite.optim` calls `_optimizers`. `backends/` compiles and runs the halves.

Shared parts: `_device` finds where arrays lie, `_arrays` makes plain memory of them, `_integer` reads whole
numbers. `returns` checks the arguments of recursions in time, `_sequences` lays them out; `_logits` checks
logits and supports, `_row_numbers` runs kernels over their rows, `_outcomes` names the results of
draws. `_threads` hands rows to threads.
"""

from lite.kernels._threads import get_num_threads, set_num_threads
from lite.kernels.advantages import Advantage, gae, retrace, vtrace
from lite.kernels.backends.choice import backend
from lite.kernels.backends.warmup import warmup
from lite.kernels.linear_log_probs import linear_log_probs
from lite.kernels.log_softmax import LogSoftmaxStats, entropy, log_softmax_stats, masked_log_softmax
from lite.kernels.multistep_return import MultiStepReturn, gather_time, multistep_return
from lite.kernels.ragged import Packed, Padded, cu_seqlens, left_to_right_pad, pad_sequences, unpad
from lite.kernels.returns import discounted_return, reward_to_go, td0_return, td1_return, td_lambda_return
from lite.kernels.sample_tokens import sample_tokens
from lite.kernels.sampling_plan import DrawDetails, SamplingPlan
from lite.kernels.sum_tree import min_tree, search_sum_tree, sum_tree, update_min_tree, update_sum_tree
from lite.kernels.token_log_probs import (
    TokenScores,
    token_log_probs,
    token_log_probs_and_entropy,
    token_scores,
)
from lite.kernels.value_estimates import (
    generalized_advantage_estimate,
    reward2go,
    td0_advantage_estimate,
    td0_return_estimate,
    td1_advantage_estimate,
    td1_return_estimate,
    td_lambda_advantage_estimate,
    td_lambda_return_estimate,
    vec_generalized_advantage_estimate,
    vec_td1_advantage_estimate,
    vec_td1_return_estimate,
    vec_td_lambda_advantage_estimate,
    vec_td_lambda_return_estimate,
    vtrace_advantage_estimate,
)

__all__ = [
    "Advantage", "DrawDetails", "LogSoftmaxStats", "MultiStepReturn", "Packed", "Padded", "SamplingPlan",
    "TokenScores", "backend", "cu_seqlens", "discounted_return", "entropy", "gae", "gather_time",
    "generalized_advantage_estimate", "get_num_threads", "left_to_right_pad", "linear_log_probs",
    "log_softmax_stats", "masked_log_softmax", "min_tree", "multistep_return", "pad_sequences", "retrace",
    "reward2go", "reward_to_go", "sample_tokens", "search_sum_tree", "set_num_threads", "sum_tree",
    "td0_advantage_estimate", "td0_return", "td0_return_estimate", "td1_advantage_estimate", "td1_return",
    "td1_return_estimate", "td_lambda_advantage_estimate", "td_lambda_return", "td_lambda_return_estimate",
    "token_log_probs", "token_log_probs_and_entropy", "token_scores", "unpad", "update_min_tree",
    "update_sum_tree", "vec_generalized_advantage_estimate", "vec_td1_advantage_estimate",
    "vec_td1_return_estimate", "vec_td_lambda_advantage_estimate", "vec_td_lambda_return_estimate", "vtrace",
    "vtrace_advantage_estimate", "warmup"
]  # fmt: skip
