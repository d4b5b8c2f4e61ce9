"""NumPy functions that take TensorDicts: `np.stack(tds)`, `np.where(cond, td, other)`, ...

Axes are batch dimensions. What implements a function registers itself, beside the operation in `lite._ops`;
`__array_function__` looks it up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from lite._tree.protocol import Container

F = TypeVar("F", bound=Callable[..., Any])

_IMPLEMENTATIONS: dict[Callable[..., Any], Callable[..., Any]] = {}


def implements(numpy_function: Callable[..., Any]) -> Callable[[F], F]:
    """Register the decorated function as `numpy_function` of TensorDicts."""

    def register(fn: F) -> F:
        _IMPLEMENTATIONS[numpy_function] = fn
        return fn

    return register


def implements_with(numpy_function: Callable[..., Any], method: str) -> None:
    """Register a method of TensorDicts that takes the arguments of `numpy_function`, in their order."""

    def call(a: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(a, method)(*args, **kwargs)

    _IMPLEMENTATIONS[numpy_function] = call


def array_function(
    td: Container, func: Callable[..., Any], types: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Run lite's form of a NumPy function; TypeError (raised by NumPy) if it has none."""
    implementation = _IMPLEMENTATIONS.get(func)
    return NotImplemented if implementation is None else implementation(*args, **kwargs)


def no_array(td: Container, dtype: Any = None, copy: Any = None) -> Any:
    """TypeError: a TensorDict is many arrays (NumPy would take it for a sequence of its rows)."""
    raise TypeError(
        f"a {type(td).__name__} is no array but holds some, at the keys {list(td._keys())}: take one by its "
        "key, or all as td.to_dict(), or as one structured array, td.to_struct_array()."
    )
