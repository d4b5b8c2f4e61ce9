"""Replace the content of a TensorDict by that of another, keeping the containers that there are."""

from __future__ import annotations

from typing import Any

from lite._tree.lock import LOCK_ERROR


def fill(out: Any, found: Any) -> Any:
    """Make the entries of `out` those of `found`; returns `out`.

    Raises:
        RuntimeError: `out` is locked, or `found` does not start with its batch size.
        ValueError: lazy stacks of different length.
    """
    target, source = getattr(out, "_tensordict", out), getattr(found, "_tensordict", found)
    if target.is_locked:
        raise RuntimeError(LOCK_ERROR)
    _check(target, source)
    _replace(target, source)
    return out


def _check(target: Any, source: Any) -> None:
    ours, theirs = target._parts(), source._parts()
    if ours is not None and theirs is not None and len(ours[0]) != len(theirs[0]):
        raise ValueError(f"cannot load {len(theirs[0])} stacked tensordicts into a stack of {len(ours[0])}.")
    size = target.batch_size
    if source.batch_size[: len(size)] != size:
        raise RuntimeError(
            f"batch dimension mismatch, got self.batch_size={size} and value.shape={source.batch_size}."
        )


def _replace(target: Any, source: Any) -> None:
    ours, theirs = target._parts(), source._parts()
    if ours is not None and theirs is not None:
        for mine, its in zip(ours[0], theirs[0], strict=True):
            _replace(mine, its)
    else:
        for key in list(target._keys()):
            if source._peek(key) is None:
                target._remove(key)
        for key, entry in source._items():
            mine, its = target._as_node(target._get_str(key)), target._as_node(entry)
            if mine is None or its is None or (mine._parts() is None) != (its._parts() is None):
                target._put(key, target._convert(entry))
            else:
                _check(mine, its)
                _replace(mine, its)
    target._source = getattr(source, "_source", None)
