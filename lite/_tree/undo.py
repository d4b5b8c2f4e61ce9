"""`with td.view(...) as v:` - work on another form of a TensorDict; leaving writes the result back.

A result of a shape operation remembers its source (weakly) and how to come back. That is one tuple in a
slot: nothing is inverted, and nothing looked up, unless the result is used in a `with` statement.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from weakref import ref

from lite._tree.batch_ops import BatchOp

T = TypeVar("T", bound=Any)

# (result after the body, source) -> the result in the form of the source
Inverse = Callable[[Any, Any], Any]


class Leave:
    """What leaving a `with` statement does, where that is more than writing a result to its source."""

    __slots__ = ()

    def leave(self, failed: bool) -> None:
        """Called once per `with`; `failed` if the body raised."""
        raise NotImplementedError


def shaped(td: T, op: BatchOp) -> T:
    """The result of an operation that a `with` statement can undo."""
    out: T = td._run(op)
    out._origin = (ref(td), op)
    if out._locked:
        out._before = None
    return out


def unchanged(td: T) -> T:
    """Self as the result of an operation that changes nothing: leaving a `with` does nothing, too."""
    td._origin = None
    td._before = None
    return td


def remember(td: Any, out: T, inverse: Inverse) -> T:
    """Note on a result of `td` how to come back to the form of `td`."""
    out._origin = None if out is td else (ref(td), inverse)
    out._before = None
    return out


def enter(td: T) -> T:
    """Enter the form that the last operation gave: leaving undoes it.

    After `lock_` and `unlock_` the state from before is restored, also when the body raises. After
    shape operations, `flatten_keys`, `unflatten_keys` and `to`, the entries are brought back to the
    form of the source and written to it (into its arrays if it is locked), unless the body raises.
    After `to_module` the module gets its own parameters back, also when the body raises.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> td = TensorDict({"a": np.arange(3)}, batch_size=[3])
        >>> with td.view(3, 1) as column:
        ...     column["b"] = np.ones((3, 1))
        >>> td["b"].shape
        (3,)
    """
    before = getattr(td, "_before", None)
    origin = getattr(td, "_origin", None) if before is None else None
    td._contexts = [*getattr(td, "_contexts", ()), (before, origin)]
    td._before = None
    return td


def leave(td: Any, kind: type[BaseException] | None, *error: object) -> None:
    """Leave a `with` statement; see `enter`."""
    before, origin = td._contexts.pop()
    if before is not None:
        td.is_locked = before
        td._before = None
    if isinstance(origin, Leave):
        origin.leave(kind is not None)
        return
    if origin is None or kind is not None:
        return
    source = origin[0]()
    if source is not None and source is not td:
        _write_back(td, source, origin[1])


def _write_back(td: Any, source: Any, inverse: BatchOp | Inverse) -> None:
    if isinstance(inverse, BatchOp):
        if td.batch_size[: len(inverse.shape)] != inverse.shape:
            raise RuntimeError(
                f"the batch size became {td.batch_size} inside the `with` statement, so that nothing "
                f"can be written back: it was {inverse.shape}."
            )
        result = td._run(inverse.inverse(source.batch_size))
    else:
        result = inverse(td, source)
    if source.is_locked:
        source.update_(result)
    else:
        source.update(result)


def unflattened(separator: str) -> Inverse:
    return lambda td, source: td.unflatten_keys(separator)


def flattened(separator: str) -> Inverse:
    return lambda td, source: td.flatten_keys(separator)


def as_before(td: Any, source: Any) -> Any:
    """The entries on the source's device, and in the source's dtypes where it has the entry."""
    out = td if td.device == source.device else td._on(source.device)

    def cast(name: Any, leaf: Any) -> Any:
        old = source.get(name, None)
        return leaf if getattr(old, "dtype", None) is None else leaf.astype(old.dtype, copy=False)

    return out.named_apply(cast, nested_keys=True, filter_empty=False)
