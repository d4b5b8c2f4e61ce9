"""Compile everything ahead of time."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from lite.kernels._optimizers import advance
from lite.kernels.advantages import gae, vtrace
from lite.kernels.backends.choice import choice
from lite.kernels.backends.compiler import import_numba
from lite.kernels.linear_log_probs import LinearLogProbs
from lite.kernels.log_softmax import masked_log_softmax
from lite.kernels.multistep_return import multistep_return
from lite.kernels.returns import td_lambda_return
from lite.kernels.sample_tokens import sample_tokens
from lite.kernels.sum_tree import min_tree, search_sum_tree, sum_tree, update_min_tree, update_sum_tree
from lite.kernels.token_log_probs import token_log_probs, token_log_probs_and_entropy, token_scores


def warmup(progress: Callable[[str, int, int], None] | None = None) -> None:
    """Compile every kernel for the types it is usually called with, into Numba's cache.

    Worth a call where the first request must not wait, and while an image with read-only code is built. Where
    a library compiled beforehand runs the kernels, there is nothing to do.

    Args:
        progress: called before each kernel with its name, how many are done, and of how many.

    Raises:
        ImportError: Numba is not installed.

    Example:
        >>> import lite.kernels
        >>> lite.kernels.warmup()  # doctest: +SKIP
    """
    if choice().backend != "numba":
        if choice().warning:  # plain NumPy for want of it
            import_numba("lite.kernels.warmup")
        return
    work = list(_calls())
    for done, (name, call) in enumerate(work):
        if progress is not None:
            progress(name, done, len(work))
        call()


def _calls() -> Iterator[tuple[str, Callable[[], object]]]:
    """Calls that compile everything, with names for them."""
    # These load compiled code, which `import lite.kernels` does not.
    from lite.kernels import _layers
    from lite.kernels.networks import convolution, recurrent

    done = np.zeros((1, 2), np.bool_)
    for dtype in (np.float32, np.float64):  # returns of float16 and integers are computed in these
        kind = np.dtype(dtype).name
        reward = np.zeros((1, 2), dtype)
        yield f"multistep_return, {kind}", partial(multistep_return, reward, done, gamma=0.9, n_steps=2)
        for factors, gamma in (("", 0.9), (", a gamma of each step", np.full((1, 2), 0.9))):
            # few values have code of their own
            yield f"gae, {kind}{factors}", partial(gae, reward, reward, reward, done, gamma=gamma, lmbda=0.9)
            returns = partial(td_lambda_return, reward, reward, done, gamma=gamma, lmbda=0.9)
            yield f"td_lambda_return, {kind}{factors}", returns
        yield f"vtrace, {kind}", partial(vtrace, reward, reward, reward, reward, reward, done, gamma=0.9)
        tree = sum_tree(2, dtype)
        yield f"update_sum_tree, {kind}", partial(update_sum_tree, tree, [0], 1.0)
        yield f"search_sum_tree, {kind}", partial(search_sum_tree, tree, [0.5])
        yield f"update_min_tree, {kind}", partial(update_min_tree, min_tree(2, dtype), [0], 1.0)
        fixed = partial(td_lambda_return, reward, reward, done, gamma=0.9, lmbda=0.9, rolling=False)
        yield f"td_lambda_return, {kind}, not rolling", fixed
        scores = LinearLogProbs(reward, reward, np.zeros(1, np.int64))
        yield f"linear_log_probs, {kind}", scores.log_probs
        yield f"linear_log_probs, {kind}, gradients", partial(scores.gradients, np.ones(1), True, True)
        flat_array = np.zeros(1, dtype)
        for name, arrays in (("adam", 5), ("sgd", 3), ("rmsprop", 5), ("lerp", 2)):
            yield f"{name}, {kind}", partial(advance, name, [[flat_array] * arrays], np.ones(8, dtype))
    for kind in ("float16", "float32", "float64"):  # bfloat16 runs the code of float16
        logits, tokens = np.zeros((1, 2), kind), np.zeros(1, np.int64)
        yield f"token_log_probs, {kind}", partial(token_log_probs, logits, tokens)  # and statistics
        # as do entropies alone
        yield f"token_log_probs_and_entropy, {kind}", partial(token_log_probs_and_entropy, logits, tokens)
        yield f"token_scores, {kind}", partial(token_scores, logits, tokens)  # with a support, too
        yield f"masked_log_softmax, {kind}", partial(masked_log_softmax, logits)
    rows, flat, seed = np.zeros((1, 2), np.float32), np.zeros((1, 4096), np.float32), np.zeros(1, np.int64)
    for details, told in ((False, ""), (True, ", details")):
        yield f"sample_tokens{told}", partial(sample_tokens, flat, seed, top_p=0.9, details=details)
    yield "sample_tokens, masks", partial(sample_tokens, rows, seed, mask=np.ones((1, 2), np.bool_))
    for name in ("gelu", "gelu_by_tanh", "silu"):
        yield name, partial(_layers.pointwise, name, rows)
    yield "softmax", partial(_layers.softmax, rows)
    yield "log_softmax", partial(_layers.log_softmax, rows)
    yield "softmax_gradients", partial(_layers.softmax_gradients, rows, rows)
    yield "layer_norm", partial(_layers.layer_norm, rows, None, None, 2, 1e-5)
    yield "rms_norm", partial(_layers.rms_norm, rows, None, 2, 1e-5)
    yield "rms_norm_gradients", partial(_layers.rms_norm_gradients, rows, None, 2, 1e-5, rows, True)
    yield "swiglu", partial(_layers.swiglu, rows, rows)
    yield "swiglu_gradients", partial(_layers.swiglu_gradients, rows, rows, rows)
    half = rows[:, :1].copy()
    yield "rotate", partial(_layers.rotate, rows.copy(), half, half, 1, 2, False)
    heads = _layers.Rows(np.zeros(16, np.float32), 0, 16)
    given = (heads, heads, heads, seed[None], seed[None] + 1, 1.0, (1, 1, 1, 1, 16))
    yield "attention", partial(_layers.attention, *given)
    out = heads.flat.copy(), heads.flat[:1].copy(), heads.flat, (heads.flat.copy(),) * 3
    yield "attention_gradients", partial(_layers.attention_gradients, *given, *out)
    gates, state = np.zeros((1, 1, 64), np.float32), np.zeros((1, 16), np.float32)
    matrix = np.zeros((16, 64), np.float32)
    yield "lstm", partial(recurrent.lstm, gates, state, state, matrix)
    states = state[None].repeat(2, 0)
    yield (
        "lstm, gradients",
        partial(recurrent.lstm_gradients, gates, states, matrix, states[1:], state, state),
    )
    yield "gru", partial(recurrent.gru, gates[..., :48], state, matrix[:, :48], None)
    yield "gru, gradients", partial(recurrent.gru_gradients, gates, states, matrix[:, :48], states[1:], state)
    windows, image = convolution.Convolution((1,), (1,), (0,), (0,), 1), rows[None]
    yield "convolution", partial(windows.values, image, image, None)
    yield "convolution, gradients", partial(windows.by_weight, image[..., :1], image, image.shape)
