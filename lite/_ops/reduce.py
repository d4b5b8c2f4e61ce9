"""Reductions over batch dimensions, features or everything: one table row per method, and their traversal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from lite._arrays import reductions as over
from lite._arrays.device import unwrap, wrap
from lite._arrays.dtypes import as_dtype
from lite._arrays.formulas import log_sum_exp
from lite._arrays.reductions import Reducer
from lite._arrays.types import Array, Names, Shape, as_array, computed
from lite._ops.out import write_out
from lite._tree.keys import require_path
from lite._tree.methods import AnyMethod, described
from lite._tree.nontensor import NonTensorBase, NonTensorData
from lite._tree.numpy_protocol import implements
from lite._tree.protocol import MISSING, Container
from lite._tree.unbatched import UnbatchedTensor
from lite._tree.walks import keep, leaves, map_tree

FEATURE = "feature"


class Extremes(NamedTuple):
    """Extreme values and their indices along the reduced dimension(s)."""

    values: Any
    indices: Any


@dataclass(slots=True, eq=False, repr=False)
class Scope:
    """The dimensions of every array that are reduced, and the resulting batch size and names.

    Attributes:
        dims: batch dimensions; None for all dimensions of every array, features included.
        feature: reduce the feature dimensions instead.
        keepdim: keep reduced dimensions with size 1.
        lead: dimensions that the reducer adds in front.
    """

    dims: tuple[int, ...] | None
    feature: bool = False
    keepdim: bool = False
    lead: Shape = ()

    def array(self, fn: Reducer, leaf: Array, ndim: int) -> Array:
        if not self.feature:
            return as_array(fn(leaf, self.dims, self.keepdim))
        size = math.prod(leaf.shape[ndim:])
        return as_array(fn(leaf.reshape((*leaf.shape[:ndim], size)), -1, False))

    def size(self, size: Shape) -> Shape:
        if self.feature:
            return self.lead + size
        if self.dims is None and not self.keepdim:
            return self.lead
        reduced = range(len(size)) if self.dims is None else self.dims
        if self.keepdim:
            return self.lead + tuple([1 if i in reduced else n for i, n in enumerate(size)])
        return self.lead + tuple([n for i, n in enumerate(size) if i not in reduced])

    def names(self, names: Names) -> Names:
        if names is None:
            return None
        first: list[str | None] = [None] * len(self.lead)
        if self.feature or self.keepdim:
            return first + names
        reduced = range(len(names)) if self.dims is None else self.dims
        rest = [name for i, name in enumerate(names) if i not in reduced]
        return first + rest if any(rest) else None


def scope_of(td: Container, dim: object, keepdim: bool, lead: Shape = ()) -> Scope:
    """Parse `dim`: not given or None, an int, several ints, or "feature".

    Raises:
        IndexError: a dimension is not a batch dimension.
        TypeError: `dim` has another type, or is "feature" with `keepdim`.
        ValueError: a dimension is named twice.
    """
    if dim is MISSING or dim is None:
        return Scope(None, False, keepdim, lead)
    if type(dim) is int:
        return Scope((batch_dim(td, dim),), False, keepdim, lead)
    if isinstance(dim, str):
        if dim != FEATURE:
            raise TypeError(f"dim must be an int, a tuple of ints or 'feature', got {dim!r}.")
        if keepdim:
            raise TypeError("dim='feature' is incompatible with keepdim=True.")
        return Scope(None, True, False, lead)
    given = [dim] if isinstance(dim, int | np.integer) else list(dim) if isinstance(dim, Iterable) else []
    if not given or not all(isinstance(d, int | np.integer) for d in given):
        raise TypeError(f"dim must be an int, a tuple of ints or 'feature', got {dim!r}.")
    dims = tuple(batch_dim(td, int(d)) for d in given)
    if len(set(dims)) != len(dims):
        raise ValueError(f"dim names a dimension twice: {dim!r}.")
    return Scope(dims, False, keepdim, lead)


def batch_dim(td: Container, dim: int) -> int:
    ndim: int = td.ndim
    if not -ndim <= dim < ndim:
        raise IndexError(f"Incompatible dim {dim} for tensordict with batch dims {ndim}.")
    return dim % ndim


def reduced(td: Container, name: str, fn: Reducer, scope: Scope) -> Any:
    """A dense, unlocked TensorDict of all reduced arrays.

    Non-tensor data shared by the batch is kept. Per-element objects cannot be reduced and are left out,
    unless the batch size stays the same.
    """
    dims, keepdim, feature = scope.dims, scope.keepdim, scope.feature

    def array(entry: object, node: Container) -> Any:
        if type(entry) is np.ndarray and not feature:
            out = fn(entry, dims, keepdim)
            return out if type(out) is np.ndarray else as_array(out)
        if isinstance(entry, UnbatchedTensor):
            # For an unbatched array, all() and any() reduce its elements; other reductions of the batch keep
            # it.
            own = np.asarray(fn(np.asarray(entry), None, False)) if name in ("all", "any") else entry
            return UnbatchedTensor(own, scope.size(node.batch_size))
        return unwrap(scope.array(fn, wrap(entry), node.ndim))

    def payload(entry: Any, node: Container) -> Any:
        size = node.batch_size
        shape = scope.size(size)
        if isinstance(entry, NonTensorData):
            return entry._rebatch(shape)
        return entry._shallow_copy() if shape == size else None

    def node(old: Any, entries: dict[str, Any]) -> Any:
        return old._make(entries, scope.size(old.batch_size), old.device, scope.names(old._names))

    return map_tree(td, array, payload, node, partial(dense, name=name))


def dense(td: Container, name: str) -> Any:
    """The dense form of a lazy stack.

    Raises:
        RuntimeError: parts of a lazy stack differ in shape.
    """
    try:
        return td.contiguous()
    except RuntimeError as error:
        raise RuntimeError(
            f"{name} requires this object to be cast to a regular TensorDict, which its ragged "
            "entries prevent."
        ) from error


def joined(td: Container, name: str, dim: Any) -> Array:
    """All arrays joined: flattened without `dim`, along features for "feature", else along (the first) `dim`.

    Raises:
        ValueError: there is no array.
        RuntimeError: shapes do not match.
    """
    if dim is MISSING or dim is None:
        pieces = [as_array(computed(wrap(leaf))).reshape(-1) for leaf in leaves(td)]
        axis = 0
    else:
        found = list(leaves(map_tree(td, keep, dense=partial(dense, name=name))))
        if isinstance(dim, str):
            ndim = td.ndim
            pieces = [x.reshape((*x.shape[:ndim], math.prod(x.shape[ndim:]))) for x in found]
            axis = -1
        else:
            pieces, axis = found, dim if isinstance(dim, int) else dim[0]
    if not pieces:
        raise ValueError(f"{name}(reduce=True) needs at least one array, got a TensorDict without any.")
    try:
        return np.concatenate([as_array(computed(wrap(piece))) for piece in pieces], axis)
    except ValueError as error:
        shapes = [piece.shape for piece in pieces]
        raise RuntimeError(f"{name}(reduce=True) along dim {dim}: shapes {shapes} do not fit.") from error


def with_keys(td: Container, transform: Callable[[Any], Any]) -> Any:
    """The entries of `td` under keys transformed by `transform`, at every level."""
    out = td._with({})
    for key, entry in td._items():
        node = None if isinstance(entry, NonTensorBase) else td._as_node(entry)
        out._set_path(
            require_path(transform(key)), entry if node is None else with_keys(node, transform), False
        )
    return out


_ARGUMENTS = """
        Args:
            dim: batch dimension(s), negative ones count from the last batch dimension; "feature" for
                the features of every entry; without it every array is reduced to one number.
            keepdim: keep reduced dimensions with size 1.
            {option}reduce: join the arrays of all entries first, and return one array.
            key_transform: gives the key of a result from the key of its entry, at every level.

        Raises:
            IndexError: `dim` is not a batch dimension.
            RuntimeError: entries of a lazy stack are ragged.
        """


def _documented(method: Any, name: str, what: str, option: str = "") -> AnyMethod:
    return described(method, name, f"{what}\n{_ARGUMENTS.format(option=option)}")


def _run(
    td: Container, name: str, fn: Reducer, dim: object, keepdim: bool, reduce: bool | None,
    key_transform: Callable[[Any], Any] | None = None, lead: Shape = (),
) -> Any:  # fmt: skip
    if reduce:
        return _run_joined(td, name, fn, dim, keepdim)
    out = reduced(td, name, fn, scope_of(td, dim, keepdim, lead))
    return out if key_transform is None else with_keys(out, key_transform)


def _run_joined(td: Container, name: str, fn: Reducer, dim: object, keepdim: bool) -> Any:
    scope = scope_of(td, dim, keepdim)
    array = joined(td, name, FEATURE if scope.feature else scope.dims)
    return unwrap(as_array(fn(array, -1 if scope.feature else scope.dims, keepdim)))


def _with_dtype(name: str, make: Callable[[Any], Reducer], what: str) -> AnyMethod:
    """Methods with an argument `dtype`."""
    plain = make(None)

    def method(
        self: Any, dim: object = MISSING, keepdim: bool = False, *, dtype: DTypeLike | None = None,
        reduce: bool | None = None, key_transform: Callable[[Any], Any] | None = None,
    ) -> Any:  # fmt: skip
        fn = plain if dtype is None else make(as_dtype(dtype))
        return _run(self, name, fn, dim, keepdim, reduce, key_transform)

    return _documented(method, name, what, "dtype: dtype of the computation and of the result.\n            ")


def _with_correction(name: str, root: bool, what: str) -> AnyMethod:
    """Methods with an argument `correction`, which NumPy calls ddof."""

    def method(
        self: Any, dim: object = MISSING, keepdim: bool = False, *, correction: float = 1,
        reduce: bool | None = None, key_transform: Callable[[Any], Any] | None = None,
    ) -> Any:  # fmt: skip
        return _run(self, name, over.variance(correction, root), dim, keepdim, reduce, key_transform)

    option = "correction: subtracted from the number of elements in the denominator.\n            "
    return _documented(method, name, what, option)


def _plain(name: str, fn: Reducer, what: str) -> AnyMethod:
    """Methods without further arguments."""

    def method(
        self: Any, dim: object = MISSING, keepdim: bool = False, *, reduce: bool | None = None,
        key_transform: Callable[[Any], Any] | None = None,
    ) -> Any:  # fmt: skip
        return _run(self, name, fn, dim, keepdim, reduce, key_transform)

    return _documented(method, name, what)


def _extremes(name: str, fns: tuple[Reducer, Reducer], what: str) -> AnyMethod:
    """Methods that return values and indices."""
    value, where = fns

    def method(
        self: Any, dim: object = MISSING, keepdim: bool = False, *, reduce: bool | None = None,
        return_indices: bool = True,
    ) -> Any:  # fmt: skip
        values = _run(self, name, value, dim, keepdim, reduce)
        if dim is MISSING or dim is None or not return_indices:
            return values
        return Extremes(values, _run(self, name, where, dim, keepdim, reduce))

    return described(method, name, f"{what}\n{_EXTREMES}")


_EXTREMES = """
        Args:
            dim: batch dimension(s), or "feature"; without it every array is reduced to one number.
            keepdim: keep reduced dimensions with size 1.
            reduce: join the arrays of all entries first, and return arrays.
            return_indices: with `dim`, return `(values, indices)`, not only the values. Over several
                dimensions the indices are row-major.

        Raises:
            IndexError: `dim` is not a batch dimension.
            RuntimeError: entries of a lazy stack are ragged.
        """


def _truth(name: str, fns: tuple[Reducer, Callable[[Any], bool]], what: str) -> AnyMethod:
    """Methods that return one bool for all arrays, unless a dimension is given."""
    fn, found = fns

    def method(self: Any, dim: object = None, keepdim: bool = False) -> Any:
        if dim is None or dim is MISSING:
            return found(bool(fn(wrap(leaf), None, False)) for leaf in leaves(self))
        try:
            scope = scope_of(self, dim, keepdim)
        except IndexError as error:
            raise RuntimeError(
                "dim must be greater than or equal to -tensordict.batch_dims and smaller than "
                f"tensordict.batch_dims, got dim={dim} for {self.ndim} batch dims."
            ) from error
        return reduced(self, name, fn, scope)

    return described(method, name, what)


_ALL = """Whether every element is true: a bool over all arrays, or a TensorDict over `dim`.

        Args:
            dim: batch dimension(s), or "feature".
            keepdim: keep reduced dimensions with size 1.

        Raises:
            RuntimeError: `dim` is not a batch dimension.

        Example:
            >>> import numpy as np
            >>> from lite import TensorDict
            >>> td = TensorDict({"a": np.array([True, False])}, batch_size=[2])
            >>> td.all(), td.any(), td.all(dim=0)["a"]
            (False, True, array(False))
        """

_MAX, _MIN = over.extreme(np.maximum), over.extreme(np.minimum)
_ARGMAX, _ARGMIN = over.position(np.argmax), over.position(np.argmin)


class _Row(NamedTuple):
    """A row of the table: the family of the arguments, its parameters, the docstring, NumPy's function."""

    family: Callable[[str, Any, str], AnyMethod]
    fn: Any
    doc: str
    numpy: Callable[..., Any] | None = None


_ROWS = {
    "sum": _Row(_with_dtype, partial(over.total, np.add), "Sum of every array.", np.sum),
    "prod": _Row(_with_dtype, partial(over.total, np.multiply), "Product of every array.", np.prod),
    "mean": _Row(_with_dtype, over.mean, "Mean of every array; of integers in float64.", np.mean),
    "nansum": _Row(_with_dtype, over.nan_total, "Sum of every array with NaN counted as 0.", np.nansum),
    "nanmean": _Row(_with_dtype, over.nan_mean, "Mean of what is not NaN in every array.", np.nanmean),
    "std": _Row(_with_correction, True, "Standard deviation of every array.", np.std),
    "var": _Row(_with_correction, False, "Variance of every array.", np.var),
    "amax": _Row(_plain, _MAX, "Largest value of every array.", np.max),
    "amin": _Row(_plain, _MIN, "Smallest value of every array.", np.min),
    "argmax": _Row(_plain, _ARGMAX, "Position of the largest value, row-major over several dims.", np.argmax),
    "argmin": _Row(
        _plain, _ARGMIN, "Position of the smallest value, row-major over several dims.", np.argmin
    ),
    "max": _Row(_extremes, (_MAX, _ARGMAX), "Largest value of every array, and its position."),
    "min": _Row(_extremes, (_MIN, _ARGMIN), "Smallest value of every array, and its position."),
    "all": _Row(_truth, (over.every, all), _ALL, np.all),
    "any": _Row(_truth, (over.some, any), "Whether any element is true; see `all`.", np.any),
}


def _numpy_form(name: str, has_ddof: bool) -> Callable[..., Any]:
    """`np.sum(td, axis, keepdims=...)` as `td.sum(dim, keepdim)`."""

    def call(a: object, axis: object = None, *, keepdims: bool = False, **options: object) -> Any:
        if has_ddof:
            options["correction"] = options.pop("ddof", 0)
        return getattr(a, name)(MISSING if axis is None else axis, keepdims, **options)

    return call


for _name, _row in _ROWS.items():
    if _row.numpy is not None:
        implements(_row.numpy)(_numpy_form(_name, _row.family is _with_correction))


@implements(np.quantile)
def _numpy_quantile(
    a: Any, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False
) -> Any:
    return a.quantile(q, MISSING if axis is None else axis, keepdims, interpolation=method)


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
    row = _ROWS[name]
    return row.family(name, row.fn, row.doc)


def norm(
    td: Container,
    dim: object = MISSING,
    keepdim: bool = False,
    *,
    out: object = None,
    dtype: DTypeLike | None = None,
    reduce: bool | None = None,
    key_transform: Callable[[Any], Any] | None = None,
) -> Any:
    """Euclidean norm of every array.

    Args:
        dim: as in `sum`.
        keepdim: as in `sum`.
        out: TensorDict whose arrays receive the result, and which is returned; an array with `reduce`.
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
    return result if out is None else write_out(out, result, "norm", locked=False)


def quantile(
    td: Container,
    q: object,
    dim: object = MISSING,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    reduce: bool | None = None,
    key_transform: Callable[[Any], Any] | None = None,
) -> Any:
    """Quantiles of every array.

    Args:
        q: a number in [0, 1], or a 1-d array of them, which adds a new first batch dimension.
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


def logsumexp(td: Container, dim: object = None, keepdim: bool = False, *, out: object = None) -> Any:
    """`log(sum(exp(x)))` over batch dimensions (all of them unless given), without overflow.

    Over no dimension, as for a batch without dimensions, the result is `x`.

    Args:
        dim: batch dimension(s).
        keepdim: keep reduced dimensions with size 1.
        out: TensorDict whose arrays receive the result, and which is returned.

    Raises:
        ValueError: `dim` is not a batch dimension.

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
        raise ValueError(f"dim {dim} is incompatible with batch_size {td.batch_size}.") from error
    result = reduced(td, "logsumexp", log_sum_exp, scope)
    return result if out is None else write_out(out, result, "logsumexp", locked=False)
