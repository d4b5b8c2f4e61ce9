"""Call a function on every leaf: `apply`, `apply_`, `named_apply`.

They have a traversal of their own, because the function may drop entries and thereby nodes, nodes may count
as leaves, and results may be written to another tree after all calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lite._arrays.device import parse_device
from lite._arrays.types import Path, Shape
from lite._tree.collection import default_is_leaf
from lite._tree.lock import LOCK_ERROR
from lite._tree.nontensor import NonTensorBase, NonTensorData
from lite._tree.protocol import MISSING, Container, T, missing_key
from lite._tree.shape import as_shape
from lite._tree.unbatched import UnbatchedTensor
from lite._tree.walks import like_leaf
from lite._tree.writes import Update, Writes, fitting


@dataclass(slots=True)
class _Call:
    """The arguments of one `apply` that are the same at every node."""

    fn: Callable[..., Any]
    naming: str  # "": no name is passed, "last": the last key, "path": the whole key
    batch_size: Shape | None
    inplace: bool
    default: Any
    filter_empty: bool | None
    call_on_nested: bool
    is_leaf: Callable[[type], bool]
    writes: Writes | None = None  # to `out`, and in place if a plain copy is not enough
    # (array of self, result that needs no conversion).
    copies: list[tuple[Any, Any]] = field(default_factory=list)

    def leaf(self, path: Path, entry: object, others: list[Any]) -> Any:
        if not self.naming:
            return self.fn(entry, *others)
        name = path[-1] if self.naming == "last" or len(path) == 1 else path
        return self.fn(name, entry, *others)


def apply(
    td: Container,
    fn: Callable[..., Any],
    *others: object,
    batch_size: Sequence[int] | int | None = None,
    device: str | None = MISSING,
    names: Sequence[str | None] | None = MISSING,
    inplace: bool = False,
    default: object = MISSING,
    filter_empty: bool | None = None,
    propagate_lock: bool = False,
    call_on_nested: bool = False,
    out: object = None,
    is_leaf: Callable[[type], bool] | None = None,
    num_threads: int = 0,
) -> Any:
    """Build a TensorDict from `fn(leaf, *leaves of others)` for every leaf, nested ones included.

    Results of `fn` are converted and checked as by `set`; a key whose result is None is left out. Non-tensor
    data is kept and not passed to `fn`, unless `is_leaf` accepts it. Writes, in place or to `out`, happen
    after `fn` has been called for all leaves: if it raises, nothing is written.

    Args:
        fn: called with the leaf of self and the leaves of `others` under the same key.
        others: TensorDicts that have self's keys.
        batch_size: batch size of the result and of all its nodes, if `fn` changes it.
        device: device of the result.
        names: dimension names of the result.
        inplace: copy results into self's arrays and return self, or None if there are none; allowed
            when locked.
        default: the value of leaves that `others` lack.
        filter_empty: None drops nodes that received nothing, and returns None if nothing at all
            was set (unless self is empty); True does so for an empty self, too; False keeps
            everything.
        propagate_lock: lock the result if self is locked.
        call_on_nested: pass every direct entry to `fn`, also nested TensorDicts.
        out: TensorDict that receives the results in the place of its entries, which may be of other
            shapes and dtypes.
        is_leaf: predicate on an entry's type that decides what `fn` gets.
        num_threads: threads that call `fn` for several leaves at a time; 0 for none beside this one.

    Raises:
        KeyError: `others` lack a key and there is no `default`.
        RuntimeError: a result does not fit the batch size, or `out` is locked, or has another batch size or
            device than those given.
        ValueError: self is a lazy stack, and `inplace` is combined with `batch_size`, `device` or `names`.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> td = TensorDict({"a": np.arange(3), "n": {"b": np.ones(3)}}, batch_size=[3])
        >>> td.apply(lambda x, y: x + y, td)["a"]
        array([0, 2, 4])
        >>> td.apply(np.sum, batch_size=[])["n", "b"]
        array(3.)
    """
    size = None if batch_size is None else as_shape((batch_size,), "batch_size")
    predicate = default_is_leaf if is_leaf is None else is_leaf
    call = _Call(fn, "", size, inplace, default, filter_empty, call_on_nested, predicate)
    return _apply_root(td, call, others, device, names, propagate_lock, out, num_threads)


def apply_(td: T, fn: Callable[..., Any], *others: object, **kwargs: object) -> T | None:
    """Same as `apply(..., inplace=True)`: write the results into self's arrays.

    Returns:
        Self, or None if `fn` gave None for every array, as `apply` does.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> td = TensorDict(a=np.zeros(2)).lock_()
        >>> td.apply_(lambda x: x + 1)["a"]
        array([1., 1.])
    """
    return td.apply(fn, *others, inplace=True, **kwargs)


def named_apply(
    td: Container,
    fn: Callable[..., Any],
    *others: object,
    nested_keys: bool = False,
    batch_size: Sequence[int] | int | None = None,
    device: str | None = MISSING,
    names: Sequence[str | None] | None = MISSING,
    inplace: bool = False,
    default: object = MISSING,
    filter_empty: bool | None = None,
    propagate_lock: bool = False,
    call_on_nested: bool = False,
    out: object = None,
    is_leaf: Callable[[type], bool] | None = None,
    num_threads: int = 0,
) -> Any:
    """As `apply`, with the name of the leaf as first argument: `fn(name, leaf, *others)`.

    Args:
        fn: called with the last key of the leaf, or its whole key if `nested_keys`.
        nested_keys: pass the tuple of keys for nested leaves.

    The other arguments are those of `apply`.

    Example:
        >>> from lite import TensorDict
        >>> td = TensorDict({"a": 1, "n": {"b": 2}})
        >>> td.named_apply(lambda name, x: str(name), nested_keys=True)["n", "b"]
        "('n', 'b')"
    """
    size = None if batch_size is None else as_shape((batch_size,), "batch_size")
    predicate = default_is_leaf if is_leaf is None else is_leaf
    naming = "path" if nested_keys else "last"
    call = _Call(fn, naming, size, inplace, default, filter_empty, call_on_nested, predicate)
    return _apply_root(td, call, others, device, names, propagate_lock, out, num_threads)


def _apply_root(
    td: Container, call: _Call, others: Sequence[Any], device: Any, names: Sequence[str | None] | None,
    propagate_lock: bool, out: Any, num_threads: int,
) -> Any:  # fmt: skip
    nodes = [td._as_node(other) for other in others]
    if any(node is None for node in nodes):  # `in` would compare all their elements
        raise TypeError(f"others must be TensorDicts, got {[type(other).__name__ for other in others]}.")
    if out is not None:
        if out.is_locked:
            raise RuntimeError(LOCK_ERROR)
        if call.batch_size is not None and out.batch_size != call.batch_size:
            raise RuntimeError(
                f"batch_size and out.batch_size must be equal, got {call.batch_size} and {out.batch_size}."
            )
        if device is not MISSING and parse_device(device) != out.device:
            raise RuntimeError(f"device and out.device must be equal, got {device} and {out.device}.")
    changes = call.batch_size is not None or device is not MISSING or names is not MISSING
    if call.inplace and changes and td._parts() is not None:
        raise ValueError("a lazy stack takes no batch_size, device or names with inplace=True.")
    if num_threads < 0:
        raise ValueError(f"num_threads must be 0 or more, got {num_threads}.")
    if num_threads:
        call.fn = _called_ahead(td, call, nodes, num_threads)
    if call.inplace or out is not None:
        with Writes() as call.writes:
            result = _apply_node(td, call, nodes, out, ())
        for target, value in call.copies:
            target[...] = value
    else:
        result = _apply_node(td, call, nodes, None, ())
    if call.inplace or result is None or result is out:
        return td if call.inplace and result is not None else result
    if device is not MISSING:
        result = result.to(device) if device is not None else result.clear_device_()
    if names is not MISSING:
        result.names = names
    if propagate_lock and td.is_locked:
        result.lock_()
    return result


def _called_ahead(td: Container, call: _Call, others: list[Any], threads: int) -> Callable[..., Any]:
    """Call the function for all leaves in threads; returns a function that gives the results in order."""
    # Imported here, as it takes half as long as `import lite`.
    from concurrent.futures import ThreadPoolExecutor

    arguments: list[tuple[Any, ...]] = []
    # A first traversal collects the arguments of all calls; `append` returns None, so it builds nothing.
    collect = replace(call, fn=lambda *args: arguments.append(args), inplace=False)
    _apply_node(td, collect, others, None, ())
    with ThreadPoolExecutor(threads) as pool:
        results = iter(list(pool.map(lambda args: call.fn(*args), arguments)))
    return lambda *_: next(results)


def _apply_node(td: Container, call: _Call, others: list[Any], out: object, path: Path) -> Any:
    """The result of one node, or None if it is filtered out; None in `others` is a missing node."""
    stacked = td._parts()
    if stacked is not None:
        if call.batch_size is not None and not call.inplace:
            return _apply_node(td.contiguous(), call, others, out, path)
        return _apply_parts(td, call, others, out, path, *stacked)
    target: Any = td if call.inplace else out
    if target is None:
        target = td._with({})
        if call.batch_size is not None and call.batch_size != td.batch_size:
            target.names = None
            target.batch_size = call.batch_size
    # A new container gets all its entries at once.
    entries: dict[str, Any] | None = {} if target is not td and out is None else None
    received = False
    simple = not others and call.is_leaf is default_is_leaf
    for key, entry in list(td._items()):
        if simple and type(entry) is np.ndarray:
            if not call.naming:
                result = call.fn(entry)
            else:
                result = call.fn((*path, key) if path and call.naming == "path" else key, entry)
        else:
            result = _apply_entry(td, call, key, entry, others, target, (*path, key))
        if result is None:
            continue
        received = True
        if entries is not None:
            entries[key] = result
        elif not call.inplace:
            target._set_here(key, result, False, call.writes)
        elif result is not entry:
            ready = fitting(entry, result)
            if ready is None:
                td._set_here(key, result, True, call.writes)
            else:
                call.copies.append((entry, ready))
    if entries:
        target._fill(entries)
    if received or out is not None:
        return target
    dropped = call.filter_empty or (call.filter_empty is None and not td.is_empty())
    return None if dropped else target


def _apply_entry(
    td: Container, call: _Call, key: str, entry: object, others: list[Any], target: Any, path: Path
) -> Any:
    if call.batch_size is not None and isinstance(entry, UnbatchedTensor) and not call.inplace:
        return entry  # its shape does not depend on the batch size
    if call.call_on_nested or call.is_leaf(type(entry)):
        return like_leaf(entry, call.leaf(path, entry, [_other(call, other, key) for other in others]))
    node = td._as_node(entry)
    if node is None:
        if call.inplace or not isinstance(entry, NonTensorBase):
            return entry
        if call.batch_size is not None and isinstance(entry, NonTensorData):
            return entry._rebatch(call.batch_size)
        return entry._shallow_copy()
    nested = [td._as_node(_other(call, other, key, nested=True)) for other in others]
    held = target._get_entry(key) if target is not td else None
    onto = td._as_node(held)
    result = _apply_node(node, call, nested, onto, path)
    if result is None or call.inplace:
        return None if result is None else entry
    return td._rewrap(entry, result) if onto is None else held


def _other(call: _Call, other: Any, key: str, nested: bool = False) -> Any:
    entry = None if other is None else other._get_entry(key)
    if entry is not None:
        return entry
    if call.default is MISSING:
        raise missing_key(other, (key,))
    return None if nested else call.default


def _apply_parts(
    td: Container, call: _Call, others: list[Any], out: Any, path: Path, parts: Sequence[Any], dim: int
) -> Any:
    rows = [[None] * len(parts) if other is None else other.unbind(dim) for other in others]
    if out is not None and (out._parts() is None or out._parts()[1] != dim):
        result = _apply_parts(td, call, others, None, path, parts, dim)
        if result is not None and call.writes is not None:
            out._update(result, Update(call.writes))
        return out
    onto = [None] * len(parts) if out is None else out.unbind(dim)
    results = [
        _apply_node(part, call, [row[i] for row in rows], onto[i], path) for i, part in enumerate(parts)
    ]
    if call.inplace and all(result is None for result in results):
        return None
    if call.inplace or out is not None:
        return td if call.inplace else out
    if all(result is None for result in results):
        return None
    return td._from_parts([part.empty() if r is None else r for part, r in zip(parts, results, strict=True)])
