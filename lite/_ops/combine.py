"""Functions of several TensorDicts: stack, concatenate, merge; and `where` and `pad` as functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from lite._arrays.device import wrap
from lite._arrays.types import as_array
from lite._containers.joining import CAT, MAYBE_DENSE, STACK, JoinFunctions, join
from lite._ops.out import write_out
from lite._tree.collection import TensorCollection, is_leaf_nontensor
from lite._tree.numpy_protocol import implements
from lite._tree.protocol import Container, class_registry

Item = TypeVar("Item")


def stack(input: Iterable[Item], dim: int = 0, *, out: object = None) -> Item:
    """Stack TensorDicts of equal batch size, keys and shapes along a new batch dimension.

    Every leaf is copied once, into one array per key; dtypes promote as in NumPy. Non-tensor data
    becomes one object per element, also where all objects are equal. Tensorclass instances of one
    class give an instance of that class. Lazy stacks of equal length give a lazy stack.

    Args:
        input: an iterable of TensorDicts (or of arrays, or of non-tensor data).
        dim: position of the new dimension, negative counts from the end of the result.
        out: a TensorDict of the result's batch size whose arrays receive the values; entries that it lacks
            are added. A lazy stack, along whatever dimension, takes rows that are ragged.

    Returns:
        A TensorDict (or array); `out` if given.

    Raises:
        RuntimeError: nothing to stack, or batch sizes, keys or shapes differ.
        IndexError: `dim` is out of range.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, stack
        >>> rows = [TensorDict(a=np.full(2, i)) for i in range(3)]
        >>> stack(rows)["a"].shape, stack(rows).batch_size
        ((3, 2), (3,))
    """
    items = _listed(input, "stack")
    return join(items, STACK, dim) if out is None else _stack_into(out, items, STACK, dim)


def cat(input: Iterable[Item], dim: int = 0, *, out: object = None) -> Item:
    """Concatenate TensorDicts along an existing batch dimension.

    Where an input is a lazy stack the result is one, too.

    Args:
        input: an iterable of TensorDicts (or of arrays, or of non-tensor data).
        dim: the batch dimension to join, negative counts from the end.
        out: a TensorDict of the result's batch size whose arrays receive the values; entries that it lacks
            are added.

    Raises:
        KeyError: the key sets differ.
        RuntimeError: nothing to concatenate, `dim` is out of range, or other dimensions differ.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, cat
        >>> td = TensorDict(a=np.zeros((2, 3)), batch_size=[2])
        >>> cat([td, td[:1]]).batch_size
        (3,)
    """
    items = _listed(input, "cat")
    result = join(items, CAT, dim)
    return result if out is None else write_out(out, result, "cat")


def lazy_stack(
    input: Iterable[Any],
    dim: int = 0,
    *,
    out: object = None,
    stack_dim_name: str | None = None,
    strict_shape: bool = False,
) -> Any:
    """Stack TensorDicts without copying: the result holds them and stacks entries when read.

    Arrays are stacked at once, non-tensor data becomes a `NonTensorStack`.

    Args:
        input: an iterable of TensorDicts; their keys and the shapes of their leaves may differ.
        dim: position of the new dimension, negative counts from the end of the result.
        out: a TensorDict of the result's batch size whose arrays receive the values; entries that it lacks
            are added. A lazy stack, along whatever dimension, takes rows that are ragged.
        stack_dim_name: name of the new dimension.
        strict_shape: raise if batch sizes differ.

    Raises:
        RuntimeError: `input` is empty, or numbers of batch dimensions or devices differ.
        IndexError: `dim` is out of range.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, lazy_stack
        >>> rows = lazy_stack([TensorDict(a=np.ones(n)) for n in (1, 2)])
        >>> rows.get("a", as_list=True)
        [array([1.]), array([1., 1.])]
    """

    functions = _side_by_side("lazy_stack", stack_dim_name=stack_dim_name, strict_shape=strict_shape)
    result = join(_listed(input, "lazy_stack"), functions, dim)
    return result if out is None else write_out(out, result, "lazy_stack")


def maybe_dense_stack(input: Iterable[Any], dim: int = 0, *, out: object = None) -> Any:
    """Stack each node densely if its keys and shapes allow it, else lazily.

    Args:
        input: an iterable of TensorDicts.
        dim: position of the new dimension, negative counts from the end of the result.
        out: a TensorDict of the result's batch size whose arrays receive the values; entries that it lacks
            are added. A lazy stack, along whatever dimension, takes rows that are ragged.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, maybe_dense_stack
        >>> rows = [TensorDict(a=1, n={"b": np.ones(n)}) for n in (1, 2)]
        >>> out = maybe_dense_stack(rows)
        >>> type(out).__name__, type(out["n"]).__name__
        ('TensorDict', 'LazyStackedTensorDict')
    """
    items = _listed(input, "maybe_dense_stack")
    return join(items, MAYBE_DENSE, dim) if out is None else _stack_into(out, items, MAYBE_DENSE, dim)


def dense_stack_tds(td_list: Any, dim: int | None = None) -> Any:
    """Stack a list of TensorDicts, or a lazy stack along its own dimension, to a dense TensorDict.

    Raises:
        RuntimeError: keys or shapes differ, or `dim` is not the stack dimension of a lazy stack.
    """
    node = Container._as_node(td_list)
    if isinstance(node, class_registry.lazy):
        if dim is not None and dim % node.ndim != node.stack_dim:
            raise RuntimeError(f"dim must be the stack dim {node.stack_dim} of the lazy stack, got {dim}.")
        return node._rewrap(td_list, stack(node.tensordicts, node.stack_dim))
    return stack(td_list, 0 if dim is None else dim)


def merge_tensordicts(*tensordicts: Any, callback_exist: Any = None) -> Any:
    """The union of the entries of several TensorDicts; the value of a key is from the first that has it.

    Args:
        tensordicts: at least two, of one batch size.
        callback_exist: function of all values of a key that every TensorDict has; or a mapping from key to
            such a function.

    Raises:
        RuntimeError: fewer than two TensorDicts, or batch sizes do not fit.
    """
    if len(tensordicts) < 2:
        raise RuntimeError(f"merge_tensordicts needs at least 2 tensordicts, got {len(tensordicts)}.")
    first = tensordicts[0]
    node = Container._as_node(first)
    out = (
        class_registry.dense({}, first.batch_size, first.device)
        if node._parts() is not None
        else node.empty()
    )
    for td in tensordicts:
        for key, value in td.items(True, True, is_leaf=is_leaf_nontensor):
            if key in out:
                continue
            values = [other.get(key) for other in tensordicts]
            fn = callback_exist.get(key) if isinstance(callback_exist, dict) else callback_exist
            if fn is not None and not any(v is None for v in values):
                value = fn(*values)
            out.set(key, value)
    return out


@implements(np.where)
def where(condition: object, input: object, other: object, *, out: object = None, pad: object = None) -> Any:
    """Entries of `input` where `condition` holds, of `other` elsewhere; one of them is a TensorDict.

    Example:
        >>> import lite
        >>> lite.where([True, False], lite.TensorDict({"a": [1, 2]}, batch_size=[2]), 0)["a"]
        array([1, 0])
    """
    if isinstance(input, Container):
        return input.where(condition, other, out=out, pad=pad)
    if isinstance(other, Container):
        return other.where(~as_array(wrap(condition)).astype(np.bool_), input, out=out, pad=pad)
    raise TypeError(f"input or other must be a TensorDict, got {type(input)} and {type(other)}.")


def pad(
    tensordict: Any, pad_size: Sequence[int], value: float = 0.0, inplace: bool = False, safe: bool = True
) -> Any:
    """Pad the batch of a TensorDict; see `TensorDict.pad`.

    Example:
        >>> import lite
        >>> lite.pad(lite.TensorDict({"a": [1, 2]}, batch_size=[2]), [0, 1], value=9)["a"]
        array([1, 2, 9])
    """
    return tensordict.pad(pad_size, value, inplace, safe)


def _listed(items: object, name: str) -> list[Any]:
    found = items.unbind(0) if isinstance(items, TensorCollection) else items
    if not isinstance(found, Iterable):
        raise TypeError(f"{name} expects an iterable of tensordicts, got {type(items)}.")
    out = list(found)
    if not out:
        raise RuntimeError("items cannot be empty")
    return out


def _stack_into(out: object, items: list[Any], functions: JoinFunctions, dim: int) -> Any:
    """Write a stack into `out`. A lazy `out` also takes ragged rows."""
    node = Container._as_node(out)
    lazy = node is not None and node._parts() is not None
    return write_out(
        out, join(items, _side_by_side(functions.name) if lazy else functions, dim), functions.name
    )


def _side_by_side(name: str, **options: object) -> JoinFunctions:
    """The functions of `lazy_stack`; `options` are those of the constructor of lazy stacks."""

    def nodes(items: list[Any], dim: int) -> Any:
        return class_registry.lazy(*items, stack_dim=dim, **options)

    return JoinFunctions(name, STACK.arrays, STACK.objects, nodes)


implements(np.stack)(lambda arrays, axis=0, out=None: stack(arrays, axis, out=out))
implements(np.concatenate)(lambda arrays, axis=0, out=None: cat(arrays, axis, out=out))
