"""The same TensorDict tree in lite and in tensordict, and one plain form to compare both by."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensordict
import torch
from parity.compare import LITE, TORCH, Side

import lite


def array(shape: tuple[int, ...], seed: int, dtype: str = "int64") -> np.ndarray[Any, Any]:
    """Distinct values, so that a misplaced row shows."""
    size = int(np.prod(shape))
    return (np.arange(size) + 1000 * seed).reshape(shape).astype(dtype)


def plain(value: Any) -> Any:
    """Batch size, names and every entry, as plain Python; ragged leaves as nested lists of rows."""
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return ("array", value.shape, value.tolist())
    if isinstance(value, torch.Tensor):
        return ("array", tuple(value.shape), value.tolist())
    if lite.is_non_tensor(value) or tensordict.is_non_tensor(value):
        return ("objects", value.tolist())
    if hasattr(value, "batch_size"):
        entries = {key: plain(entry(value, key)) for key in sorted(value.keys())}
        return (tuple(value.batch_size), list(value.names), entries)
    return value


def entry(td: Any, key: str) -> Any:
    try:
        return td.get(key)
    except RuntimeError:
        return elements(td, key)


def elements(td: Any, key: str) -> Any:
    """A ragged leaf by batch element, whatever the order in which it is stacked."""
    return [elements(row, key) for row in td.unbind(0)] if td.batch_dims else td.get(key)


def outcome(action: Callable[[Side], Any], side: Side) -> Any:
    """What an action gives, or the kind of error it raises."""
    try:
        return plain(action(side))
    except Exception as error:
        return ("error", type(error).__name__)


def same(action: Callable[[Side], Any]) -> None:
    """Run an action on both sides; results must be equal, and errors of one class."""
    expected, got = outcome(action, TORCH), outcome(action, LITE)
    assert got == expected, f"lite gives {got}, tensordict {expected}"
