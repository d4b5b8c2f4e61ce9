"""Random programs of NumPy functions: compositions, views and writes, on a few arrays.

A program is a list of steps on a list of arrays, which the steps append to and write into. Steps are drawn
one by one, with what those before gave on plain arrays: shapes fit, and results are finite and not large.
"""

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

Step = Callable[[list[Any]], None]
Draw = Callable[[Any], Any]
SHAPES = [(), (1,), (3,), (4,), (2, 3), (3, 2), (3, 3), (1, 4), (2, 1, 3), (2, 2, 2)]
LARGEST, MOST = 20.0, 60  # numbers, and elements of an array


class Program:
    """Arrays to start from, and steps with names that tell what they do."""

    def __init__(self, leaves: list[Any]) -> None:
        self.leaves = leaves
        self.steps: list[Step] = []
        self.names: list[str] = []

    def run(self, *leaves: Any) -> list[Any]:
        """All arrays at the end."""
        arrays = list(leaves)
        for step in self.steps:
            step(arrays)
        return arrays

    def loss(self, *leaves: Any) -> Any:
        """A number in which every element counts in its own way."""
        total: Any = 0.0
        for k, x in enumerate(self.run(*leaves)):
            weights = np.cos(1.0 + k + 0.7 * np.arange(x.size)).reshape(x.shape)
            total = total + np.sum(x * weights)
        return total

    def __repr__(self) -> str:
        shapes = [x.shape for x in self.leaves]
        return "; ".join([f"arrays of {shapes}", *self.names])


@st.composite
def programs(draw: Any, most: int = 8) -> Program:
    """A program of up to so many steps."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    shapes = draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3))
    program = Program([np.array(rng.uniform(-1.5, 1.5, shape)) for shape in shapes])
    arrays = program.run(*[x.copy() for x in program.leaves])
    for _ in range(draw(st.integers(1, most))):
        make = draw(st.sampled_from(STEPS))
        found = make(draw, arrays)
        if found is None:
            continue
        program.names.append(found[0])
        program.steps.append(found[1])
        trial = _tried(program)
        if trial is None:
            program.names.pop()
            program.steps.pop()
        else:
            arrays = trial
    return program


def _tried(program: Program) -> list[Any] | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            arrays = program.run(*[x.copy() for x in program.leaves])
    except (ValueError, TypeError, IndexError, AttributeError, RuntimeWarning, np.linalg.LinAlgError):
        return None
    good = all(x.dtype == np.float64 and x.size <= MOST and np.all(np.abs(x) < LARGEST) for x in arrays)
    return arrays if good else None


def _which(draw: Draw, arrays: list[Any], ndim: int = 0) -> int | None:
    """One of the arrays that have at least so many dimensions."""
    fitting = [i for i, x in enumerate(arrays) if x.ndim >= ndim]
    return draw(st.sampled_from(fitting)) if fitting else None


def _appended(name: str, i: int, fn: Callable[[Any], Any]) -> tuple[str, Step]:
    def step(arrays: list[Any]) -> None:
        out = fn(arrays[i])
        for part in out if isinstance(out, tuple | list) else [out]:
            # Single elements are copies for NumPy, but not along a mapped dimension.
            arrays.append(part if part.ndim else part * 1.0)

    return f"{name} of {i}", step


ELEMENTWISE: dict[str, Callable[[Any], Any]] = {
    "tanh": np.tanh, "sin": np.sin, "exp": lambda x: np.exp(-x * x), "square": np.square, "abs": np.abs,
    "log1p": lambda x: np.log1p(x * x), "sqrt": lambda x: np.sqrt(x * x + 0.5),
    "reciprocal": lambda x: np.reciprocal(1.5 + np.cos(x)), "arctan": np.arctan,
    "relu": lambda x: np.maximum(x, 0.1), "clip": lambda x: np.clip(x, -0.7, 0.8),
    "where": lambda x: np.where(x > 0.2, x * 2, -x), "negative": lambda x: -x, "sinc": np.sinc,
    "power": lambda x: (x + 0.1) ** 3, "expm1": np.expm1, "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "nan_to_num": np.nan_to_num, "select": lambda x: np.select([x > 0.5, x > 0], [x, x * x], 0.3),
    "floor": lambda x: x - np.floor(x + 0.123), "copy": lambda x: x.copy(),
}  # fmt: skip


def elementwise(draw: Draw, arrays: list[Any]) -> Any:
    name = draw(st.sampled_from(sorted(ELEMENTWISE)))
    return _appended(name, _which(draw, arrays) or 0, ELEMENTWISE[name])


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "subtract": lambda x, y: x - y, "multiply": np.multiply,
    "divide": lambda x, y: x / (1 + y * y), "maximum": np.maximum, "minimum": lambda x, y: np.minimum(x, y),
    "arctan2": lambda x, y: np.arctan2(x, 2 + y * y), "hypot": lambda x, y: np.hypot(x, y + 0.5),
    "logaddexp": np.logaddexp, "power": lambda x, y: np.power(x * x + 0.5, y),
    "where": lambda x, y: np.where(x > y, x * y, y),
}  # fmt: skip


def binary(draw: Draw, arrays: list[Any]) -> Any:
    name, i, j = draw(st.sampled_from(sorted(BINARY))), _which(draw, arrays), _which(draw, arrays)
    return f"{name} of {i} and {j}", lambda arrays: arrays.append(BINARY[name](arrays[i], arrays[j]))


def _axis(draw: Draw, ndim: int, several: bool = True) -> Any:
    if not ndim:
        return None
    one = st.integers(-ndim, ndim - 1)
    if not several:
        return draw(one)
    return draw(st.none() | one | st.sampled_from([tuple(range(ndim)), (0, -1) if ndim > 1 else (0,)]))


REDUCTIONS = (
    "sum", "mean", "max", "min", "prod", "var", "std", "median", "ptp", "nansum", "nanmean", "nanmax",
)  # fmt: skip


def reduction(draw: Draw, arrays: list[Any]) -> Any:
    name, i = draw(st.sampled_from(REDUCTIONS)), _which(draw, arrays)
    options: dict[str, Any] = {"axis": _axis(draw, arrays[i].ndim)}
    if draw(st.booleans()):
        options["keepdims"] = True
    if name in ("sum", "mean", "prod", "var", "nansum") and draw(st.integers(0, 3)) == 0:
        options["where"] = np.arange(arrays[i].size).reshape(arrays[i].shape) % 3 != 1
    return _appended(f"{name} {options}", i, lambda x: getattr(np, name)(x, **options))


def quantile(draw: Draw, arrays: list[Any]) -> Any:
    i = _which(draw, arrays)
    q, axis = draw(st.sampled_from([0.3, [0.1, 0.85]])), _axis(draw, arrays[i].ndim)
    return _appended(f"quantile {q} {axis}", i, lambda x: np.quantile(x, q, axis))


def scan(draw: Draw, arrays: list[Any]) -> Any:
    i = _which(draw, arrays, 1)
    if i is None:
        return None
    name = draw(
        st.sampled_from(["cumsum", "cumprod", "diff", "sort", "gradient", "flip", "trapezoid", "logsumexp"])
    )
    axis = _axis(draw, arrays[i].ndim, False)
    if name == "logsumexp":
        return _appended(name, i, lambda x: np.log(np.sum(np.exp(x), axis)))
    return _appended(f"{name} {axis}", i, lambda x: getattr(np, name)(x, axis=axis))


def reshape(draw: Draw, arrays: list[Any]) -> Any:
    i = _which(draw, arrays)
    size = arrays[i].size
    first = draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0] or [1]))
    shape = draw(st.sampled_from([(-1,), (first, -1), (1, first, -1), (size,)]))
    order = draw(st.sampled_from("CCF"))
    return _appended(f"reshape {shape} {order}", i, lambda x: np.reshape(x, shape, order=order))


def moved(draw: Draw, arrays: list[Any]) -> Any:
    i = _which(draw, arrays, 2)
    if i is None:
        return None
    ndim = arrays[i].ndim
    order = draw(st.permutations(range(ndim)))
    a, b = draw(st.integers(-ndim, ndim - 1)), draw(st.integers(-ndim, ndim - 1))
    forms: dict[str, Any] = {
        f"transpose {order}": lambda x: np.transpose(x, order),
        "T": lambda x: x.T,
        "mT": lambda x: x.mT,
        f"swapaxes {a} {b}": lambda x: x.swapaxes(a, b),
        f"moveaxis {a} {b}": lambda x: np.moveaxis(x, a, b),
        f"rollaxis {a}": lambda x: np.rollaxis(x, a),
        "rot90": lambda x: np.rot90(x, 3),
        "tril": lambda x: np.tril(x, -1) + np.triu(x, 1) ** 2,
        "diagonal": lambda x: np.diagonal(x),
        "trace": lambda x: np.trace(x),
    }
    name = draw(st.sampled_from(list(forms)))
    return _appended(name, i, forms[name])


def widened(draw: Draw, arrays: list[Any]) -> Any:
    i = _which(draw, arrays)
    shape = arrays[i].shape
    axis = draw(st.integers(-1, len(shape)))
    n = draw(st.integers(1, 3))
    mode = draw(st.sampled_from(["constant", "edge", "wrap", "mean", "symmetric"]))
    forms: dict[str, Any] = {
        f"expand_dims {axis}": lambda x: np.expand_dims(x, axis),
        f"broadcast_to {n}": lambda x: np.broadcast_to(x, (n, *shape)),
        f"tile {n}": lambda x: np.tile(x, (n, 2)),
        f"repeat {n} {axis}": lambda x: np.repeat(x, n, axis),
        f"roll {n}": lambda x: np.roll(x, n) + np.roll(x, -n, None),
        "squeeze": np.squeeze,
        "ravel": np.ravel,
        f"pad {mode} {n}": lambda x: np.pad(x, ((n, 1),) * x.ndim, mode),
        "atleast": lambda x: np.atleast_2d(x),
        "zeros_like": lambda x: np.zeros_like(x) + np.full_like(x, 0.3),
    }
    name = draw(st.sampled_from(list(forms)))
    return _appended(name, i, forms[name])


def joined(draw: Draw, arrays: list[Any]) -> Any:
    i, j = _which(draw, arrays), _which(draw, arrays)
    axis = draw(st.integers(-2, 1))
    forms: dict[str, Callable[[Any, Any], Any]] = {
        f"concatenate {axis}": lambda x, y: np.concatenate([x, y, x], axis),
        "concatenate all": lambda x, y: np.concatenate([x, y], None),
        f"stack {axis}": lambda x, y: np.stack([x, y], axis),
        "hstack": lambda x, y: np.hstack([x, y]),
        "vstack": lambda x, y: np.vstack([x, y]),
        "append": lambda x, y: np.append(x, y),
        "block": lambda x, y: np.block([[x, y], [y, x]]),
        "insert": lambda x, y: np.insert(x, 0, y.reshape(-1)[:1]),
    }
    name = draw(st.sampled_from(list(forms)))
    return f"{name} of {i} and {j}", lambda arrays: arrays.append(forms[name](arrays[i], arrays[j]))


def split(draw: Draw, arrays: list[Any]) -> Any:
    i = _which(draw, arrays, 1)
    if i is None:
        return None
    axis = _axis(draw, arrays[i].ndim, False)
    sections = draw(st.sampled_from([2, 3, [1], [0, 2]]))
    if draw(st.booleans()):
        return _appended(f"unstack {axis}", i, lambda x: np.unstack(x, axis=axis))
    return _appended(f"split {sections} {axis}", i, lambda x: np.array_split(x, sections, axis))


def product(draw: Draw, arrays: list[Any]) -> Any:
    i, j = _which(draw, arrays), _which(draw, arrays)
    forms: dict[str, Callable[[Any, Any], Any]] = {
        "matmul": lambda x, y: x @ y,
        "matmul of transposed": lambda x, y: x @ y.mT,
        "dot": np.dot,
        "inner": np.inner,
        "outer": np.outer,
        "tensordot": lambda x, y: np.tensordot(x, y, 1),
        "kron": np.kron,
        "einsum": lambda x, y: np.einsum("i...,i...->...", x, y),
        "einsum of matrices": lambda x, y: np.einsum("...ij,kj->...ik", x, y),
        "einsum of diagonals": lambda x, y: np.einsum("...ii,...i->...", x, y),
        "vecdot": lambda x, y: np.vecdot(x, y),
        "convolve": lambda x, y: np.convolve(x, y, "same"),
        "multi_dot": lambda x, y: np.linalg.multi_dot([x, y.T, x]),
    }
    name = draw(st.sampled_from(list(forms)))
    return f"{name} of {i} and {j}", lambda arrays: arrays.append(forms[name](arrays[i], arrays[j]))


def _regular(x: Any) -> Any:
    """A symmetric matrix of eigenvalues from 1."""
    return x @ x.mT + np.eye(x.shape[-2])


def matrices(draw: Draw, arrays: list[Any]) -> Any:
    i = _which(draw, arrays, 2)
    if i is None:
        return None
    forms: dict[str, Callable[[Any], Any]] = {
        "inv": lambda x: np.linalg.inv(_regular(x)),
        "solve": lambda x: np.linalg.solve(_regular(x), x),
        "det": lambda x: np.linalg.det(_regular(x)),
        "slogdet": lambda x: np.linalg.slogdet(_regular(x))[1],
        "cholesky": lambda x: np.linalg.cholesky(_regular(x)),
        "norm": lambda x: np.linalg.norm(x),
        "norms": lambda x: np.linalg.norm(x, axis=-1, keepdims=True),
        "norm nuc": lambda x: np.linalg.norm(x + np.eye(*x.shape[-2:]), "nuc", (-2, -1)),
        "eigvalsh": lambda x: np.linalg.eigvalsh(_regular(x)),
        "pinv": lambda x: np.linalg.pinv(x + 2 * np.eye(*x.shape[-2:])),
        "matrix_power": lambda x: np.linalg.matrix_power(_regular(x) / 3, 3),
    }
    name = draw(st.sampled_from(list(forms)))
    return _appended(name, i, forms[name])


def _index(draw: Draw, shape: tuple[int, ...]) -> Any:
    """An index of an array of this shape: integers, slices, new axes, dots, arrays or a mask."""
    if draw(st.integers(0, 5)) == 0:
        mask = np.arange(math.prod(shape)).reshape(shape) % draw(st.integers(2, 3)) == 0
        return mask
    items: list[Any] = []
    for size in shape[: draw(st.integers(0, len(shape)))]:
        kind = draw(st.sampled_from(["int", "slice", "slice", "array", "new"])) if size else "slice"
        if kind == "new":
            items.append(None)
        if kind == "int":
            items.append(draw(st.integers(-size, size - 1)))
        elif kind == "array":
            items.append(np.array(draw(st.lists(st.integers(-size, size - 1), min_size=1, max_size=3))))
        else:
            items.append(
                draw(st.sampled_from([slice(None), slice(1, None), slice(None, None, -1), slice(0, 2)]))
            )
    if draw(st.booleans()):
        items.append(Ellipsis)
    return tuple(items)


def read(draw: Draw, arrays: list[Any]) -> Any:
    i = _which(draw, arrays, 1)
    if i is None:
        return None
    index = _index(draw, arrays[i].shape)
    return _appended(f"[{index}]", i, lambda x: x[index])


def taken(draw: Draw, arrays: list[Any]) -> Any:
    i = _which(draw, arrays, 1)
    if i is None:
        return None
    x = arrays[i]
    axis = _axis(draw, x.ndim, False)
    size = x.shape[axis]
    places = np.array(draw(st.lists(st.integers(0, max(size - 1, 0)), min_size=1, max_size=3)))
    if draw(st.booleans()):
        return _appended(f"take {places} {axis}", i, lambda x: np.take(x, places, axis))
    order = np.argsort(np.sin(np.arange(x.size)).reshape(x.shape), axis)
    return _appended(f"take_along_axis {axis}", i, lambda x: np.take_along_axis(x, order, axis))


def written(draw: Draw, arrays: list[Any]) -> Any:
    """A write by index into one array, of a number or of a part of another."""
    i, j = _which(draw, arrays, 1), _which(draw, arrays)
    if i is None:
        return None
    index = _index(draw, arrays[i].shape)
    source = draw(st.sampled_from(["number", "other", "mean"]))
    how = draw(st.sampled_from(["=", "+=", "*="]))

    def step(arrays: list[Any]) -> None:
        new = 0.7 if source == "number" else arrays[j] if source == "other" else np.mean(arrays[j])
        if how == "=":
            arrays[i][index] = new
        elif how == "+=":
            arrays[i][index] += new
        else:
            arrays[i][index] *= new

    return f"{i}[{index}] {how} {source} {j}", step


VIEWS: dict[str, Callable[[Any], Any]] = {
    "T": lambda x: x.T, "reshape": lambda x: x.reshape(-1), "flip": lambda x: np.flip(x, 0),
    "slice": lambda x: x[1:], "row": lambda x: x[0] if x.ndim > 1 else x[:1], "new axis": lambda x: x[None],
    "moveaxis": lambda x: np.moveaxis(x, -1, 0), "squeeze": lambda x: np.squeeze(x),
    "of a view": lambda x: x.T[..., ::-1],
}  # fmt: skip


def through_view(draw: Draw, arrays: list[Any]) -> Any:
    """A write through a view, of which one may be kept."""
    i, j = _which(draw, arrays, 1), _which(draw, arrays)
    if i is None:
        return None
    name, kept = draw(st.sampled_from(sorted(VIEWS))), draw(st.booleans())
    how = draw(st.sampled_from(["out", "+=", "fill", "row", "copyto"]))

    def step(arrays: list[Any]) -> None:
        view = VIEWS[name](arrays[i])
        if kept:
            arrays.append(view)
        new = np.mean(arrays[j])
        if how == "out":
            np.multiply(view, new, out=view)
        elif how == "+=":
            view += new
        elif how == "fill":
            view.fill(0.4)
        elif how == "row":
            view[0] = new
        else:
            np.copyto(view, new)

    return f"{how} through {name} of {i}, {j}{', kept' if kept else ''}", step


def added(draw: Draw, arrays: list[Any]) -> Any:
    """`+=` and its kin on a whole array."""
    i, j = _which(draw, arrays, 1), _which(draw, arrays)
    if i is None:
        return None
    how = draw(st.sampled_from(["+=", "-=", "*=", "sort"]))

    def step(arrays: list[Any]) -> None:
        x = arrays[i]
        if how == "+=":
            x += arrays[j]
        elif how == "-=":
            x -= arrays[j]
        elif how == "*=":
            x *= arrays[j]
        else:
            x.sort()
        arrays[i] = x

    return f"{i} {how} {j}", step


STEPS = [
    *(
        elementwise, binary, reduction, reduction, quantile, scan, scan, reshape, moved, moved, widened,
        joined, split,
    ),
    *(product, product, matrices, read, read, taken, written, written, through_view, through_view, added),
]  # fmt: skip
