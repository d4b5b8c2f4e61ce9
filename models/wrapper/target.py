"""Where a wrapper's results go: the input, a TensorDict that was given, or a new one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lite import LazyStackedTensorDict, NestedKey, TensorDict, lazy_stack
from lite.models.wrapper.options import Inplace


def choose_target(td: Any, out: Any, shape: tuple[int, ...], inplace: Inplace) -> Any:
    """The TensorDict to write results of a batch shape to.

    Raises:
        ValueError: ``out`` has another batch size.
        RuntimeError: the target is locked.
    """
    if out is not None:
        if tuple(out.batch_size) != shape:
            raise ValueError(f"tensordict_out must have batch size {shape}, got {tuple(out.batch_size)}")
        target = out
    elif inplace is True:
        target = td
    elif inplace == "empty":
        target = td.empty()
    else:
        target = TensorDict(batch_size=shape, device=td.device)
    if target.is_locked:
        raise RuntimeError("cannot write results: the TensorDict is locked")
    return target


def write(
    target: Any,
    written: Mapping[NestedKey, Any],
    *,
    replaced: Iterable[NestedKey],
    keys: Iterable[NestedKey],
    owned: bool,
) -> Any:
    """Remove the ``replaced`` entries and write those of ``keys``; returns the TensorDict that has them.

    Args:
        target: what to write to.
        written: results by key; "logits" is written whenever it is there.
        replaced: entries that are removed.
        keys: entries that are written.
        owned: nobody else has the target, so that it may become a lazy stack.
    """
    if isinstance(written.get("logits"), list) and not isinstance(target, LazyStackedTensorDict):
        if not owned:
            raise ValueError(
                "logits_only: logits of rows of different lengths fit only in a lazy stack: pass"
                " inplace=False, pad_output=True or a lazy stack"
            )
        target = _by_row(target)
    target.exclude(*replaced, inplace=True)
    for key in (*keys, "logits"):
        if key in written:
            target.set(key, written[key])
    return target


def _by_row(td: Any) -> Any:
    """A TensorDict as lazy stacks of its elements, whose leaves may be ragged."""
    return lazy_stack([_by_row(row) for row in td.unbind(0)]) if td.batch_size else td
