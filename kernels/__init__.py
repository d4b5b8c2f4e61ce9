"""Array kernels: multi-step returns, log-probs of tokens, sampling."""

from lite.kernels._rows import get_num_threads, set_num_threads
from lite.kernels._warmup import warmup
from lite.kernels.multistep_return import MultiStepReturn, gather_time, multistep_return
from lite.kernels.sample_tokens import sample_tokens
from lite.kernels.token_log_probs import token_log_probs

__all__ = [
    "MultiStepReturn",
    "gather_time",
    "get_num_threads",
    "multistep_return",
    "sample_tokens",
    "set_num_threads",
    "token_log_probs",
    "warmup",
]
