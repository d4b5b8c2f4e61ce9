"""Functions with batching rules, each with arguments, for comparison with a loop over the elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def rows(n: int = 3, m: int = 2) -> Any:
    """An array to map over, of numbers that tell its elements apart."""
    return np.arange(float(n * m)).reshape(n, m)


class Spec:
    """Shape and kind of one argument: what one element along the mapped dimension is."""

    def __init__(self, *shape: int, kind: str = "f", high: int = 3) -> None:
        self.shape = shape
        self.kind = kind
        self.high = high

    def draw(self, rng: np.random.Generator, lead: tuple[int, ...]) -> Any:
        """Elements along new dimensions in front."""
        shape = (*lead, *self.shape)
        if self.kind == "i":
            return rng.integers(-self.high, self.high, shape)
        if self.kind == "b":
            return rng.random(shape) < 0.5
        if self.kind == "nan":
            out = rng.standard_normal(shape)
            out[rng.random(shape) < 0.2] = np.nan
            return out
        if self.kind == "c":
            return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
        out = rng.standard_normal(shape)
        if self.kind == "spd":
            return out @ np.swapaxes(out, -1, -2) + 3 * np.eye(shape[-1])
        if self.kind == "sorted":
            return np.sort(out)
        return out


def f(*shape: int) -> Spec:
    return Spec(*shape)


def i(*shape: int, high: int = 3) -> Spec:
    return Spec(*shape, kind="i", high=high)


def b(*shape: int) -> Spec:
    return Spec(*shape, kind="b")


def spd(*shape: int) -> Spec:
    return Spec(*shape, kind="spd")


def nan(*shape: int) -> Spec:
    return Spec(*shape, kind="nan")


def c(*shape: int) -> Spec:
    return Spec(*shape, kind="c")


def ordered(*shape: int) -> Spec:
    return Spec(*shape, kind="sorted")


Case = tuple[str, Callable[..., Any], tuple[Spec, ...]]


def written(write: Callable[..., None]) -> Callable[..., Any]:
    """A function that writes into a copy of its first argument and returns it."""

    def run(x: Any, *args: Any) -> Any:
        out = np.zeros_like(x) + x
        write(out, *args)
        return out

    return run


def put(index: Any) -> Callable[..., Any]:
    def write(x: Any, value: Any) -> None:
        x[index] = value

    return written(write)


def put_at(x: Any, index: Any, value: Any) -> None:
    x[index] = value


def add_in_place(x: Any, y: Any) -> Any:
    x = x + 0
    x += y
    return x


ELEMENTS: list[Case] = [
    ("add", lambda x, y: x + y, (f(3, 4), f(4))),
    ("add of a number", lambda x: 2 - x, (f(3),)),
    ("add of a list", lambda x: x + [1, 2, 3], (f(3),)),
    ("add without dimensions", lambda x, y: x * y, (f(), f(2, 3))),
    ("floor_divide", lambda x, y: x // y, (f(3), f(2, 1))),
    ("divmod", lambda x, y: np.divmod(x, y), (f(3), f(3))),
    ("modf", lambda x: np.modf(x), (f(3),)),
    ("comparison", lambda x, y: x < y, (f(3), f(3))),
    ("invert", lambda x: ~x, (b(3),)),
    ("power", lambda x, y: np.abs(x) ** y, (f(3), i(3))),
    ("exp", lambda x: np.exp(x), (f(2, 2),)),
    ("where of a ufunc", lambda x, m: np.add(x, 1, where=m, out=np.zeros_like(x + m)), (f(3), b(3))),
    ("dtype of a ufunc", lambda x: np.add(x, 1, dtype=np.float32), (f(3),)),
    ("in place", add_in_place, (f(2, 3), f(3))),
    ("np.where", lambda m, x, y: np.where(m, x, y), (b(3), f(2, 3), f())),
    ("clip", lambda x, low: np.clip(x, low, 1), (f(2, 3), f(3))),
    ("clip method", lambda x: x.clip(min=0), (f(3),)),
    ("clip above", lambda x: np.clip(x, None, 0.5), (f(3),)),
    ("round", lambda x: x.round(1), (f(3),)),
    ("nan_to_num", lambda x: np.nan_to_num(x), (nan(5),)),
    ("real and imag", lambda x: (x.real, x.imag, np.conj(x), np.angle(x)), (c(3),)),
    ("isclose", lambda x, y: np.isclose(x, y, rtol=2), (f(3), f(2, 3))),
    ("isclose with nan", lambda x, y: np.isclose(x, y, equal_nan=True), (nan(9), nan(9))),
    ("allclose", lambda x, y: np.allclose(x, y, atol=1.0), (f(2), f(2))),
    ("array_equal", lambda x, y: np.array_equal(x, y), (i(1), i(1))),
    ("select", lambda x: np.select([x > 0.5, x > 0], [x, x * 2], -1.0), (f(5),)),
    ("sinc", lambda x: np.sinc(x), (f(3),)),
    ("isposinf", lambda x: np.isposinf(x), (f(3),)),
    ("astype", lambda x: x.astype(np.float32), (f(3),)),
    ("polyval", lambda x: np.polyval([1.0, 2.0, 3.0], x), (f(3),)),
    ("interp", lambda x: np.interp(x, [0.0, 1.0], [2.0, 3.0]), (f(3),)),
    ("digitize", lambda x: np.digitize(x, [0.0, 1.0]), (f(3),)),
    ("isin", lambda x, y: np.isin(x, y), (i(2, 3), i(2))),
    ("ufunc.outer", lambda x, y: np.subtract.outer(x, y), (f(2), f(3, 2))),
    ("ufunc.at", written(lambda x, k, y: np.add.at(x, k, y)), (f(4), i(3), f(3))),
]
REDUCTIONS: list[Case] = [
    *(
        (f"{name}, axis={axis}", lambda x, name=name, axis=axis: getattr(np, name)(x, axis), (f(2, 3, 4),))
        for name in ("sum", "prod", "max", "min", "mean", "std", "var", "median", "ptp", "nansum", "nanmax")
        for axis in (None, 0, -1, (0, 2))
    ),
    *(
        (f"{name}, axis={axis}", lambda x, name=name, axis=axis: getattr(np, name)(x, axis), (f(2, 3, 4),))
        for name in ("argmax", "argmin", "cumsum", "cumprod", "nancumsum", "nanargmax")
        for axis in (None, 1, -1)
    ),
    *(
        (f"{name} of nan", lambda x, name=name: getattr(np, name)(x, -1), (nan(2, 9),))
        for name in ("nanmean", "nanstd", "nanmedian", "nanmin", "nanprod", "nanvar")
    ),
    ("sum method", lambda x: x.sum(1, keepdims=True), (f(2, 3),)),
    ("sum of all, keepdims", lambda x: x.sum(keepdims=True), (f(2, 3),)),
    ("sum without dimensions", lambda x: x.sum(), (f(),)),
    ("sum, where", lambda x, m: np.sum(x, where=m), (f(2, 3), b(3))),
    ("sum, where and axis", lambda x, m: np.sum(x, 0, where=m), (f(2, 3), b(2, 1))),
    ("sum, initial and dtype", lambda x: np.sum(x, 0, dtype=np.float32, initial=2), (f(2, 3),)),
    ("mean method", lambda x: x.mean((0, 1)), (f(2, 3),)),
    ("std, ddof", lambda x: x.std(ddof=1), (f(2, 3),)),
    ("any and all", lambda x: (x.any(), x.all(0)), (b(2, 3),)),
    ("count_nonzero", lambda x: np.count_nonzero(x, 1), (i(3, 4),)),
    ("quantile", lambda x: np.quantile(x, [0.2, 0.7], axis=1), (f(3, 4),)),
    ("percentile of all", lambda x: np.percentile(x, 30), (f(3, 4),)),
    ("quantile, keepdims", lambda x: np.quantile(x, [0.2, 0.7], keepdims=True), (f(3, 4),)),
    ("average", lambda x, w: np.average(x, 1, w * w), (f(3, 4), f(3, 4))),
    ("average, weights of an axis", lambda x, w: np.average(x, 0, w * w + 1), (f(3, 4), f(3))),
    ("diff", lambda x: np.diff(x, 2, 0), (f(4, 2),)),
    ("diff, prepend", lambda x, y: np.diff(x, prepend=y), (f(2, 4), f(2, 1))),
    ("diff of booleans", lambda x: np.diff(x), (b(5),)),
    ("trapezoid", lambda y, x: np.trapezoid(y, x), (f(2, 4), f(4))),
    ("trapezoid, dx", lambda y: np.trapezoid(y, dx=0.5, axis=0), (f(3, 4),)),
    ("cov", lambda x: np.cov(x), (f(3, 8),)),
    ("corrcoef", lambda x: np.corrcoef(x), (f(3, 8),)),
    ("cumulative_sum", lambda x: np.cumulative_sum(x, axis=1, include_initial=True), (f(2, 3),)),
    ("add.reduce", lambda x: np.add.reduce(x), (f(3, 2),)),
    ("maximum.reduce of all", lambda x: np.maximum.reduce(x, axis=None), (f(3, 2),)),
    ("multiply.accumulate", lambda x: np.multiply.accumulate(x, 1), (f(3, 4),)),
    ("add.reduceat", lambda x: np.add.reduceat(x, [0, 2], 1), (f(3, 4),)),
    ("logaddexp.reduce", lambda x: np.logaddexp.reduce(x, -1, keepdims=True), (f(3, 4),)),
    ("unwrap", lambda x: np.unwrap(x * 4), (f(3, 8),)),
]
PRODUCTS: list[Case] = [
    ("matmul 2, 2", lambda x, y: x @ y, (f(3, 4), f(4, 2))),
    ("matmul 2, 2, many rows", lambda x, y: x @ y, (f(9, 4), f(4, 2))),
    ("matmul 2, 2, of a transpose", lambda x, y: x @ y.T, (f(9, 4), f(2, 4))),
    ("matmul 2, 2, twice", lambda x, y: np.tanh(x @ y.T) @ y, (f(9, 4), f(2, 4))),
    ("matmul 1, 2", lambda x, y: x @ y, (f(4), f(4, 2))),
    ("matmul 2, 1", lambda x, y: x @ y, (f(3, 4), f(4))),
    ("matmul 1, 1", lambda x, y: x @ y, (f(4), f(4))),
    ("matmul 3, 2", lambda x, y: x @ y, (f(5, 3, 4), f(4, 2))),
    ("matmul 2, 3", lambda x, y: x @ y, (f(3, 4), f(5, 4, 2))),
    ("matmul 1, 3", lambda x, y: x @ y, (f(4), f(5, 4, 2))),
    ("matmul 3, 1", lambda x, y: x @ y, (f(5, 3, 4), f(4))),
    ("matmul 4, 3", lambda x, y: x @ y, (f(2, 5, 3, 4), f(5, 4, 2))),
    ("vecdot", lambda x, y: np.vecdot(x, y), (f(3, 4), f(4))),
    ("matvec", lambda x, y: np.matvec(x, y), (f(2, 3, 4), f(4))),
    ("vecmat", lambda x, y: np.vecmat(x, y), (f(2, 3), f(3, 4))),
    ("dot 2, 2", lambda x, y: np.dot(x, y), (f(3, 4), f(4, 2))),
    ("dot 1, 1", lambda x, y: np.dot(x, y), (f(4), f(4))),
    ("dot 3, 3", lambda x, y: np.dot(x, y), (f(2, 3, 4), f(5, 4, 2))),
    ("dot 0, 2", lambda x, y: np.dot(x, y), (f(), f(4, 2))),
    ("inner", lambda x, y: np.inner(x, y), (f(2, 4), f(3, 4))),
    ("vdot", lambda x, y: np.vdot(x, y), (c(2, 4), c(2, 4))),
    ("outer", lambda x, y: np.outer(x, y), (f(2), f(3, 2))),
    ("tensordot", lambda x, y: np.tensordot(x, y), (f(2, 3, 4), f(3, 4, 5))),
    ("tensordot, axes", lambda x, y: np.tensordot(x, y, ([0, 2], [1, 0])), (f(2, 3, 4), f(4, 2, 5))),
    ("tensordot of none", lambda x, y: np.tensordot(x, y, 0), (f(2), f(3))),
    ("einsum", lambda x, y: np.einsum("ij,jk->ik", x, y), (f(2, 3), f(3, 4))),
    ("einsum, no output", lambda x, y: np.einsum("ij,jk", x, y), (f(2, 3), f(3, 4))),
    ("einsum, ellipsis", lambda x, y: np.einsum("...j,jk->...k", x, y), (f(5, 2, 3), f(3, 4))),
    ("einsum, diagonal", lambda x: np.einsum("ii->i", x), (f(3, 3),)),
    ("einsum, lists", lambda x, y: np.einsum(x, [0, 1], y, [1, 2], [2, 0]), (f(2, 3), f(3, 4))),
    ("kron", lambda x, y: np.kron(x, y), (f(2, 3), f(2))),
    ("cross", lambda x, y: np.cross(x, y), (f(2, 3), f(3))),
    ("convolve", lambda x, y: np.convolve(x, y), (f(5), f(3))),
    ("convolve, same", lambda x, y: np.convolve(x, y, "same"), (f(6), f(4))),
    ("convolve, valid", lambda x, y: np.convolve(x, y, "valid"), (f(5), f(3))),
    ("correlate", lambda x, y: np.correlate(x, y), (f(5), f(3))),
    ("correlate, full", lambda x, y: np.correlate(x, y, "full"), (f(5), f(3))),
    ("multi_dot", lambda x, y: np.linalg.multi_dot([x, y, y]), (f(2, 3), f(3, 3))),
    ("trace", lambda x: np.trace(x), (f(3, 3, 2),)),
    ("linalg.trace", lambda x: np.linalg.trace(x), (f(2, 3, 3),)),
]
LINALG: list[Case] = [
    ("inv", lambda x: np.linalg.inv(x), (spd(3, 3),)),
    ("pinv", lambda x: np.linalg.pinv(x), (f(3, 2),)),
    ("det", lambda x: np.linalg.det(x), (f(2, 3, 3),)),
    ("slogdet", lambda x: tuple(np.linalg.slogdet(x)), (f(3, 3),)),
    ("cholesky", lambda x: np.linalg.cholesky(x), (spd(3, 3),)),
    ("qr", lambda x: tuple(np.linalg.qr(x)), (f(4, 3),)),
    ("svd", lambda x: np.linalg.svd(x).S, (f(4, 3),)),
    ("svdvals", lambda x: np.linalg.svdvals(x), (f(4, 3),)),
    ("eigh", lambda x: np.linalg.eigh(x).eigenvalues, (spd(3, 3),)),
    ("eigvalsh", lambda x: np.linalg.eigvalsh(x), (spd(3, 3),)),
    ("eigvals", lambda x: np.sort(np.linalg.eigvals(x).real), (spd(3, 3),)),
    ("solve, vector", lambda a, x: np.linalg.solve(a, x), (spd(3, 3), f(3))),
    ("solve, matrix", lambda a, x: np.linalg.solve(a, x), (spd(3, 3), f(3, 2))),
    ("solve, stack", lambda a, x: np.linalg.solve(a, x), (spd(3, 3), f(5, 3, 2))),
    ("norm", lambda x: np.linalg.norm(x), (f(2, 3, 4),)),
    ("norm, axis", lambda x: np.linalg.norm(x, axis=0), (f(2, 3),)),
    ("norm, ord", lambda x: np.linalg.norm(x, 1, keepdims=True), (f(2, 3),)),
    ("norm of a vector, ord", lambda x: np.linalg.norm(x, np.inf), (f(3),)),
    ("norm, keepdims", lambda x: np.linalg.norm(x, keepdims=True), (f(2, 3),)),
    ("norm, axes", lambda x: np.linalg.norm(x, "nuc", (0, 1)), (f(2, 3, 4),)),
    ("vector_norm", lambda x: np.linalg.vector_norm(x, ord=1), (f(2, 3),)),
    ("matrix_norm", lambda x: np.linalg.matrix_norm(x), (f(2, 3),)),
    ("matrix_power", lambda x: np.linalg.matrix_power(x, 3), (f(3, 3),)),
    ("matrix_rank", lambda x: np.linalg.matrix_rank(x), (f(3, 3),)),
    ("cond", lambda x: np.linalg.cond(x), (spd(3, 3),)),
    ("fft", lambda x: np.fft.fft(x), (f(2, 8),)),
    ("rfft, axis", lambda x: np.fft.rfft(x, axis=0), (f(8, 2),)),
    ("fftn", lambda x: np.fft.fftn(x), (f(4, 8),)),
    ("fft2", lambda x: np.fft.fft2(x), (f(2, 4, 8),)),
    ("fftshift", lambda x: np.fft.fftshift(x), (f(4, 5),)),
]
SHAPES: list[Case] = [
    ("reshape", lambda x: x.reshape(2, -1), (f(4, 3),)),
    ("reshape of a tuple", lambda x: np.reshape(x, (3, 4)), (f(4, 3),)),
    ("reshape to one", lambda x: x.reshape(()), (f(1),)),
    ("ravel", lambda x: x.ravel(), (f(4, 3),)),
    ("flatten", lambda x: x.flatten(), (f(4, 3),)),
    ("T", lambda x: x.T, (f(4, 3, 2),)),
    ("mT", lambda x: x.mT, (f(4, 3, 2),)),
    ("transpose", lambda x: x.transpose(2, 0, 1), (f(4, 3, 2),)),
    ("transpose, negative", lambda x: np.transpose(x, (-1, 0, 1)), (f(4, 3, 2),)),
    ("swapaxes", lambda x: x.swapaxes(0, -1), (f(4, 3, 2),)),
    ("moveaxis", lambda x: np.moveaxis(x, [0, 1], [-1, 0]), (f(4, 3, 2),)),
    ("rollaxis", lambda x: np.rollaxis(x, 2), (f(4, 3, 2),)),
    ("expand_dims", lambda x: np.expand_dims(x, (0, -1)), (f(4, 3),)),
    ("squeeze", lambda x: x.squeeze(), (f(1, 3, 1),)),
    ("squeeze, axis", lambda x: np.squeeze(x, -1), (f(1, 3, 1),)),
    ("broadcast_to", lambda x: np.broadcast_to(x, (2, 4, 3)), (f(4, 1),)),
    ("broadcast_arrays", lambda x, y: tuple(np.broadcast_arrays(x, y)), (f(4, 1), f(3))),
    ("tile", lambda x: np.tile(x, (2, 1, 3)), (f(4, 3),)),
    ("tile, few", lambda x: np.tile(x, 2), (f(4, 3),)),
    ("repeat", lambda x: np.repeat(x, 2, 1), (f(4, 3),)),
    ("repeat of all", lambda x: x.repeat(2), (f(4, 3),)),
    ("repeat, counts", lambda x: np.repeat(x, [1, 0, 2], 1), (f(4, 3),)),
    ("roll", lambda x: np.roll(x, 2), (f(4, 3),)),
    ("roll, axes", lambda x: np.roll(x, (1, 2), (0, -1)), (f(4, 3),)),
    ("flip", lambda x: np.flip(x), (f(4, 3),)),
    ("flip, axis", lambda x: np.flip(x, 1), (f(4, 3),)),
    ("fliplr, flipud", lambda x: (np.fliplr(x), np.flipud(x)), (f(4, 3),)),
    ("rot90", lambda x: np.rot90(x, 3), (f(4, 3),)),
    ("diagonal", lambda x: x.diagonal(1), (f(4, 3, 2),)),
    ("atleast", lambda x: (np.atleast_1d(x), np.atleast_2d(x), np.atleast_3d(x)), (f(),)),
    ("atleast of one", lambda x: (np.atleast_1d(x), np.atleast_2d(x), np.atleast_3d(x)), (f(3),)),
    ("atleast of two", lambda x: (np.atleast_1d(x), np.atleast_2d(x), np.atleast_3d(x)), (f(2, 3),)),
    ("pad", lambda x: np.pad(x, ((1, 2), (0, 1)), constant_values=7), (f(4, 3),)),
    ("pad, edge", lambda x: np.pad(x, 2, "edge"), (f(4, 3),)),
    ("pad, reflect", lambda x: np.pad(x, (1, 0), "reflect"), (f(4, 3),)),
    ("pad, mean", lambda x: np.pad(x, 1, "mean", stat_length=2), (f(4, 3),)),
    ("concatenate", lambda x, y: np.concatenate([x, y], 1), (f(2, 3), f(2, 4))),
    ("concatenate of all", lambda x, y: np.concatenate([x, y], None), (f(2, 3), f(4))),
    ("stack", lambda x, y: np.stack([x, y], -1), (f(2, 3), f(2, 3))),
    ("vstack, hstack", lambda x, y: (np.vstack([x, y]), np.hstack([x, y])), (f(3), f(3))),
    ("block", lambda x, y: np.block([[x, y], [y, x]]), (f(3, 4), f(3, 4))),
    ("block of one", lambda x, y: np.block([x, y, 2.0]), (f(4), f(2))),
    ("block of many", lambda x, y: np.block([[x[0], 1.0], [y]]), (f(3, 4), f(1, 5))),
    ("dstack, column_stack", lambda x, y: (np.dstack([x, y]), np.column_stack([x, y])), (f(3), f(3))),
    ("append", lambda x, y: (np.append(x, y), np.append(x, y, 0)), (f(2, 3), f(1, 3))),
    ("split", lambda x: tuple(np.split(x, 2, 1)), (f(3, 4),)),
    ("split at", lambda x: tuple(np.array_split(x, [1, 3])), (f(4, 2),)),
    ("hsplit, vsplit", lambda x: (*np.hsplit(x, 2), *np.vsplit(x, 3)), (f(3, 4),)),
    ("unstack", lambda x: np.unstack(x, axis=1), (f(3, 2),)),
    ("meshgrid", lambda x, y: tuple(np.meshgrid(x, y)), (f(3), f(2))),
    ("meshgrid, sparse", lambda x, y: tuple(np.meshgrid(x, y, sparse=True, indexing="ij")), (f(3), f(2))),
    ("insert", lambda x, y: np.insert(x, 1, y, 1), (f(2, 3), f(2))[:1] + (f(),)),
    ("delete", lambda x: np.delete(x, 1, 0), (f(3, 2),)),
    ("tril, triu", lambda x: (np.tril(x, -1), np.triu(x)), (f(3, 4),)),
    ("diag", lambda x: (np.diag(x), np.diag(np.diag(x, 1))), (f(3),)),
    ("zeros_like", lambda x: (np.zeros_like(x), np.ones_like(x, shape=(2, 1))), (f(3),)),
    ("full_like", lambda x, y: np.full_like(x, y), (f(2, 3), f(3))),
    ("copy", lambda x: np.copy(x), (f(3),)),
    ("linspace", lambda x, y: np.linspace(x, y, 5, axis=-1), (f(2, 1), f(3))),
    ("linspace with steps", lambda x: np.linspace(0, x, 4, endpoint=False, retstep=True), (f(3),)),
    ("indices of triangles", lambda x: x[np.triu_indices_from(x)], (f(3, 3),)),
    ("indices of the diagonal", lambda x: x[np.diag_indices_from(x)], (f(3, 3),)),
    ("vander", lambda x: np.vander(x, 3), (f(4),)),
    ("sliding windows", lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, 0), (f(4, 3),)),
    ("resize", lambda x: np.resize(x, (2, 4)), (f(3),)),
]
SORTING: list[Case] = [
    ("sort", lambda x: np.sort(x), (f(2, 5),)),
    ("sort of all", lambda x: np.sort(x, None), (f(2, 5),)),
    ("sort method", written(lambda x: x.sort(0)), (f(5, 2),)),
    ("argsort", lambda x: x.argsort(0), (f(5, 2),)),
    ("partition", lambda x: np.partition(x, 2)[..., 2], (f(5, 5),)),
    ("argpartition", lambda x: np.take_along_axis(x, np.argpartition(x, 2), -1)[..., 2], (f(2, 5),)),
    ("take_along_axis", lambda x, k: np.take_along_axis(x, k, 1), (f(2, 5), i(2, 3))),
    ("put_along_axis", written(lambda x, k, y: np.put_along_axis(x, k, y, 1)), (f(2, 5), i(2, 1), f(2, 1))),
    ("take", lambda x, k: np.take(x, k), (f(2, 5), i(3))),
    ("take, axis", lambda x, k: x.take(k, 1), (f(2, 5), i(3, 2))),
    ("take, clip", lambda x, k: np.take(x, k, 0, mode="clip"), (f(5), i(3, high=9))),
    ("searchsorted", lambda x, y: np.searchsorted(x, y), (ordered(5), f(3, 2))),
    ("searchsorted, right", lambda x, y: np.searchsorted(x, y, "right"), (ordered(5), f())),
    ("choose", lambda k, x, y: np.choose(k, [x, y], mode="wrap"), (i(3), f(3), f(2, 3))),
    ("lexsort", lambda x, y: np.lexsort((x, y)), (f(5), i(5))),
    ("nonzero of as many", lambda x: np.nonzero(x > np.median(x))[0], (f(5),)),
    ("flatnonzero", lambda x: np.flatnonzero(x > np.median(x)), (f(5),)),
    ("copyto", written(lambda x, y, m: np.copyto(x, y, where=m)), (f(2, 3), f(3), b(2, 1))),
    ("putmask", written(lambda x, m: np.putmask(x, m, 3.0)), (f(2, 3), b(2, 3))),
    ("fill_diagonal", written(lambda x, y: np.fill_diagonal(x, y)), (f(3, 4), f())),
]
INDEXING: list[Case] = [
    ("int", lambda x: x[-1], (f(3, 4),)),
    ("slice", lambda x: x[::2], (f(3, 4),)),
    ("basic", lambda x: x[1, None, ..., 1:3], (f(3, 2, 4),)),
    ("all", lambda x: x[()], (f(3),)),
    ("list", lambda x: x[[0, 2]], (f(3, 4),)),
    ("array", lambda x: x[:, np.array([[0, 1], [2, 3]])], (f(3, 4),)),
    ("arrays apart", lambda x: x[[0, 1], :, [1, 0]], (f(3, 2, 4),)),
    ("int and array apart", lambda x: x[0, :, [1, 0, 1]], (f(3, 2, 4),)),
    ("mask that is shared", lambda x: x[np.array([True, False, True])], (f(3, 4),)),
    ("mask after", lambda x: x[:, np.array([True, False])], (f(3, 2, 4),)),
    ("mapped int", lambda x, k: x[k], (f(3, 4), i())),
    ("mapped int, second", lambda x, k: x[:, k], (f(3, 4), i())),
    ("mapped array", lambda x, k: x[k], (f(3, 4), i(2, 2))),
    ("mapped array, second", lambda x, k: x[:, k], (f(3, 4), i(2))),
    ("mapped arrays", lambda x, k, m: x[k, m], (f(3, 4), i(2, 1), i(3))),
    ("mapped arrays apart", lambda x, k, m: x[k, :, m], (f(3, 2, 4), i(2), i(2))),
    ("mapped arrays, none before", lambda x, k: x[None, :, k, 1], (f(3, 4, 2), i(2))),
    ("mapped and ellipsis", lambda x, k: x[..., k], (f(3, 2, 4), i(2))),
    ("mapped mask of as many", lambda x: x[x > np.median(x)], (f(5),)),
    ("assign int", put(0), (f(3, 4), f(4))),
    ("assign slice", put((slice(None), slice(1, 3))), (f(3, 4), f())),
    ("assign all", put(...), (f(3, 4), f(1, 3, 1))),
    ("assign list", put([0, 2]), (f(3, 4), f(2, 4))),
    ("assign arrays apart", put(([0, 1], slice(None), [1, 0])), (f(3, 2, 4), f(2, 2))),
    ("assign at mapped", written(put_at), (f(3, 4), i(), f(4))),
    ("assign at mapped array", written(put_at), (f(9, 4), i(1), f(1, 4))),
    (
        "assign at mapped, second",
        written(lambda x, k, y: put_at(x, (slice(None), k), y)),
        (f(3, 4), i(), f(3)),
    ),
    ("assign number at mask", written(lambda x, m: put_at(x, m, 0.0)), (f(3, 4), b(3))),
    ("assign mapped number at mask", written(put_at), (f(3, 4), b(3, 4), f())),
]
ALL = ELEMENTS + REDUCTIONS + PRODUCTS + LINALG + SHAPES + SORTING + INDEXING
