"""The same TensorDict tree in lite and in tensordict, and one plain form to compare both by."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lite

torch = pytest.importorskip("torch", reason="needs the parity extra")
tensordict = pytest.importorskip("tensordict", reason="needs the parity extra")


def array(shape: tuple[int, ...], seed: int, dtype: str = "int64") -> np.ndarray[Any, Any]:
    """Distinct values, so that a misplaced row shows."""
    size = int(np.prod(shape))
    return (np.arange(size) + 1000 * seed).reshape(shape).astype(dtype)


class Side:
    """One of the two libraries under common names."""

    def __init__(self, library: Any, leaf: Callable[[Any], Any]) -> None:
        self.library = library
        self.leaf = leaf

    def build(self, tree: Any) -> Any:
        """Build from ("dense", batch_size, entries) or ("lazy", dim, [trees])."""
        kind, size, content = tree
        if kind == "lazy":
            return self.library.LazyStackedTensorDict(*map(self.build, content), stack_dim=size)
        entries = {key: self.value(value) for key, value in content.items()}
        return self.library.TensorDict(entries, batch_size=size)

    def value(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return self.leaf(value)
        return self.build(value) if isinstance(value, tuple) and value[0] in ("dense", "lazy") else value

    def index(self, index: Any) -> Any:
        if isinstance(index, tuple):
            return tuple(self.index(item) for item in index)
        return self.leaf(index) if isinstance(index, np.ndarray) else index


LITE = Side(lite, lambda value: value.copy())
TORCH = Side(tensordict, lambda value: torch.from_numpy(value.copy()))


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
