"""NumPy functions that take TensorDicts: `np.stack(tds)`, `np.where(cond, td, other)`, ...

The module functions of lite are the implementations; each registers itself here, and
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


def array_function(
    td: Container, func: Callable[..., Any], types: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Run lite's form of a NumPy function; TypeError (raised by NumPy) if it has none."""
    implementation = _IMPLEMENTATIONS.get(func)
    if implementation is None:
        # Only here, on first use: `import lite` needs none of them.
        from lite._ops import numpy_functions  # noqa: F401

        implementation = _IMPLEMENTATIONS.get(func)
    return NotImplemented if implementation is None else implementation(*args, **kwargs)
