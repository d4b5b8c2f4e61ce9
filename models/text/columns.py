"""Encoded texts as columns: padded, cut, as lists or arrays."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np


def collate(
    columns: dict[str, list[list[Any]]],
    *,
    single: bool,
    pad_token_id: int | None,
    padding_side: str,
    padding: bool | str,
    truncation: bool,
    max_length: int | None,
    return_attention_mask: bool = True,
    return_tensors: str | None,
) -> dict[str, Any]:
    """The result of encoding: `columns` by name, "input_ids" among them, each with as many numbers a row.

    Options are those of `Tokenizer.__call__`. With `single` the lists of the only row.
    """
    if padding not in (True, False, "longest", "max_length"):
        raise ValueError(f"padding must be a bool, 'longest' or 'max_length', got {padding!r}")
    if return_tensors not in (None, "np"):
        raise ValueError(f"return_tensors must be 'np' or None, got {return_tensors!r}")
    if (truncation or padding == "max_length") and max_length is None:
        raise ValueError("max_length must be given with truncation=True or padding='max_length'")
    side = check_side(padding_side)
    rows = columns["input_ids"]
    if return_attention_mask:
        columns = {"input_ids": rows, "attention_mask": [[1] * len(row) for row in rows], **columns}
    if truncation:
        columns = {key: [row[:max_length] for row in value] for key, value in columns.items()}
    if padding:
        lengths = [len(row) for row in columns["input_ids"]]
        width = max_length if padding == "max_length" else max(lengths, default=0)
        assert width is not None
        fills: dict[str, Any] = {"input_ids": pad_token_id, "offset_mapping": (0, 0)}
        if pad_token_id is None and any(length < width for length in lengths):
            raise ValueError("padding was asked for, but this tokenizer has no pad_token")
        columns = {
            key: [_pad(row, width, fills.get(key, 0), side) for row in value]
            for key, value in columns.items()
        }
    if return_tensors == "np":
        if len({len(row) for row in columns["input_ids"]}) > 1:
            raise ValueError("return_tensors='np' needs rows of one length: pass padding=True")
        width = len(columns["input_ids"][0]) if rows else 0
        return {
            key: np.asarray(value, np.int64).reshape(
                (len(rows), width, 2) if key == "offset_mapping" else (len(rows), width)
            )
            for key, value in columns.items()
        }
    return {key: value[0] for key, value in columns.items()} if single else dict(columns)


def check_side(side: str) -> Literal["left", "right"]:
    """`side`, which must be "left" or "right"."""
    if side == "left":
        return "left"
    if side == "right":
        return "right"
    raise ValueError(f"padding_side must be 'left' or 'right', got {side!r}")


def _pad(row: list[Any], width: int, fill: Any, side: str) -> list[Any]:
    filler = [fill] * (width - len(row))
    return filler + row if side == "left" else row + filler
