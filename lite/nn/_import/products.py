"""Products of matrices and of more dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.dtypes import is_floating
from lite._arrays.types import Array
from lite.nn import functional
from lite.nn._import.elementwise import activation
from lite.nn._import.operators import MICROSOFT, ML, Run, Spec, Unsupported, operator, simple
from lite.nn.layers.linear import linear


def matmul(a: Array, b: Array) -> Array:
    """The product as `np.matmul` has it, which is one of two matrices where `b` is one."""
    if b.ndim == 2 and is_floating(b.dtype):
        return linear(a, b.swapaxes(0, 1), None)
    out = np.matmul(a, b)
    return out.astype(a.dtype) if a.dtype == b.dtype != out.dtype else out  # float32 for bfloat16


simple(matmul, "MatMul")


@operator("Gemm")
def _gemm(spec: Spec) -> Run:
    alpha, beta = spec.get("alpha", 1.0), spec.get("beta", 1.0)
    turn_a, turn_b, plain = spec.get("transA", 0), spec.get("transB", 0), alpha == beta == 1.0

    def run(a: Array, b: Array, c: Array | None = None) -> Array:
        a = a.swapaxes(0, 1) if turn_a else a
        floats = b.dtype.kind == "f" or is_floating(b.dtype)
        if plain and floats and (c is None or c.ndim == 1):
            return linear(a, b if turn_b else b.swapaxes(0, 1), c)
        out = matmul(a, b.swapaxes(0, 1) if turn_b else b)
        if alpha != 1.0:
            out = out * _factor(alpha, out)
        if c is None:
            return out
        return out + (c if beta == 1.0 else c * _factor(beta, c))

    return run


def _factor(number: float, x: Array) -> Any:
    """A factor in the dtype of an array, for which integers have one, too."""
    return int(number) if x.dtype.kind in "iu" else number


@operator("FusedGemm", domain=MICROSOFT)
def _fused_gemm(spec: Spec) -> Run:
    """What onnxruntime saves of a layer and its activation, as `_fused_conv` of a convolution."""
    product = _gemm(spec)
    after = activation(spec.need("activation"), spec.get("activation_alpha"), spec.get("activation_beta"))
    return lambda *inputs: after(product(*inputs))


@operator("FusedMatMul", domain=MICROSOFT)
def _fused_matmul(spec: Spec) -> Run:
    alpha = spec.get("alpha", 1.0)
    turns = [(spec.get(f"trans{x}", 0), spec.get(f"transBatch{x}", 0)) for x in "AB"]

    def run(*operands: Array) -> Array:
        pair = []
        for x, (last, batch) in zip(operands, turns, strict=True):
            if batch:  # (N, B, K), where B is a batch dimension
                x = np.moveaxis(x, -2, 0) if x.ndim > 2 else x
            pair.append(x.swapaxes(-1, -2) if last and x.ndim > 1 else x)
        out = np.matmul(*pair)
        return out if alpha == 1.0 else out * alpha

    return run


@operator("Einsum")
def _einsum(spec: Spec) -> Run:
    equation = spec.get("equation", "").replace(" ", "")
    return lambda *arrays: np.einsum(equation, *arrays)


@operator("LinearRegressor", domain=ML)
def _linear_regressor(spec: Spec) -> Run:
    """What skl2onnx writes of LinearRegression and its kin."""
    if spec.get("post_transform", "NONE") != "NONE":
        raise Unsupported(f"post_transform={spec.get('post_transform')!r}")
    return _linear(spec, spec.get("targets", 1))


@operator("LinearClassifier", domain=ML)
def _linear_classifier(spec: Spec) -> Run:
    """What skl2onnx writes of LogisticRegression: labels, and a score of each class."""
    labels, link = spec.get("classlabels_ints"), spec.get("post_transform", "NONE")
    if labels is None or len(labels) < 2:
        raise Unsupported("other labels than two or more integers")
    if link not in _LINKS:
        raise Unsupported(f"post_transform={link!r}")
    scores, names = _linear(spec, len(labels)), np.array(labels)

    def run(x: Array) -> tuple[Array, Array]:
        found = scores(x)
        best: Any = np.argmax(found, -1)
        # The table is read by comparison, which a graph and vmap follow.
        return np.sum(np.where(best[..., None] == np.arange(len(names)), names, 0), -1), _LINKS[link](found)

    return run


_LINKS: dict[str, Run] = {
    "NONE": lambda x: x,
    "LOGISTIC": functional.sigmoid,
    "SOFTMAX": lambda x: functional.softmax(x, -1),
}


def _linear(spec: Spec, count: int) -> Run:
    """The product with coefficients among the attributes."""
    weights = np.array(spec.need("coefficients"), np.float32)
    if count < 1 or weights.size % count:
        raise Unsupported(f"{weights.size} coefficients for {count} results")
    weights = weights.reshape(count, -1)
    bias = np.array(spec.get("intercepts") or [0.0] * count, np.float32)
    if bias.shape != (count,):
        raise Unsupported(f"{bias.size} intercepts for {count} results")
    return lambda x: linear(x if x.dtype.kind == "f" else x.astype(np.float32), weights, bias)


simple(np.linalg.det, "Det")
