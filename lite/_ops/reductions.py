"""Reductions as methods: one factory per family of arguments, one line per method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from lite._arrays import reductions as over
from lite._arrays.device import wrap
from lite._arrays.dtypes import as_dtype
from lite._arrays.formulas import log_sum_exp
from lite._arrays.reductions import Reducer
from lite._arrays.types import Shape
from lite._ops.methods import AnyMethod, described
from lite._ops.reduce import FEATURE, Extremes, Scope, joined, reduced, scope_of, with_keys
from lite._tree.protocol import MISSING, Container
from lite._tree.walks import leaves

_ARGUMENTS = """
        Args:
            dim: batch dimension(s), negative ones count from the last batch dimension; "feature" for
                the features of every entry; without it every array is reduced to one number.
            keepdim: keep reduced dimensions with size 1.
            {option}reduce: join the arrays of all entries first, and return one array.
            key_transform: gives the key of a result from the key of its entry.

        Raises:
            IndexError: `dim` is no batch dimension.
            RuntimeError: entries of a lazy stack are ragged.
        """


def _documented(method: Any, name: str, what: str, option: str = "") -> AnyMethod:
    out: AnyMethod = described(method, name, f"{what}\n{_ARGUMENTS.format(option=option)}")
    return out


def _run(
    td: Any,
    name: str,
    fn: Reducer,
    dim: Any,
    keepdim: bool,
    reduce: bool | None,
    key_transform: Callable[[Any], Any] | None = None,
    lead: Shape = (),
) -> Any:
    if reduce:
        return _run_joined(td, name, fn, dim, keepdim)
    out = reduced(td, name, fn, scope_of(td, dim, keepdim, lead))
    return out if key_transform is None else with_keys(out, key_transform)


def _run_joined(td: Any, name: str, fn: Reducer, dim: Any, keepdim: bool) -> Any:
    scope = scope_of(td, dim, keepdim)
    array = joined(td, name, FEATURE if scope.feature else scope.dims)
    return np.asarray(fn(array, -1 if scope.feature else scope.dims, keepdim))


def _with_dtype(name: str, make: Callable[[Any], Reducer], what: str) -> AnyMethod:
    plain = make(None)

    def method(
        self: Any,
        dim: Any = MISSING,
        keepdim: bool = False,
        *,
        dtype: DTypeLike | None = None,
        reduce: bool | None = None,
        key_transform: Callable[[Any], Any] | None = None,
    ) -> Any:
        fn = plain if dtype is None else make(as_dtype(dtype))
        return _run(self, name, fn, dim, keepdim, reduce, key_transform)

    return _documented(method, name, what, "dtype: dtype of the computation and of the result.\n            ")


def _with_correction(name: str, root: bool, what: str) -> AnyMethod:
    def method(
        self: Any,
        dim: Any = MISSING,
        keepdim: bool = False,
        *,
        correction: float = 1,
        reduce: bool | None = None,
        key_transform: Callable[[Any], Any] | None = None,
    ) -> Any:
        return _run(self, name, over.variance(correction, root), dim, keepdim, reduce, key_transform)

    option = "correction: subtracted from the number of elements in the denominator.\n            "
    return _documented(method, name, what, option)


def _plain(name: str, fn: Reducer, what: str) -> AnyMethod:
    def method(
        self: Any,
        dim: Any = MISSING,
        keepdim: bool = False,
        *,
        reduce: bool | None = None,
        key_transform: Callable[[Any], Any] | None = None,
    ) -> Any:
        return _run(self, name, fn, dim, keepdim, reduce, key_transform)

    return _documented(method, name, what)


def _extremes(name: str, value: Reducer, where: Reducer, what: str) -> AnyMethod:
    def method(
        self: Any,
        dim: Any = MISSING,
        keepdim: bool = False,
        *,
        reduce: bool | None = None,
        return_indices: bool = True,
    ) -> Any:
        values = _run(self, name, value, dim, keepdim, reduce)
        if dim is MISSING or dim is None or not return_indices:
            return values
        return Extremes(values, _run(self, name, where, dim, keepdim, reduce))

    out: AnyMethod = described(method, name, f"{what}\n{_EXTREMES}")
    return out


_EXTREMES = """
        Args:
            dim: batch dimension(s), or "feature"; without it every array is reduced to one number.
            keepdim: keep reduced dimensions with size 1.
            reduce: join the arrays of all entries first, and return arrays.
            return_indices: with `dim`, return `(values, indices)`, not only the values. Over several
                dimensions the indices are row-major.

        Raises:
            IndexError: `dim` is no batch dimension.
            RuntimeError: entries of a lazy stack are ragged.
        """


def _truth(name: str, fn: Reducer, found: Callable[[Any], bool], what: str) -> AnyMethod:
    def method(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if dim is None:
            return found(bool(fn(wrap(leaf), None, False)) for leaf in leaves(self))
        try:
            scope = scope_of(self, dim, keepdim)
        except IndexError as error:
            raise RuntimeError(
                "dim must be greater than or equal to -tensordict.batch_dims and smaller than "
                f"tensordict.batch_dims, got dim={dim} for {self.ndim} batch dims."
            ) from error
        return reduced(self, name, fn, scope)

    out: AnyMethod = described(method, name, what)
    return out


_ALL = """Whether every element is true: a bool over all arrays, or a TensorDict over `dim`.

        Args:
            dim: batch dimension(s), or "feature".
            keepdim: keep reduced dimensions with size 1.

        Raises:
            RuntimeError: `dim` is no batch dimension.

        Example:
            >>> import numpy as np
            >>> from lite import TensorDict
            >>> td = TensorDict({"a": np.array([True, False])}, batch_size=[2])
            >>> td.all(), td.any(), td.all(dim=0)["a"]
            (False, True, array(False))
        """

_MAX, _MIN = over.extreme(np.maximum), over.extreme(np.minimum)
_ARGMAX, _ARGMIN = over.position(np.argmax), over.position(np.argmin)

_METHODS: dict[str, AnyMethod] = {
    "sum": _with_dtype("sum", lambda t: over.total(np.add, t), "Sum of every array."),
    "prod": _with_dtype("prod", lambda t: over.total(np.multiply, t), "Product of every array."),
    "mean": _with_dtype("mean", over.mean, "Mean of every array; of integers in float64."),
    "nansum": _with_dtype("nansum", over.nan_total, "Sum of every array with NaN counted as 0."),
    "nanmean": _with_dtype("nanmean", over.nan_mean, "Mean of what is not NaN in every array."),
    "std": _with_correction("std", True, "Standard deviation of every array."),
    "var": _with_correction("var", False, "Variance of every array."),
    "amax": _plain("amax", _MAX, "Largest value of every array."),
    "amin": _plain("amin", _MIN, "Smallest value of every array."),
    "argmax": _plain("argmax", _ARGMAX, "Position of the largest value, row-major over several dims."),
    "argmin": _plain("argmin", _ARGMIN, "Position of the smallest value, row-major over several dims."),
    "max": _extremes("max", _MAX, _ARGMAX, "Largest value of every array, and its position."),
    "min": _extremes("min", _MIN, _ARGMIN, "Smallest value of every array, and its position."),
    "all": _truth("all", over.every, all, _ALL),
    "any": _truth("any", over.some, any, "Whether any element is true; see `all`."),
}


def reduction(name: str) -> AnyMethod:
    """The method of a reduction over batch dimensions, over features, or of everything.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> td = TensorDict({"a": np.arange(6.0).reshape(2, 3), "n": {"b": np.ones(2)}}, batch_size=[2])
        >>> td.sum(dim=0)["a"], td.mean()["a"], td.sum("feature")["a"]
        (array([3., 5., 7.]), array(2.5), array([ 3., 12.]))
        >>> td.max(0).indices["a"], td.sum(reduce=True)
        (array([1, 1, 1]), array(17.))
    """
    return _METHODS[name]


def norm(
    td: Container,
    dim: Any = MISSING,
    keepdim: bool = False,
    *,
    out: Any = None,
    dtype: DTypeLike | None = None,
    reduce: bool | None = None,
    key_transform: Callable[[Any], Any] | None = None,
) -> Any:
    """Euclidean norm of every array.

    Args:
        dim: as in `sum`.
        keepdim: as in `sum`.
        out: TensorDict that receives the results, and which is returned.
        dtype: as in `sum`.
        reduce: as in `sum`.
        key_transform: as in `sum`.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> TensorDict({"a": np.array([[3.0, 4.0]])}, batch_size=[1]).norm()["a"]
        array(5.)
    """
    fn = over.vector_norm(None if dtype is None else as_dtype(dtype))
    result = _run(td, "norm", fn, dim, keepdim, reduce, key_transform)
    return result if out is None else out.update(result)


def quantile(
    td: Container,
    q: Any,
    dim: Any = MISSING,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    reduce: bool | None = None,
    key_transform: Callable[[Any], Any] | None = None,
) -> Any:
    """Quantiles of every array.

    Args:
        q: a number in [0, 1], or a 1-d array of them, which makes a new first batch dimension.
        dim: as in `sum`.
        keepdim: as in `sum`.
        interpolation: a method of `numpy.quantile`: "linear", "lower", "higher", "nearest", ...
        reduce: as in `sum`.
        key_transform: as in `sum`.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> td = TensorDict({"a": np.arange(5.0)}, batch_size=[5])
        >>> td.quantile(0.5)["a"], td.quantile([0.0, 1.0], dim=0).batch_size
        (array(2.), (2,))
    """
    levels = np.asarray(q)
    if levels.ndim > 1:
        raise ValueError(f"q must be a number or a 1-d array, got shape {levels.shape}.")
    fn = over.quantile(levels, interpolation)
    return _run(td, "quantile", fn, dim, keepdim, reduce, key_transform, levels.shape)


def logsumexp(td: Container, dim: Any = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """`log(sum(exp(x)))` over batch dimensions (all of them unless given), without overflow.

    Over no dimension it is `x`, which is what a batch without dimensions gives.

    Args:
        dim: batch dimension(s).
        keepdim: keep reduced dimensions with size 1.
        out: TensorDict whose arrays receive the result, and which is returned.

    Raises:
        ValueError: `dim` is no batch dimension.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> TensorDict({"a": np.zeros(4)}, batch_size=[4]).logsumexp(0)["a"].round(4)
        np.float64(1.3863)
    """
    try:
        every = Scope(tuple(range(td.ndim)), keepdim=keepdim)
        scope = every if dim is None else scope_of(td, dim, keepdim)
    except IndexError as error:
        raise ValueError(
            f"The dimension {dim} is incompatible with a tensordict with batch_size {td.batch_size}."
        ) from error
    result = reduced(td, "logsumexp", log_sum_exp, scope)
    return result if out is None else out.update(result)
