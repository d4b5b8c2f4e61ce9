"""Log-probs of tokens from hidden states and the output matrix, as one node of a gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.device import unwrap, wrap
from lite._arrays.dtypes import compute_dtype
from lite._arrays.types import Array, HostArray, as_array, computed
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.tape import has_derivative, value_of, with_vjp
from lite._transforms.vmap.running import require_ids
from lite.nn.layers.activations import LogSoftmax
from lite.nn.layers.linear import linear


def linear_log_probs(
    input: Array,
    weight: Any,
    target: Array,
    bias: Array | None = None,
    *,
    mask: Array | None = None,
    temperature: Any = 1.0,
    ignore_index: int = -100,
) -> Any:
    """Log-probs of tokens under the softmax of a linear layer, computed for blocks of rows.

    The result is `log_softmax(input @ weight.T + bias)` at `target`, by `lite.kernels.linear_log_probs`, with
    at most 32 MB of logits at a time, in the backward pass, too. A gradient by `weight` or `bias` computes
    the logits of rows with a gradient again; one by `input` alone keeps an array of its size instead. Under
    `vmap` and `lite.jit`, and for arrays of JAX, all logits are held at once, and all rows of a quantised
    matrix.

    Args:
        input: hidden states, (*B, D), of floats.
        weight: the output matrix (V, D), as in `Linear`; the transposed view of a matrix (D, V) is not
            copied. Or a quantised matrix, a constant: an object with `shape` and `rows(start, stop)`, which
            returns rows as float32.
        target: ids of tokens, integers (*B).
        bias: (V,), or None.
        mask: bools (*B). Rows where it is False are not computed; their result is 0 without a gradient.
        temperature: divides the logits: a positive number, or one for each row, (*B). A constant.
        ignore_index: an id whose rows are masked.

    Returns:
        Log-probs (*B), float32 or float64.

    Raises:
        TypeError: arrays of other types.
        ValueError: shapes that do not fit.
        IndexError: ids out of range.

    Source:
        The purpose is that of LigerFusedLinearCrossEntropy (Hsu et al., 2024, arXiv:2410.10989).

    Example:
        >>> import numpy as np
        >>> from lite.nn import functional as F
        >>> hidden, weight = np.ones((3, 2), np.float32), np.zeros((4, 2), np.float32)
        >>> ids, mask = np.array([0, 1, 3]), np.array([True, True, False])
        >>> F.linear_log_probs(hidden, weight, ids, mask=mask).round(4)
        array([-1.3863, -1.3863,  0.    ], dtype=float32)
    """
    quantized = not hasattr(weight, "dtype") and hasattr(weight, "rows")
    given: Any = [
        as_array(wrap(computed(a))) if hasattr(a, "dtype") else a
        for a in (input, weight, bias, target, mask, temperature)
    ]
    if any(isinstance(value_of(a), HostArray) for a in given):
        if quantized:
            given[1] = weight.rows(0, weight.shape[0])
        return unwrap(_formula(given, ignore_index))
    from lite.kernels.linear_log_probs import LinearLogProbs  # lite.kernels, which most layers do not need

    x, matrix, added, ids, counted, divisor = map(value_of, given)
    call = LinearLogProbs(x, matrix, ids, added, counted, divisor, ignore_index)
    of_input, of_weight, of_bias = map(_learns, given[:3])
    out = call.log_probs(directions=of_input and not (of_weight or of_bias))

    def vjp(g: Array) -> tuple[Any, ...]:
        if isinstance(g, HostArray):  # an outer vmap over gradients of the same log-probs
            return _mapped(g, [x, matrix, added, ids, counted, divisor], ignore_index)
        return call.gradients(g, of_input, of_weight, of_bias)

    return with_vjp(out, given[:3], vjp)


def _learns(x: Any) -> bool:
    return type(x) is TracedArray and x.node is not None and has_derivative(x)


def _formula(given: list[Any], ignored: int) -> Array:
    """`linear_log_probs` by NumPy's functions; `given` are its arguments in order."""
    log_probs, counted, ids, _ = _all_log_probs(given, ignored)
    picked = np.take_along_axis(log_probs, ids[..., None], -1)[..., 0]
    return np.where(counted, picked, picked.dtype.type(0))


def _mapped(g: Array, given: list[Any], ignored: int) -> tuple[Any, ...]:
    """Derivatives by input, weight and bias for a mapped derivative `g`, by NumPy's functions."""
    x, weight, *others = given
    if not hasattr(weight, "dtype"):
        weight = weight.rows(0, weight.shape[0])
    log_probs, counted, ids, divisor = _all_log_probs([x, weight, *others], ignored)
    chosen = np.zeros_like(log_probs)
    np.put_along_axis(chosen, ids[..., None], 1.0, -1)
    shares = np.where(counted, g, g.dtype.type(0))[..., None] * ((chosen - np.exp(log_probs)) / divisor)
    rows = shares.reshape(-1, weight.shape[0])
    states = np.where(counted[..., None], x, x.dtype.type(0)).reshape(-1, weight.shape[1])
    return np.matmul(shares, weight), np.matmul(rows.T, states), rows.sum(0)


def _all_log_probs(given: list[Any], ignored: int) -> tuple[Any, Any, Any, Any]:
    """Log-probs of all tokens, the mask of rows that count, their ids, and the divisor of the logits."""
    x, weight, bias, ids, mask, divisor = given
    if ids.dtype.kind not in "iu":
        raise TypeError(f"target must be of integers, got {ids.dtype}.")
    if tuple(ids.shape) != tuple(x.shape[:-1]):
        raise ValueError(f"target must have the shape {tuple(x.shape[:-1])}, got {tuple(ids.shape)}.")
    counted = ids != ignored
    if mask is not None:
        counted = counted & mask
    ids = np.where(counted, ids, 0)
    require_ids(ids, weight.shape[0], "target")
    compute = compute_dtype(x.dtype, weight.dtype)[0]
    if getattr(divisor, "shape", ()):
        divisor = divisor[..., None].astype(compute)
    x = np.where(counted[..., None], x.astype(compute), compute.type(0))  # masked rows may hold NaN
    logits = linear(x, weight.astype(compute), None)
    logits = logits if bias is None else logits + bias  # a new array, as only the bias may be mapped
    return LogSoftmax(-1).forward(logits / divisor), counted, ids, divisor
