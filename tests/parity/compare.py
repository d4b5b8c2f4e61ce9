"""Run the same program on lite and on tensordict, and compare what comes out."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensordict
import torch
from parity.outcomes import assert_agree

import lite

# NumPy and torch report the same mistake with different built-in exceptions.
SAME_ERRORS = {
    ("ValueError", "RuntimeError"),  # a shape that does not broadcast
    ("TypeError", "RuntimeError"),  # a dtype that an operation does not take
    ("UFuncTypeError", "RuntimeError"),
    ("_UFuncNoLoopError", "RuntimeError"),
    ("IndexError", "RuntimeError"),  # too many indices
    ("RuntimeError", "IndexError"),
    # two mistakes at once (shapes that differ, a dim out of range): each names one
    ("ValueError", "IndexError"),
    ("KeyError", "RuntimeError"),  # key sets that differ
}


class Side:
    """One of the two libraries under common names."""

    def __init__(self, lib: Any, leaf: Callable[[Any], Any]) -> None:
        self.lib = lib
        self.leaf = leaf

    def build(self, tree: Any) -> Any:
        """Build from {"batch_size": ..., "entries": {...}, "names": ..., "lock": ...}, or from a tuple.

        That is ("dense", batch_size, entries) or ("lazy", dim, [trees]).
        """
        if isinstance(tree, tuple):
            kind, size, content = tree
            if kind == "lazy":
                return self.lib.LazyStackedTensorDict(*map(self.build, content), stack_dim=size)
            tree = {"batch_size": size, "entries": content}
        entries = {key: self.value(value) for key, value in tree["entries"].items()}
        td = self.lib.TensorDict(entries, batch_size=tree["batch_size"], names=tree.get("names"))
        return td.lock_() if tree.get("lock") else td

    def value(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return self.leaf(value)
        kind = value[:1] if isinstance(value, tuple) else value if isinstance(value, dict) else ()
        return self.build(value) if kind in (("dense",), ("lazy",)) or "entries" in kind else value

    def index(self, index: Any) -> Any:
        if isinstance(index, tuple):
            return tuple(self.index(item) for item in index)
        return self.leaf(index) if isinstance(index, np.ndarray) else index


LITE = Side(lite, np.copy)
TORCH = Side(tensordict, lambda value: torch.from_numpy(value.copy()))


def plain(value: Any, nested: bool = False) -> Any:
    """The content of a result in one form for both libraries.

    Keys are sorted, because tensordict itself orders keys() and items() differently, and nested
    TensorDicts without content are left out: casts and arithmetic drop them there, and keep them here.
    """
    if isinstance(value, torch.Tensor):
        return value.detach().numpy()
    if lite.is_non_tensor(value) or tensordict.is_non_tensor(value):
        return {"objects": value.tolist(), "batch_size": tuple(value.batch_size)}
    if isinstance(value, lite.TensorDictBase | tensordict.TensorDictBase):
        entries = {key: plain(value.get(key), True) for key in sorted(value.keys())}
        entries = {key: item for key, item in entries.items() if not _is_empty(item)}
        return {
            "batch_size": tuple(value.batch_size),
            # Nested names are lost by many of tensordict's operations.
            "names": None if nested else list(value.names),
            # Without arrays tensordict takes other paths, which lose the lock, as some do for nodes.
            "locked": not nested
            and value.is_locked
            and any(isinstance(item, np.ndarray) for item in entries.values()),
            "entries": entries,
        }
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        items = {key: plain(value[key]) for key in sorted(value)}
        return {key: item for key, item in items.items() if not isinstance(item, dict) or item}
    return value


def _is_empty(item: Any) -> bool:
    return isinstance(item, dict) and item.get("entries") == {}


def outcome(action: Callable[[], Any]) -> tuple[Any, str | None]:
    """What an action gives, and the class of the error it raises."""
    try:
        return action(), None
    except Exception as error:
        return None, type(error).__name__


def assert_outcomes(got: tuple[Any, str | None], expected: tuple[Any, str | None], where: str) -> None:
    """Both gave the same result, or both raised an error of the same meaning."""
    assert (got[1] is None) == (expected[1] is None), f"{where}: lite {got}, tensordict {expected}"
    if got[1] is None:
        assert_agree(plain(got[0]), plain(expected[0]), where, rtol=2e-5)
    else:
        pair = (got[1], expected[1])
        assert got[1] == expected[1] or pair in SAME_ERRORS, (
            f"{where}: lite {got[1]}, tensordict {expected[1]}"
        )


def compare(action: Callable[[Side], Any], where: str = "") -> None:
    """Run an action on both sides; the same result, or errors of the same meaning."""
    mine, theirs = (outcome(functools.partial(action, side)) for side in (LITE, TORCH))
    assert_outcomes(mine, theirs, where)
