"""Values of a state dict: what can take the place of an array, and what puts arrays back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from lite._arrays.dtypes import is_inexact, is_numeric
from lite._arrays.types import raw
from lite._tree.collection import TensorCollection
from lite.nn._modules.meta import MetaArray
from lite.nn._modules.parameter import Parameter


def checked(value: Any, current: Any, assign: bool) -> tuple[Any, str | None]:
    """The value as an array (or Parameter) that can take the place of `current`, or what is wrong with it."""
    wanted = tuple(current.shape)
    if isinstance(current, TensorCollection) or isinstance(value, TensorCollection):
        return value, _tree_problem(value, current)
    if not isinstance(value, Parameter | np.ndarray | MetaArray):
        if not hasattr(value, "__array__") or not hasattr(value, "shape"):
            return None, f"expected an array, got {type(value).__name__}."
        value = np.asarray(value)
    if not assign and isinstance(raw(value), MetaArray):
        return None, "the state dict has an array without data (meta device), which only assign=True takes."
    shape = tuple(value.shape)
    if shape == (1,) and wanted == ():
        value = value.reshape(())
    elif shape != wanted:
        return None, f"size mismatch: the state dict has shape {shape}, the module has shape {wanted}."
    return _typed(value, current, assign)


def _typed(value: Any, current: Any, assign: bool) -> tuple[Any, str | None]:
    """The value with a dtype that can take the place of `current`'s, or what is wrong with it."""
    if value.dtype.kind != current.dtype.kind and not is_numeric(value.dtype):
        return None, f"expected an array of numbers, got the dtype {value.dtype}."
    if not assign:
        # Here, where what fails has changed nothing yet.
        return raw(value).astype(current.dtype, copy=False), None
    if isinstance(current, Parameter) and current.requires_grad and not is_inexact(value.dtype):
        return None, f"a Parameter that requires_grad takes floating or complex arrays, got {value.dtype}."
    return value, None


def remember_values(leaves: Iterable[Any]) -> Callable[[], None]:
    """What gives Parameters and arrays the content of now."""
    kept = []
    for leaf in leaves:
        array = raw(leaf)
        if isinstance(array, TensorCollection):
            kept.append((leaf, array, array.clone()))  # type: ignore[attr-defined]
        else:
            written = isinstance(array, np.ndarray) and array.flags.writeable
            kept.append((leaf, array, array.copy() if written else None))

    def restore() -> None:
        for leaf, array, content in kept:
            if isinstance(leaf, Parameter):
                leaf.data = array
            if isinstance(array, TensorCollection):
                array.update_(content)  # type: ignore[attr-defined]
            elif content is not None:
                np.copyto(array, content)

    return restore


def _tree_problem(value: Any, current: Any) -> str | None:
    """What keeps a TensorDict from taking the place of a buffer that is one."""
    if not (isinstance(current, TensorCollection) and isinstance(value, TensorCollection)):
        return f"expected {_kind(current)}, got {_kind(value)}."
    shapes, wanted = (
        {key: tuple(leaf.shape) for key, leaf in tree.items(True, True)}  # type: ignore[attr-defined]
        for tree in (value, current)
    )
    if shapes != wanted:
        return f"size mismatch: the state dict has entries of shapes {shapes}, the module {wanted}."
    return None


def _kind(value: Any) -> str:
    return "a TensorDict" if isinstance(value, TensorCollection) else "an array"
