"""`vmap`: a function of one element as a function of many."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import lite._transforms.vmap.dispatch  # noqa: F401  # which gives mapped arrays their rules
from lite._arrays.types import ArrayHolder, HostArray, computed
from lite._containers.joining import CAT, join_column
from lite._ops.combine import cat
from lite._transforms.levels import numbers
from lite._transforms.vmap.array import BatchedArray, SharedArray
from lite._transforms.vmap.randomness import Map
from lite._transforms.vmap.running import generator_for, maps
from lite._transforms.vmap.tensordicts import AddBatchDim, RemoveBatchDim, add_batch_dim, remove_batch_dim
from lite._transforms.vmap.trees import Mismatch, broadcast_prefix, flatten, outline, unflatten
from lite._tree.collection import Entry, TensorCollection
from lite._tree.protocol import Container
from lite._tree.unbatched import UnbatchedTensor

_RANDOMNESS = ("error", "same", "different")


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that runs `func` for all elements along a dimension of its arguments, as one computation.

    `func` is called once, with arrays that have one dimension less and hold all elements. The outcome is that
    of a loop over the elements and a stack of the results. A NumPy function without a batching rule runs once
    for each element, with a warning. A TensorDict loses the batch dimension inside and gains it in results,
    with the name None. A lazy stack stays one, but is a TensorDict inside if mapped along its own dimension.
    What `func` sets in a TensorDict that is not mapped stays inside.

    Args:
        func: a function of arrays, TensorDicts, and nested lists, tuples, named tuples and dicts of them.
        in_dims: the dimension to map over of each positional argument, or None to share it. One int stands
            for all, and for all arrays within one. Keyword arguments are shared.
        out_dims: where the results have the dimension. None: a result that depends on no mapped argument.
        randomness: "error" refuses random draws, "same" gives all elements the same numbers, "different"
            others to each. Only lite's layers and distributions, and `numpy.random.Generator`s among the
            arguments, obey; other draws are the same for all elements.
        chunk_size: run so many elements at a time, to save memory.

    Raises:
        ValueError: in the call, in_dims or out_dims do not fit the arguments or results, sizes differ,
            nothing is mapped, or a result is not an array.
        RuntimeError: `func` branches on a mapped array, writes mapped values into an array that all elements
            share, or draws random numbers although `randomness` is "error".
        TypeError: `func` gives a mapped array to something that does not follow NumPy's protocols, such as
            a method of an ndarray (`array.dot(mapped)`; `np.dot(array, mapped)` works).

    Source:
        The interface of torch.vmap.

    Example:
        >>> import numpy as np
        >>> import lite
        >>> def distance(x, y):  # of two vectors
        ...     return np.sqrt(((x - y) ** 2).sum())
        >>> points = np.array([[0.0, 0.0], [3.0, 4.0]])
        >>> lite.vmap(distance, in_dims=(0, None))(points, np.zeros(2))
        array([0., 5.])
    """
    if randomness not in _RANDOMNESS:
        raise ValueError(f"randomness must be one of {_RANDOMNESS}, got {randomness!r}")
    if chunk_size is not None and (not isinstance(chunk_size, int) or chunk_size < 1):
        raise ValueError(f"chunk_size must be None or a positive int, got {chunk_size!r}")
    name = getattr(func, "__name__", type(func).__name__)

    @functools.wraps(func, updated=())
    def mapped(*args: Any, **kwargs: Any) -> Any:
        flat, plan = flatten(args)
        dims, size = _mapped_dims(name, in_dims, args, flat)

        def run(items: list[Any], size: int) -> Any:
            number = next(numbers)
            maps.running.append(Map(number, size, randomness))
            try:
                inside = [_inside(item, dim, number) for item, dim in zip(items, dims, strict=True)]
                shared = {key: _inside(item, None, number) for key, item in kwargs.items()}
                result = func(*unflatten(inside, plan), **shared)
            finally:
                maps.running.pop()
            found, out_plan = flatten(result)
            outs = _out_dims(name, out_dims, result)
            triples = zip(items, dims, inside, strict=True)
            stacks = [new for old, dim, new in triples if _is_stacked_along(old, dim)]
            outside = [
                _outside(name, item, dim, number, size, any(item is stack for stack in stacks))
                for item, dim in zip(found, outs, strict=True)
            ]
            return unflatten(outside, out_plan)

        if chunk_size is None or size <= chunk_size:
            return run(flat, size)
        chunks = []
        for start in range(0, size, chunk_size):
            stop = min(start + chunk_size, size)
            pairs = zip(flat, dims, strict=True)
            rows = [item if dim is None else _rows(item, dim, start, stop) for item, dim in pairs]
            chunks.append(run(rows, stop - start))
        return _joined(chunks, out_dims)

    return mapped


def _is_stacked_along(item: object, dim: int | None) -> bool:
    node = Container._as_node(item)
    parts = None if node is None else node._parts()
    return parts is not None and parts[1] == dim


def _mapped_dims(name: str, in_dims: Any, args: Any, flat: list[Any]) -> tuple[list[int | None], int]:
    """The dimension of each item, not negative, and the size of the mapped dimension."""
    call = f"vmap({name}, in_dims={in_dims})"
    if not isinstance(in_dims, tuple) and not _is_dim(in_dims):
        raise ValueError(
            f"{call}: in_dims must be an int, or a tuple (of tuples) with the structure of the arguments, "
            f"got {type(in_dims).__name__}."
        )
    if not args:
        raise ValueError(f"{call}: there are no positional arguments to map over.")
    given = _spread(call, "in_dims", in_dims, "arguments", args)
    dims: list[int | None] = []
    sizes: list[int] = []
    for item, dim in zip(flat, given, strict=True):
        if dim is None:
            dims.append(None)
            continue
        shape = _shape(item)
        if shape is None:
            raise ValueError(
                f"{call}: in_dims maps over a {type(item).__name__}, which is not an array; give it None."
            )
        if not -len(shape) <= dim < len(shape):
            allowed = f"needs one from {-len(shape)} to {len(shape) - 1}" if shape else "has no dimension"
            raise ValueError(f"{call}: in_dims has {dim} for an argument of shape {shape}, which {allowed}.")
        dims.append(dim % len(shape))
        sizes.append(shape[dim])
    if not sizes:
        raise ValueError(f"{call}: in_dims maps over no argument; at least one dimension must not be None.")
    if len(set(sizes)) > 1:
        raise ValueError(f"{call}: the mapped dimensions must have one size, got {sizes}.")
    return dims, sizes[0]


def _out_dims(name: str, out_dims: Any, result: object) -> list[int | None]:
    call = f"vmap({name}, out_dims={out_dims})"
    if isinstance(out_dims, tuple) and len(out_dims) == 1 and not isinstance(result, list | tuple | dict):
        out_dims = out_dims[0]
    return _spread(call, "out_dims", out_dims, "results", result)


def _spread(call: str, name: str, dims: Any, what: str, value: object) -> list[int | None]:
    """One dimension for each item of a value, from `in_dims` or `out_dims`."""
    try:
        return broadcast_prefix(dims, value, lambda dim: dim is None or _is_dim(dim))
    except Mismatch:
        raise ValueError(f"{call}: {name} has not the structure of the {what}, {outline(value)}.") from None
    except ValueError as error:
        raise ValueError(f"{call}: {name} must hold ints and None, got {error.args[0]!r}.") from None


def _is_dim(dim: Any) -> bool:
    return isinstance(dim, int | np.integer) and not isinstance(dim, bool)


def _is_array(item: object) -> bool:
    return isinstance(item, np.ndarray | np.generic | HostArray | ArrayHolder)


def _shape(item: Any) -> tuple[int, ...] | None:
    """Shape of an array, batch size of a TensorDict; None for anything else."""
    if isinstance(item, Entry):
        return item.batch_size
    return tuple(item.shape) if _is_array(item) else None


def _inside(item: Any, dim: int | None, number: int) -> Any:
    """An argument as the mapped function sees it."""
    if isinstance(item, Entry):
        if dim is None:
            return item._clone(False)
        inside: Any = item._run(RemoveBatchDim(item.batch_size, dim, number))
        return inside.lock_() if getattr(item, "is_locked", False) else inside
    if dim is not None:
        return remove_batch_dim(computed(item), dim, number)
    if type(item) is np.ndarray:
        return item.view(SharedArray)
    # Naming the class would import numpy.random, which a program without generators need not do.
    return generator_for(item) if hasattr(item, "bit_generator") else item


def _outside(name: str, item: Any, dim: int | None, number: int, size: int, stacked: bool) -> Any:
    """A result with the mapped dimension; `stacked` says that it stood for a lazy stack along it."""
    node = isinstance(item, Entry)
    if dim is None:
        if type(item) is BatchedArray and item.level == number:
            raise ValueError(
                f"vmap({name}): a result with out_dims=None must not depend on mapped arguments, as it would "
                "have another value for each element."
            )
        return item.view(np.ndarray) if type(item) is SharedArray else item
    shape = _shape(item)
    if shape is None:
        raise ValueError(
            f"vmap({name}): the mapped function must return arrays or TensorDicts, got {type(item).__name__}"
            "; out_dims=None returns another object as it is."
        )
    ndim = len(shape) + 1
    if not -ndim <= dim < ndim:
        raise ValueError(f"vmap({name}): out_dims has {dim} for a result that will have {ndim} dimensions.")
    if node:
        out = item._run(AddBatchDim(item.batch_size, dim % ndim, number, size))
        if not stacked:
            return out
        held = Container._as_node(out)
        stack = held.to_lazystack(dim)
        return Container._rewrap(out, stack.lock_() if held.is_locked else stack)
    return add_batch_dim(computed(item), dim % ndim, number, size)


def _rows(item: Any, dim: int, start: int, stop: int) -> Any:
    if isinstance(item, UnbatchedTensor):
        size = item.batch_size
        return item._rebatch((*size[:dim], stop - start, *size[dim + 1 :]))
    at = (*[slice(None)] * dim, slice(start, stop))
    return item[at]


def _joined(chunks: list[Any], out_dims: Any) -> Any:
    """Results of one chunk after the other, along the mapped dimension."""
    flats = [flatten(chunk)[0] for chunk in chunks]
    dims = _out_dims("chunks", out_dims, chunks[0])
    joined = []
    for column, dim in zip(zip(*flats, strict=True), dims, strict=True):
        if dim is None:
            joined.append(column[0])
        elif isinstance(column[0], TensorCollection):
            joined.append(cat(list(column), dim))
        elif isinstance(column[0], UnbatchedTensor):
            joined.append(join_column(list(column), CAT, dim))
        else:
            joined.append(np.concatenate(column, dim))
    return unflatten(joined, flatten(chunks[0])[1])
