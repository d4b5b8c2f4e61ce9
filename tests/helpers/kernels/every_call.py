"""Calls of every public function that runs a compiled kernel, with every type that it takes."""

from typing import Any

import numpy as np

import lite.kernels as k
from lite.kernels import _images, _layers, _optimizers
from lite.kernels.cpu import (
    attention,
    convolution,
    flat_rows,
    images,
    layers,
    linear_log_probs,
    log_softmax,
    multistep_return,
    optimizers,
    recurrent,
    returns,
    sample_tokens,
    sum_tree,
    token_log_probs,
)
from lite.kernels.linear_log_probs import LinearLogProbs
from lite.kernels.networks.convolution import Convolution
from lite.kernels.networks.recurrent import gru, gru_gradients, lstm, lstm_gradients

ENTRIES: list[tuple[Any, str]] = [
    (returns, "lambda_returns"), (returns, "fixed_lambda_returns"), (returns, "advantages"),
    (returns, "short_lambda_returns"), (returns, "short_advantages"),
    (multistep_return, "sequences"), (log_softmax, "rows"), (log_softmax, "log_softmax"),
    (sample_tokens, "rows"), (flat_rows, "flat_row"), (token_log_probs, "scores"),
    (linear_log_probs, "merge"), (linear_log_probs, "shares"), (layers, "gelu"),
    (layers, "gelu_by_tanh"), (layers, "silu"), (layers, "layer_norm"),
    (layers, "softmax"), (layers, "log_softmax"), (layers, "softmax_gradients"),
    (layers, "rms_norm"), (layers, "rms_norm_gradients"), (layers, "swiglu"), (layers, "swiglu_gradients"),
    (layers, "rotate"), (attention, "attention"), (attention, "gradients"),
    (recurrent, "lstm"), (recurrent, "lstm_back"),
    (recurrent, "gru"), (recurrent, "gru_back"), (convolution, "convolve"), (convolution, "by_weight"),
    (sum_tree, "update"), (sum_tree, "search"), (optimizers, "adam"), (optimizers, "sgd"),
    (optimizers, "rmsprop"), (optimizers, "lerp"), (images, "affine"), (images, "grey"),
    (images, "resize"),
]  # fmt: skip


def call_everything() -> None:
    """Every public function that compiles, with the types that warmup promises."""
    done, ids = np.zeros((2, 3), bool), np.zeros(2, np.int64)
    for dtype in (np.float16, np.float32, np.float64, np.int64):
        r = np.ones((2, 3), dtype)
        r.flags.writeable = dtype is not np.float32
        k.multistep_return(r, done, gamma=0.9, n_steps=2)
        k.reward_to_go(r, done, gamma=0.9)
        k.discounted_return(r, done, np.zeros(2), gamma=np.full((2, 3), 0.9))
        k.td0_return(r, r, done, gamma=0.9)
        k.td1_return(r, r, done, gamma=0.9, rolling=False)
        k.td_lambda_return(r, r, done, done, gamma=0.9, lmbda=0.9, time_dim=0)
        k.gae(r, r, r, done, gamma=0.9, lmbda=0.9)
        k.vtrace(r, r, r, r, r, done, done, gamma=0.9)
        k.gae(r[:, ::2], r[:, ::2], r[:, ::2], done[:, ::2], gamma=0.9, lmbda=0.9, time_dim=0)
    few = np.ones((2, 3), np.float32)  # has code of its own, if it is writable
    k.td_lambda_return(few, few, done, gamma=0.9, lmbda=0.9)
    k.gae(few, few, few, done, gamma=0.9, lmbda=0.9)
    for dtype in (np.float16, np.float32, np.float64):
        x, mask = np.zeros((2, 5), dtype), np.ones((2, 5), bool)
        x.flags.writeable = dtype is not np.float32
        for m in (None, mask, mask[:, 0]):
            k.token_log_probs(x, ids, m, temperature=0.7)
            k.token_log_probs_and_entropy(x, ids, m)
            if m is not mask:
                k.token_log_probs(x, ids, m, support=([0, 2, 2], [0, 3]))
                k.token_scores(x, ids, m, temperature=np.array([0.5, 2.0]))
            k.masked_log_softmax(x, m)
            k.entropy(x, m)
            k.log_softmax_stats(x, m)
        k.linear_log_probs(x, x, ids, bias=x[0, :2], temperature=0.7)
        for directions in (True, False):
            scores = LinearLogProbs(x, x, ids, mask=np.array([True, False]))
            scores.log_probs(directions)
            scores.gradients(x[:, 0] + 1, True, not directions, not directions)
        k.sample_tokens(
            x, ids, temperature=0.5, top_k=2, top_p=0.9, min_p=0.1, repetition_penalty=1.1, mask=mask,
            previous=[[1], [2]],
        )  # fmt: skip
        for asked in ({}, {"scores": x}, {"typical_p": 0.9}, {"bias": ([0, 1, 1], [3], [1.0])}):
            k.sample_tokens(x, np.random.default_rng(0), **asked)
            k.sample_tokens(x, ids, **asked, details=True, kept_ids=True, top_n=2)
    for dtype in (np.float32, np.float64):
        index, one = np.zeros((2, 2), np.int32), np.float64(1)
        index.flags.writeable = dtype is not np.float32
        tree = k.sum_tree(5, dtype)
        k.update_sum_tree(tree, index, one)
        k.update_min_tree(k.min_tree(5, dtype), index, np.broadcast_to(one, (2, 2)))
        k.search_sum_tree(tree, np.zeros((2, 2), np.float32))
        for rows in (np.zeros((5, 3), dtype), np.zeros((5, 6), dtype)[:, ::2]):
            for name, arrays in (("adam", 5), ("sgd", 3), ("rmsprop", 5), ("lerp", 2)):
                leaf = [row.reshape(-1) for row in rows[:arrays].copy()]
                _optimizers.advance(name, [leaf, [leaf[0], leaf[1], *[leaf[0][:0]] * (arrays - 2)]], leaf[0])
    for x in (np.zeros((2, 3), np.float32), np.broadcast_to(np.zeros(3, np.float32), (2, 3))):
        for name in ("gelu", "gelu_by_tanh", "silu"):
            _layers.pointwise(name, x)
        _layers.softmax(x)
        _layers.log_softmax(x)
        _layers.softmax_gradients(x, x)
        _layers.layer_norm(x, x[0], None, 3, 1e-5)
        _layers.rms_norm(x, x[0], 3, 1e-5)
        _layers.rms_norm_gradients(x, x[0], 3, 1e-5, x, True)
        _layers.swiglu(x, x)
        _layers.swiglu_gradients(x, x, x)
    for x in (np.zeros((1, 3, 2, 2), np.float32), np.broadcast_to(np.uint8(1), (1, 3, 2, 2))):
        _images.affine(x, 0.0, 255.0, True)
        _images.grey(x, (0.5, 0.25, 0.25))
        _images.resize(x, np.eye(3, 2), np.ones((1, 2)))
    one = np.zeros((1, 2), np.float32)
    _layers.rotate(one, *[np.broadcast_to(np.float32(1), (1, 1))] * 2, 1, 2, False)
    rows, seen = _layers.Rows(np.frombuffer(bytes(8), np.float32), 0, 2), np.broadcast_to(0, (1, 1))
    given = (rows, rows, rows, seen, seen, 1.0, (1, 1, 1, 1, 2))
    out, logs = _layers.attention(*given)
    _layers.attention_gradients(*given, out, logs, one, (one[0], one[0], one[0]))
    state, gates = np.zeros((1, 16), np.float32), np.zeros((2, 1, 64), np.float32)[::-1]
    _, states, gates = lstm(gates, state, state, gates[0].repeat(16, 0))
    lstm_gradients(gates, states, gates[0].repeat(16, 0), states[1:], state, state)
    states, gates = gru(gates[..., :48], state, gates[0, :, :48].repeat(16, 0), None)
    gru_gradients(gates, states, gates[0, :, :48].repeat(16, 0), states[1:], state)
    windows, image = Convolution((1,), (1,), (0,), (0,), 1), one[:, None]
    windows.values(image, image, np.broadcast_to(np.float32(0), (1,)))
    windows.by_input(image, image, image.shape)
    windows.by_weight(image, image, image.shape)


def answer(module: Any, args: tuple[Any, ...]) -> Any:
    """What a kernel that computes nothing returns: to who draws tokens that the first row is flat."""
    return -1 if module is sum_tree else args[-2]
