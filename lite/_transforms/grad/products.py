"""Rules of products: matmul, dot, einsum and their relatives."""

from __future__ import annotations

import math
import string
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from lite._transforms.grad.along import operand, wide
from lite._transforms.grad.rules import composed, rule
from lite._transforms.grad.tape import record, unbroadcast, value_of
from lite._transforms.registry import NoRule

_LARGE = 1 << 14  # elements of an einsum from which a good order of its products pays


@rule(np.matmul)
def _matmul(a: Any, b: Any, **kwargs: Any) -> Any:
    if kwargs:
        raise NoRule
    a, b = operand(a), operand(b)
    x, y = value_of(a), value_of(b)
    return record(np.matmul(x, y), (a, lambda g: _by_left(g, x, y)), (b, lambda g: _by_right(g, x, y)))


def _by_left(g: Any, x: Any, y: Any) -> Any:
    """The derivative by x of the product x y."""
    g = wide(g)
    if y.ndim == 1:
        return g[..., None] * y if x.ndim > 1 else g * y
    turned = y.swapaxes(-1, -2)
    if x.ndim > 1:
        share = np.matmul(g, turned)
        return share if share.shape == x.shape else unbroadcast(share, x.shape)
    if y.ndim == 2:
        return np.matmul(g, turned)
    return unbroadcast(np.matmul(g[..., None, :], turned)[..., 0, :], x.shape)


def _by_right(g: Any, x: Any, y: Any) -> Any:
    """The derivative by y of the product x y."""
    g = wide(g)
    if x.ndim == 1:
        if y.ndim == 1:
            return g * x
        return g[..., None, :] * x[:, None]
    if y.ndim == 1:
        return np.matmul(g.reshape(-1), x.reshape(-1, x.shape[-1]))
    if y.ndim == 2:  # all rows that one matrix was multiplied with, in one product
        if x.ndim > 2:
            x, g = x.reshape(-1, x.shape[-1]), g.reshape(-1, g.shape[-1])
        return np.matmul(x.T, g)
    share = np.matmul(x.swapaxes(-1, -2), g)
    return share if share.shape == y.shape else unbroadcast(share, y.shape)


@composed(np.dot)
def _dot(a: Any, b: Any, out: Any = None) -> Any:
    if out is not None:
        raise NoRule
    a, b = operand(a), operand(b)
    if not a.ndim or not b.ndim:
        return np.multiply(a, b)
    if b.ndim <= 2:
        return np.matmul(a, b)
    return np.tensordot(a, b, axes=([-1], [-2]))


@composed(np.vecdot)
def _vecdot(a: Any, b: Any, **kwargs: Any) -> Any:
    axis = kwargs.pop("axis", -1)
    if kwargs:
        raise NoRule
    if axis != -1:
        a, b = np.moveaxis(a, axis, -1), np.moveaxis(b, axis, -1)
    return np.sum(np.multiply(a, b), -1)


if hasattr(np, "matvec"):  # NumPy 2.2

    @composed(np.matvec)
    def _matvec(a: Any, b: Any) -> Any:
        return np.matmul(a, operand(b)[..., None])[..., 0]

    @composed(np.vecmat)
    def _vecmat(a: Any, b: Any) -> Any:
        return np.matmul(operand(a)[..., None, :], b)[..., 0, :]


@composed(np.tensordot)
def _tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    a, b = operand(a), operand(b)
    if np.ndim(axes):
        first, second = (normalize_axis_tuple(d, x.ndim) for d, x in zip(axes, (a, b), strict=True))
    else:
        first, second = tuple(range(a.ndim - axes, a.ndim)), tuple(range(axes))
    rows = [d for d in range(a.ndim) if d not in first]
    columns = [d for d in range(b.ndim) if d not in second]
    if [a.shape[d] for d in first] != [b.shape[d] for d in second]:
        raise ValueError("shape-mismatch for sum")
    size = math.prod([a.shape[d] for d in first])
    sizes = [a.shape[d] for d in rows], [b.shape[d] for d in columns]
    x = np.transpose(a, (*rows, *first)).reshape(math.prod(sizes[0]), size)
    y = np.transpose(b, (*second, *columns)).reshape(size, math.prod(sizes[1]))
    return np.matmul(x, y).reshape((*sizes[0], *sizes[1]))


@composed(np.linalg.tensordot)
def _linalg_tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    return np.tensordot(x1, x2, axes)


@rule(np.einsum)
def _einsum(*operands: Any, out: Any = None, optimize: Any = False, **kwargs: Any) -> Any:
    text, arrays = as_letters(operands)
    values = [value_of(a) for a in arrays]
    terms, output = _written_out(text, values)
    value = np.einsum(f"{','.join(terms)}->{output}", *values, optimize=optimize, **kwargs)
    return record(value, *[(a, _by_operand(i, terms, output, values)) for i, a in enumerate(arrays)])


def _by_operand(i: int, terms: list[str], output: str, values: list[Any]) -> Any:
    """The pullback of an einsum by its operand `i`: an einsum of the others and the derivative."""

    def pull(g: Any) -> Any:
        own, shape = terms[i], values[i].shape
        inputs = [output, *terms[:i], *terms[i + 1 :]]
        others = [wide(g), *values[:i], *values[i + 1 :]]
        unique = "".join(dict.fromkeys(own))
        known = set("".join(inputs))
        for letter in unique:
            if letter not in known:  # summed over in this operand alone
                inputs.append(letter)
                others.append(np.ones(shape[own.index(letter)], g.dtype))
        fast = len(others) > 2 or sum(x.size for x in others) > _LARGE
        share = np.einsum(f"{','.join(inputs)}->{unique}", *others, optimize=fast)
        sizes = tuple([shape[own.index(letter)] for letter in unique])
        if share.shape != sizes:  # the others have size 1 there, which was repeated, or this operand has
            share = np.broadcast_to(share, np.broadcast_shapes(share.shape, sizes))
        if len(unique) < len(own):
            share = _on_diagonals(share, own, unique, shape)
        return unbroadcast(share, shape)

    return pull


def _on_diagonals(share: Any, own: str, unique: str, shape: Any) -> Any:
    """Zeros where the indices that one letter stands for differ."""
    free = iter([letter for letter in string.ascii_letters if letter not in own])
    target, inputs, units, seen = "", [unique], [], set()
    for letter, size in zip(own, shape, strict=True):
        if letter in seen:
            again = next(free)
            inputs.append(letter + again)
            units.append(np.eye(size, dtype=share.dtype))
            letter = again
        seen.add(letter)
        target += letter
    return np.einsum(f"{','.join(inputs)}->{target}", share, *units)


def as_letters(operands: tuple[Any, ...]) -> tuple[str, list[Any]]:
    """Subscripts of an einsum as a string, and its operands as arrays."""
    if isinstance(operands[0], str):
        return operands[0].replace(" ", ""), [operand(a) for a in operands[1:]]
    arrays, lists = list(operands[0::2]), list(operands[1::2])
    output = arrays.pop() if len(operands) % 2 else None

    def term(axes: Any) -> str:
        return "".join(["..." if axis is Ellipsis else string.ascii_letters[axis] for axis in axes])

    inputs = ",".join(map(term, lists))
    return (inputs if output is None else f"{inputs}->{term(output)}"), [operand(a) for a in arrays]


def _written_out(text: str, values: list[Any]) -> tuple[list[str], str]:
    """Terms of the operands and of the result, with letters in place of dots."""
    inputs, arrow, output = text.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(values):
        raise ValueError(f"einsum got {len(terms)} terms for {len(values)} operands")
    free = [letter for letter in string.ascii_letters if letter not in text]
    counts = [x.ndim - len(term.replace(".", "")) for term, x in zip(terms, values, strict=True)]
    most = max((n for n, term in zip(counts, terms, strict=True) if "." in term), default=0)
    dots = "".join(free[:most])
    if not arrow:
        letters = inputs.replace(",", "").replace(".", "")
        once = sorted({letter for letter in letters if letters.count(letter) == 1})
        output = ("..." if "." in inputs else "") + "".join(once)
    terms = [term.replace("...", dots[most - n :]) for n, term in zip(counts, terms, strict=True)]
    return terms, output.replace("...", dots)


@rule(np.convolve)
def _convolve(a: Any, v: Any, mode: Any = "full") -> Any:
    a, v = np.atleast_1d(operand(a)), np.atleast_1d(operand(v))
    x, y = value_of(a), value_of(v)
    value = np.convolve(x, y, mode)
    long, short = max(x.shape[0], y.shape[0]), min(x.shape[0], y.shape[0])
    # Where the result starts in the full one.
    start = {"full": 0, "same": (short - 1) // 2, "valid": short - 1}[mode]
    width = (start, long + short - 1 - start - value.shape[0])

    def by(other: Any) -> Any:
        return lambda g: np.correlate(np.pad(g, width), other, "valid")

    return record(value, (a, by(y)), (v, by(x)))
