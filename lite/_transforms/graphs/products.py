"""Rules of products of vectors, matrices and more."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import Graph
from lite._transforms.graphs.rules import composed, rule
from lite._transforms.registry import NoRule


def _both(graph: Graph, a: Any, b: Any, dtype: Any = None) -> tuple[GraphArray, GraphArray]:
    x, y = graph.operand(a), graph.operand(b)
    wanted = np.result_type(x.dtype, y.dtype) if dtype is None else np.dtype(dtype)
    return graph.cast(x, wanted), graph.cast(y, wanted)


@rule(np.matmul, np.linalg.matmul)
def matmul(graph: Graph, a: Any, b: Any, dtype: Any = None) -> GraphArray:
    """The product of matrices in the last two dimensions."""
    x, y = _both(graph, a, b, dtype)
    if not x.ndim or not y.ndim:
        raise ValueError("matmul: Input operand does not have enough dimensions")
    inner = y.shape[-2] if y.ndim > 1 else y.shape[-1]
    if x.shape[-1] != inner:
        raise ValueError(f"matmul: the sizes {x.shape[-1]} and {inner} of the dimensions summed over differ")
    lead = graph.broadcast([x.shape[:-2], y.shape[:-2]])
    shape = (*lead, *(x.shape[-2:-1] if x.ndim > 1 else ()), *(y.shape[-1:] if y.ndim > 1 else ()))
    return graph.emit("MatMul", [x, y], shape, x.dtype)


@composed(np.vecdot, np.linalg.vecdot)
def _vecdot(x1: Any, x2: Any, /, *, axis: int = -1, **kwargs: Any) -> Any:
    return np.sum(np.multiply(x1, x2), axis)


@composed(np.matvec)
def _matvec(x1: Any, x2: Any, /, **kwargs: Any) -> Any:
    return np.matmul(x1, x2[..., None])[..., 0]


@composed(np.vecmat)
def _vecmat(x1: Any, x2: Any, /, **kwargs: Any) -> Any:
    return np.matmul(x1[..., None, :], x2)[..., 0, :]


@rule(np.dot)
def _dot(graph: Graph, a: Any, b: Any) -> Any:
    x, y = _both(graph, a, b)
    if not x.ndim or not y.ndim:
        return np.multiply(x, y)
    if y.ndim <= 2:
        return matmul(graph, x, y)
    return np.tensordot(x, y, (x.ndim - 1, y.ndim - 2))


@composed(np.vdot)
def _vdot(a: Any, b: Any, /) -> Any:
    return np.sum(np.multiply(np.ravel(a), np.ravel(b)))


@composed(np.linalg.multi_dot)
def _multi_dot(arrays: Any) -> Any:
    out = arrays[0]
    for array in arrays[1:]:
        out = np.matmul(out, array)
    return out


@composed(np.polyval)
def _polyval(p: Any, x: Any) -> Any:
    out: Any = np.zeros_like(x)
    for coefficient in np.asarray(p):
        out = out * x + coefficient
    return out


@composed(np.inner)
def _inner(a: Any, b: Any, /) -> Any:
    return np.tensordot(a, b, (-1, -1)) if np.ndim(a) and np.ndim(b) else np.multiply(a, b)


@composed(np.outer, np.linalg.outer)
def _outer(a: Any, b: Any) -> Any:
    return np.multiply(np.ravel(a)[:, None], np.ravel(b)[None, :])


@rule(np.tensordot, np.linalg.tensordot)
def _tensordot(graph: Graph, a: Any, b: Any, axes: Any = 2) -> Any:
    x, y = _both(graph, a, b)
    if isinstance(axes, int):
        first, second = list(range(x.ndim - axes, x.ndim)), list(range(axes))
    else:
        first, second = ([int(i) for i in np.atleast_1d(side)] for side in axes)
    names = [chr(ord("a") + i) for i in range(x.ndim + y.ndim)]
    left, right = names[: x.ndim], names[x.ndim :]
    for i, j in zip(first, second, strict=True):
        right[j] = left[i]
    summed = {left[i] for i in first}
    out = [name for name in (*left, *right) if name not in summed]
    return _einsum(graph, f"{''.join(left)},{''.join(right)}->{''.join(out)}", x, y)


@rule(np.einsum)
def _einsum(graph: Graph, subscripts: Any, *operands: Any, optimize: Any = False, **kwargs: Any) -> Any:
    if not isinstance(subscripts, str) or kwargs:
        raise NoRule
    arrays = [graph.operand(x) for x in operands]
    dtype = np.result_type(*[x.dtype for x in arrays])
    arrays = [graph.cast(x, dtype) for x in arrays]
    equation = subscripts.replace(" ", "")
    if "->" not in equation:
        if "." in equation:
            raise NoRule("an ellipsis without ->")
        letters = equation.replace(",", "")
        equation += "->" + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    return graph.emit("Einsum", arrays, _einsum_shape(equation, arrays), dtype, equation=equation)


def _einsum_shape(equation: str, arrays: list[GraphArray]) -> tuple[int, ...]:
    given, result = equation.split("->")
    sizes: dict[str, int] = {}
    rest: tuple[int, ...] | None = None
    for term, x in zip(given.split(","), arrays, strict=True):
        head, dots, tail = term.partition("...")
        if len(head) + len(tail) > x.ndim or (not dots and len(head) != x.ndim):
            raise ValueError(f"einsum: {term!r} does not fit an array of {x.ndim} dimensions")
        end = x.ndim - len(tail)
        for name, size in (*zip(head, x.shape, strict=False), *zip(tail, x.shape[end:], strict=True)):
            if sizes.setdefault(name, size) == 1:
                sizes[name] = size
            if size not in (1, sizes[name]):
                raise ValueError(f"einsum: the dimension {name!r} has the sizes {sizes[name]} and {size}")
        if dots:
            if rest is not None and tuple(rest) != tuple(x.shape[len(head) : end]):
                raise NoRule("an ellipsis that broadcasts")
            rest = x.shape[len(head) : end]
    head, dots, tail = result.partition("...")
    return (*(sizes[c] for c in head), *((rest or ()) if dots else ()), *(sizes[c] for c in tail))
