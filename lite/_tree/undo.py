"""`with td.view(...) as v:`: the body works on another form of a TensorDict, and the exit writes it back.

The result of a shape operation refers weakly to its source and to the operation, in one slot. The inverse is
computed only if the result is used in a `with` statement.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from weakref import ref

from lite._tree.batch_ops import BatchOp

T = TypeVar("T", bound=Any)

# fn(result after the body, source) gives the result in the form of the source
Inverse = Callable[[Any, Any], Any]


class Leave:
    """An exit of a `with` statement that does more than write a result to its source."""

    __slots__ = ()

    def leave(self, failed: bool) -> None:
        """Called once per `with`, and again where an interrupt came; `failed`: whether the body raised."""
        raise NotImplementedError


def shaped(td: T, op: BatchOp | None) -> T:
    """The result of an operation, or self for None, prepared to be undone by a `with` statement."""
    if op is None:
        td._origin = td._before = None
        return td
    out: T = td._run(op)
    out._origin = (ref(td), op)
    if out._locked:
        out._before = None
    return out


def remember(td: Any, out: T, inverse: Inverse) -> T:
    """Store in a result of `td` how to restore the form of `td`."""
    out._origin = None if out is td else (ref(td), inverse)
    out._before = None
    return out


def enter(td: T) -> T:
    """Enter a `with` statement, whose exit undoes the last operation.

    After `lock_` and `unlock_` the exit restores the previous lock, also if the body raises. After shape
    operations, `flatten_keys`, `unflatten_keys` and `to`, it converts the entries to the form of the source
    and writes them to it (into its arrays if it is locked), unless the body raises. After `to_module` it
    gives the module its own parameters back, also if the body raises.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> td = TensorDict({"a": np.arange(3)}, batch_size=[3])
        >>> with td.view(3, 1) as column:
        ...     column["b"] = np.ones((3, 1))
        >>> td["b"].shape
        (3,)
    """
    try:
        before = getattr(td, "_before", None)
        origin = getattr(td, "_origin", None) if before is None else None
        td._contexts = [*getattr(td, "_contexts", ()), (before, origin)]
        td._before = None
        return td
    except KeyboardInterrupt:  # there is no block that would be left
        _restore(td)
        raise


def _restore(td: Any) -> None:
    """Run the exit that an interrupt kept from its end, if it is a `Leave`."""
    origin = getattr(td, "_origin", None)
    if isinstance(origin, Leave):
        origin.leave(True)


def leave(td: Any, kind: type[BaseException] | None, *error: object) -> None:
    """Leave a `with` statement; see `enter`."""
    try:
        before, origin = td._contexts[-1]
        if before is not None:
            td.is_locked = before
            td._before = None
        if isinstance(origin, Leave):
            origin.leave(kind is not None)
            return
    except KeyboardInterrupt:
        _restore(td)
        raise
    finally:
        td._contexts.pop()
    if origin is None or kind is not None:
        return
    source = origin[0]()
    if source is not None and source is not td:
        _write_back(td, source, origin[1])


def _write_back(td: Any, source: Any, inverse: BatchOp | Inverse) -> None:
    if isinstance(inverse, BatchOp):
        if td.batch_size[: len(inverse.shape)] != inverse.shape:
            raise RuntimeError(
                f"the batch size changed from {inverse.shape} to {td.batch_size} inside `with`, "
                "so the entries cannot be written back."
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
    """The entries moved to the source's device and cast to the dtypes of the source's entries."""
    out = td if td.device == source.device else td._on(source.device)

    def cast(name: Any, leaf: Any) -> Any:
        old = source.get(name, None)
        return leaf if getattr(old, "dtype", None) is None else leaf.astype(old.dtype, copy=False)

    return out.named_apply(cast, nested_keys=True, filter_empty=False)
