"""NumPy functions that take TensorDicts: `np.stack(tds)`, `np.where(cond, td, other)`, ...

Axes are batch dimensions. Implementations are registered with `@implements`, beside the operations in
`lite._ops`; `__array_function__` looks them up. So this package imports none of them.
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

    def call(a: object, *args: object, **kwargs: object) -> Any:
        return getattr(a, method)(*args, **kwargs)

    _IMPLEMENTATIONS[numpy_function] = call


def array_function(
    td: Container, func: Callable[..., Any], types: object, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Call the registered implementation of a NumPy function; NumPy raises TypeError if there is none."""
    implementation = _IMPLEMENTATIONS.get(func)
    return NotImplemented if implementation is None else implementation(*args, **kwargs)


def no_array(td: Container, dtype: object = None, copy: object = None) -> Any:
    """Raise TypeError for `np.asarray(td)`, which NumPy would convert as a sequence of rows."""
    raise TypeError(
        f"{type(td).__name__} cannot be converted to an array; its keys are {list(td._keys())}: read one by "
        "its key, all with td.to_dict(), or one structured array with td.to_struct_array()."
    )
