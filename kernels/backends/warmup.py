"""Compile everything ahead of time."""

import numpy as np

from lite.kernels._layers import layer_norm, pointwise
from lite.kernels._optimizers import advance
from lite.kernels.advantages import gae, vtrace
from lite.kernels.log_softmax import masked_log_softmax
from lite.kernels.multistep_return import multistep_return
from lite.kernels.returns import td_lambda_return
from lite.kernels.sample_tokens import sample_tokens
from lite.kernels.sum_tree import min_tree, search_sum_tree, sum_tree, update_min_tree, update_sum_tree
from lite.kernels.token_log_probs import token_log_probs, token_log_probs_and_entropy, token_scores


def warmup() -> None:
    """Compile every kernel for the types it is usually called with, into Numba's cache.

    Worth a call where the first request must not wait, and while an image with read-only code is built.

    Example:
        >>> import lite.kernels
        >>> lite.kernels.warmup()
    """
    done = np.zeros((1, 2), np.bool_)
    for dtype in (np.float32, np.float64):  # returns of float16 and integers are computed in these
        reward = np.zeros((1, 2), dtype)
        multistep_return(reward, done, gamma=0.9, n_steps=2)
        for gamma in (0.9, np.full((1, 2), 0.9)):  # few values have code of their own
            gae(reward, reward, reward, done, gamma=gamma, lmbda=0.9)
            td_lambda_return(reward, reward, done, gamma=gamma, lmbda=0.9)
        vtrace(reward, reward, reward, reward, reward, done, gamma=0.9)
        tree = sum_tree(2, dtype)
        update_sum_tree(tree, [0], 1.0)
        search_sum_tree(tree, [0.5])
        update_min_tree(min_tree(2, dtype), [0], 1.0)
        td_lambda_return(reward, reward, done, gamma=0.9, lmbda=0.9, rolling=False)
        flat_array = np.zeros(1, dtype)
        for name, arrays in (("adam", 5), ("sgd", 3), ("rmsprop", 5), ("lerp", 2)):
            advance(name, [[flat_array] * arrays], np.ones(8, dtype))
    for name in ("float16", "float32", "float64"):  # bfloat16 runs the code of float16
        logits = np.zeros((1, 2), name)
        tokens = np.zeros(1, np.int64)
        token_log_probs(logits, tokens)  # statistics run the same code
        token_log_probs_and_entropy(logits, tokens)  # as do entropies alone
        token_scores(logits, tokens)  # with a support, too
        masked_log_softmax(logits)
    rows, flat = np.zeros((1, 2), np.float32), np.zeros((1, 4096), np.float32)
    for details in (False, True):
        sample_tokens(flat, np.zeros(1, np.int64), top_p=0.9, details=details)
        sample_tokens(rows, np.zeros(1, np.int64), mask=np.ones((1, 2), np.bool_), details=details)
    for name in ("gelu", "gelu_by_tanh", "silu"):
        pointwise(name, rows)
    layer_norm(rows, None, None, 2, 1e-5)
