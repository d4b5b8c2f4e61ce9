"""What modules ask of the TensorDicts that they read."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import TensorDictBase
from lite._arrays.namespace import as_constant
from lite._arrays.types import ArrayHolder, HostArray, Path, has_namespace, is_interpreted, stored
from lite._tree.collection import TensorCollection


def detached(value: Any) -> Any:
    """An array, a Parameter, or a TensorDict of them without gradients, over the same memory."""
    if isinstance(value, TensorCollection):
        data: Any = value
        return data.data.apply(detached, filter_empty=False)
    array: Any = value.data if isinstance(value, ArrayHolder) else value
    if has_namespace(array):
        return as_constant(array)
    if type(array) is np.ndarray or not isinstance(array, HostArray):
        return array
    return array.detach()


def require_tensordict(tensordict: Any, reader: str) -> None:
    """Raise TypeError unless `tensordict` is a TensorDict."""
    if not isinstance(tensordict, TensorDictBase):
        raise TypeError(f"{reader} needs a TensorDict, got {type(tensordict).__name__}.")


def require_time(tensordict: Any, reader: str) -> None:
    """Raise unless `tensordict` is a TensorDict with a batch dimension, the last of which is time."""
    require_tensordict(tensordict, reader)
    if not tensordict.ndim:
        raise ValueError(f"{reader} needs a TensorDict with a time dimension, got batch_size=().")


def is_differentiated(entry: Any) -> bool:
    """Whether a gradient is computed for an array."""
    return is_interpreted(entry) and type(stored(entry)) is not type(entry)


def require_array(td: TensorDictBase, path: Path, reader: str, differentiated: bool = False) -> NDArray[Any]:
    """The array at `path`; KeyError where there is no entry, TypeError where it is no array.

    One that a gradient is computed for is an array where the reader takes `differentiated` ones.
    """
    entry = td.get(path, None)
    if entry is None:
        raise KeyError(f"{reader} reads the entry {path}, which the TensorDict lacks.")
    if not isinstance(entry, np.ndarray) and (
        not is_interpreted(entry) or (is_differentiated(entry) and not differentiated)
    ):
        help = ""
        if has_namespace(entry):
            help = "; it computes with NumPy, outside of jax.jit and jax.grad: td.to('cpu'), or np.asarray(x)"
        elif isinstance(stored(entry), np.ndarray):
            help = "; td.detach() has its values"
        raise TypeError(f"{reader} reads the entry {path} as an array, got {type(entry).__name__}{help}.")
    return entry
