"""Steps that reduce or scan, each with an oracle: the same on every array alone, with NumPy.

tensordict gets several reductions wrong (see the README's differences), so that its result is not enough
to tell whether lite's is right.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from fuzz_metadata import names_differ
from fuzz_sides import Array, Mismatch, Side, arrays, compare_arrays, is_objects, stacked, torch
from fuzz_step import Choices, Step, dim, step

import lite

WITH_DTYPE = ("sum", "mean", "prod", "nansum", "nanmean")
REDUCTIONS = (*WITH_DTYPE, "std", "var", "amax", "amin", "max", "min", "all", "any", "logsumexp")
SCANS = ("cummax", "cummin", "softmax", "cumsum", "cumprod", "sort", "nan_to_num")
MISSING_THERE = ("cumsum", "cumprod", "sort", "nan_to_num")
# What torch computes for floating-point arrays only.
FLOATING = ("mean", "nanmean", "std", "var", "softmax", "logsumexp")
EXTREMES = ("max", "min", "cummax", "cummin")
INTEGER = ("sum", "prod", "nansum", "cumsum", "cumprod")  # stay integers
INT, FLOAT = np.dtype(np.int64), np.dtype(np.float64)
SOURCES = ("double", "double", "float", "as it is", "nan", "as it is")


def prepared(td: Any, source: str) -> Any:
    if source == "nan":
        return (td.double() - 5).log()
    return td if source == "as it is" else getattr(td, source)()


@step(8)
def reduction(c: Choices, v: list[Any], at: int) -> Step:
    ndim = v[at].ndim
    name, source = c.pick(REDUCTIONS), c.pick(SOURCES)
    if name == "logsumexp" and source == "as it is":
        source = "double"
    if name == "prod" and source == "float":  # whether inf comes before 0 depends on the order
        source = "double"
    kwargs: dict[str, Any] = {}
    kind = c.pick(["int", "int", "unset", "tuple", "feature", "none"])
    if kind == "int":
        kwargs["dim"] = dim(c, ndim)
    elif kind == "tuple" and ndim and name not in ("all", "any"):
        kwargs["dim"] = tuple({dim(c, ndim) for _ in range(1 + c.below(2))})
    elif kind == "feature" and name not in ("all", "any", "logsumexp"):
        kwargs["dim"] = "feature"
    elif kind == "none":
        kwargs["dim"] = None
    if name not in ("all", "any") and c.one_in(4):
        kwargs["keepdim"] = True
    if name in WITH_DTYPE and c.one_in(4):
        kwargs["dtype"] = c.pick(
            ["float64", "float32"] if name in FLOATING or source == "nan" else ["float64", "int64"]
        )
    elif name in ("std", "var") and c.one_in(2):
        kwargs["correction"] = c.pick([0, 1, 2])
    elif name in ("max", "min") and "dim" in kwargs and c.one_in(2):
        kwargs["return_indices"] = False
    if name not in ("all", "any", "logsumexp") and c.one_in(5):
        kwargs["reduce"] = c.pick([True, True, False])

    def run(s: Side, v: list[Any]) -> Any:
        given = dict(kwargs)
        if "dtype" in given and s.name != "lite":
            given["dtype"] = getattr(torch, given["dtype"])
        found = getattr(prepared(v[at], source), name)(**given)
        if s.name == "lite" or not isinstance(found, torch.return_types.max | torch.return_types.min):
            return found
        return tuple(found[0]) if isinstance(found[0], tuple) else tuple(found)

    shown = ", ".join(f"{key}={value!r}" for key, value in kwargs.items())
    text = f"{source}: {name}({shown})"
    oracle = Oracle(name, source, kwargs)
    return Step(
        f"reduce {name}", text, run, oracle=oracle, source=source, kwargs=kwargs, dim=kwargs.get("dim")
    )


@step(3)
def scan(c: Choices, v: list[Any], at: int) -> Step:
    name, source = c.pick(SCANS), c.pick(SOURCES)
    d = dim(c, v[at].ndim)
    kwargs = {} if name == "nan_to_num" else {"dim": d}

    def run(s: Side, v: list[Any]) -> Any:
        td = prepared(v[at], source)
        if s.name == "lite" or name not in MISSING_THERE:
            return getattr(td, name)(**kwargs)
        if name != "nan_to_num" and not -td.ndim <= d < td.ndim:
            raise IndexError("no such dim")
        if name == "nan_to_num":
            return td.apply(lambda x: x.nan_to_num(), propagate_lock=True)
        if -1 in td.batch_size:
            raise RuntimeError("there is no dense form")
        axis = d % td.ndim
        td = td.to_tensordict()
        if name == "sort":
            return tuple(td.apply(lambda x, i=i: torch.sort(x, stable=True, dim=axis)[i]) for i in (0, 1))
        return td.apply(lambda x: getattr(x, name)(axis))

    text = f"{source}: {name}({d})"
    oracle = None if name == "nan_to_num" else Oracle(name, source, kwargs)
    return Step(f"scan {name}", text, run, oracle=oracle, source=source, kwargs=kwargs)


class Oracle:
    """What a reduction of lite's should give: NumPy's on every array, and the batch size that follows."""

    def __init__(self, name: str, source: str, kwargs: dict[str, Any]) -> None:
        self.name = name
        self.source = source
        self.kwargs = kwargs
        self.keep = bool(kwargs.get("keepdim"))

    def check(self, td: Any, result: Any) -> None:
        """Raise `Mismatch` where a result of lite is not what NumPy gives."""
        td = prepared(td, self.source)
        if isinstance(result, bool) or (self.kwargs.get("reduce") and self.kwargs.get("dim") is None):
            leaves = dict(enumerate(a for a in arrays(td) if a.dtype != object))
        else:
            leaves = {key: td.get(key) for key in td.keys(True, True)}
        if isinstance(result, bool):
            wanted = getattr(np, self.name)([getattr(np, self.name)(leaf) for leaf in leaves.values()])
            if result != wanted:
                raise Mismatch("oracle", "", f"lite {result}, NumPy {wanted}")
            return
        feature = self.kwargs.get("dim") == "feature"
        values, where = result if isinstance(result, tuple) else (result, None)
        if self.kwargs.get("reduce"):
            leaves, values = {"joined": self._joined(list(leaves.values()), td.ndim)}, {"joined": values}
            where = where if where is None else {"joined": where}
        else:
            self._compare_structure(td, values, leaves)
        for key, leaf in leaves.items():
            # The features of a nested entry are what follows the batch size of its own node.
            ndim = td.get(key[:-1]).ndim if isinstance(key, tuple) and feature else td.ndim
            array, axes = self._axes(leaf, ndim)
            expected = np.asarray(self._of(array, axes))
            if array.size or self.name not in EXTREMES:
                compare_arrays(np.asarray(values[key]), expected, f"oracle {key}")
            if where is not None and self.name in EXTREMES:
                self._compare_positions(array, axes, expected, np.asarray(where[key]))

    def _axes(self, array: Array, ndim: int) -> tuple[Array, tuple[int, ...]]:
        """The array, features flattened if they are reduced, and the axes to reduce."""
        d = self.kwargs.get("dim")
        if d == "feature":
            size = int(np.prod(array.shape[ndim:]))
            return array.reshape((*array.shape[:ndim], size)), (ndim,)
        if d is None:
            return array, tuple(range(ndim if self.name == "logsumexp" else array.ndim))
        return array, tuple({i % ndim for i in (d if isinstance(d, tuple) else (d,))})

    def _joined(self, arrays: list[Array], ndim: int) -> Array:
        d = self.kwargs.get("dim")
        if d is None:
            return np.concatenate([array.reshape(-1) for array in arrays])
        if d == "feature":
            return np.concatenate([self._axes(array, ndim)[0] for array in arrays], -1)
        return np.concatenate(arrays, (d[0] if isinstance(d, tuple) else d) % ndim)

    def _compare_structure(self, td: Any, values: Any, leaves: dict[Any, Array]) -> None:
        size = td.batch_size
        axes: tuple[int, ...] = ()
        if self.name not in SCANS and self.kwargs.get("dim") != "feature":
            _, axes = self._axes(np.zeros(size, bool), td.ndim)
            kept = [1 if i in axes else n for i, n in enumerate(size) if self.keep or i not in axes]
            size = tuple(kept)
        if values.batch_size != size:
            raise Mismatch("oracle", "", f"batch size {values.batch_size}, expected {size}")
        if not names_differ(td):
            names = [name for i, name in enumerate(td.names) if self.keep or i not in axes]
            if list(values.names) != names:
                raise Mismatch("oracle", "", f"names {values.names}, expected {names}")
        if set(values.keys(True, True)) != set(leaves):
            raise Mismatch("oracle", "", f"keys {set(values.keys(True, True))}, expected {set(leaves)}")
        if stacked(td):
            return
        for key, entry in td.items():
            shared, found = isinstance(entry, lite.NonTensorData), values.get(key)
            if is_objects(entry) and (shared or size == td.batch_size) != (found is not None):
                raise Mismatch("oracle", key, f"{entry!r} gave {found!r}")
            if shared and (found.batch_size != size or found.data != entry.data):
                raise Mismatch("oracle", key, f"{entry!r} gave {found!r}")

    def _of(self, x: Array, axes: tuple[int, ...]) -> Any:
        name, integer = self.name, x.dtype.kind in "biu"
        dtype = self.kwargs.get("dtype") or (x.dtype if not integer else INT if name in INTEGER else FLOAT)
        how = {"axis": axes, "keepdims": self.keep}
        if name in ("sum", "prod", "nansum", "mean", "nanmean"):
            return getattr(np, name)(x.astype(dtype), **how)
        if name in ("std", "var"):
            return getattr(np, name)(x.astype(dtype), ddof=self.kwargs.get("correction", 1), **how)
        if name in ("amax", "amin", "max", "min", "all", "any"):
            return getattr(np, name)(x, **how)
        if name == "logsumexp":
            top = np.max(x.astype(FLOAT), axes, where=np.isfinite(x), initial=-1e308, keepdims=True)
            rest = np.log(np.sum(np.exp(x.astype(FLOAT) - top), **how))
            return (rest + (top if self.keep else top.squeeze(axes))).astype(dtype)
        (axis,) = axes
        if name == "softmax":
            powers = np.exp(x.astype(FLOAT) - np.max(x.astype(FLOAT), axis, keepdims=True, initial=-1e308))
            return (powers / powers.sum(axis, keepdims=True)).astype(dtype)
        if name == "sort":
            return np.sort(x, axis)
        if name in ("cumsum", "cumprod"):
            return getattr(np, name)(x.astype(dtype), axis)
        return (np.maximum if name == "cummax" else np.minimum).accumulate(x, axis)

    def _compare_positions(self, x: Array, axes: tuple[int, ...], expected: Array, where: Array) -> None:
        """Positions are right if the values are there: which of equal ones is found is not fixed."""
        if self.name in ("cummax", "cummin"):
            found = np.take_along_axis(x, where, axes[0])
        else:
            kept = [i for i in range(x.ndim) if i not in axes]
            shape = [*(x.shape[i] for i in kept), int(np.prod([x.shape[i] for i in axes]))]
            rows = x.transpose((*kept, *sorted(axes))).reshape(shape)
            where = where.squeeze(axes) if self.keep else where
            expected = expected.squeeze(axes) if self.keep else expected
            found = np.take_along_axis(rows, where[..., None], -1)[..., 0]
        if not np.array_equal(found, expected, equal_nan=x.dtype.kind == "f"):
            raise Mismatch("oracle", "", f"positions {where.tolist()} of {expected.tolist()} in {x.tolist()}")
