"""Scoring in wrappers: temperatures, the ids that tokens were sampled from, choices, and entries to write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from lite import NestedKey
from lite.models.text.data import ChatHistory, Masks, Tokens
from lite.models.text.nesting import flatten, rows_of
from lite.models.text.rows import TokenRows
from lite.models.wrapper.input import Inputs, nested_key
from lite.models.wrapper.options import WrapperOptions
from lite.models.wrapper.output import Layout

# (offsets, ids): token t of a row was sampled from ids[offsets[t]:offsets[t + 1]], or from all ids if empty.
Support = tuple[NDArray[np.int64], NDArray[np.int32]]


def read_sampled(
    td: Any, given: Mapping[str, Any], options: WrapperOptions, rows: TokenRows
) -> tuple[list[float] | None, list[Support] | None]:
    """The temperature and the support of each row, as `lite.models.score` takes them; None for the raw model.

    Args:
        td: a TensorDict of any batch shape, with the recorded support in the `Sampling` at ``sampling_key``.
        given: "temperature", a number or one for each element of the batch, and "kept_ids", whether to read
            the recorded support.
        options: options of the wrapper.
        rows: the rows to score. The support belongs to the tokens at ``(tokens_key, "response")``, at their
            last occurrence in the row (a template may write more behind them). If the row does not have
            them, it belongs to the last tokens of the row.

    Raises:
        ValueError: no support is recorded, or it belongs to other tokens than those of the rows.
        TypeError: the temperature is not a number.
    """
    shape, temperature = tuple(td.batch_size), given.get("temperature")
    return (
        None if temperature is None else _temperatures(temperature, shape, len(rows.ids)),
        _supports(td, options, rows, len(shape)) if given.get("kept_ids") else None,
    )


def _temperatures(temperature: Any, shape: tuple[int, ...], count: int) -> list[float]:
    given = np.asarray(temperature)
    if given.dtype.kind not in "fiu":
        raise TypeError(f"temperature must be a number, or numbers of shape {shape}, got {temperature!r}")
    if given.shape not in ((), shape):
        raise ValueError(f"temperature must be one number or have the batch size {shape}, got {given.shape}")
    return [float(value) for value in np.broadcast_to(given, shape).reshape(count)]


def _supports(td: Any, options: WrapperOptions, rows: TokenRows, ndim: int) -> list[Support]:
    """The recorded support of each row, by the tokens of the whole row."""
    keys = [nested_key(options.sampling_key, name) for name in ("kept_offsets", "kept_ids")]
    parts = [td.get(key, None, as_list=True) for key in keys]
    if any(part is None for part in parts):
        raise ValueError(
            f"Expected the entries {keys[0]!r} and {keys[1]!r} (generating with kept_ids=True writes them),"
            f" but found keys: {sorted(map(str, td.keys(True)))}"
        )
    offsets, ids = (rows_of(part, ndim) for part in parts)
    if not len(offsets) == len(ids) == len(rows.ids):
        raise ValueError(f"{keys[0]!r} must have one row for each of {len(rows.ids)}, got {len(offsets)}")
    response = td.get(nested_key(options.tokens_key, "response"), None, as_list=True)
    responses = [None] * len(offsets) if response is None else rows_of(response, ndim)
    padded = not (isinstance(parts[0], list) and ndim)
    mask = td.get(nested_key(options.masks_key, "all_assistant_mask"), None, as_list=True)
    columns = rows.mask if mask is None else rows_of(mask, ndim)  # the record has the last of these columns
    masks = [row.astype(np.bool_) for row in columns] if padded else [None] * len(offsets)
    out = []
    for i, record in enumerate(zip(rows.rows, offsets, ids, responses, masks, strict=True)):
        try:
            out.append(_support(*record))
        except ValueError as error:
            raise ValueError(f"{keys[0]!r}, row {i}: {error}") from None
    return out


def _support(
    tokens: NDArray[np.int64],
    offsets: NDArray[np.int64],
    ids: NDArray[np.int32],
    response: NDArray[np.int64] | None,
    mask: NDArray[np.bool_] | None,
) -> Support:
    """The support of a whole row from the record of its response.

    Args:
        tokens: all tokens of the row.
        offsets, ids: the record of the response; with `mask`, it has columns of padding.
        response: the tokens of the record, to find their place in the row.
        mask: True for tokens, False for padding; the record has its last columns. None without padding.
    """
    counts = np.diff(offsets)
    if (counts < 0).any() or not len(offsets) or offsets[0] or offsets[-1] > len(ids):
        raise ValueError(f"offsets must ascend from 0 to the number of ids, {len(ids)}, got {offsets}")
    ids = ids[: offsets[-1]]
    if mask is not None:
        if len(mask) < len(counts):
            raise ValueError(f"the record is of {len(counts)} columns, but there are {len(mask)}")
        columns = np.flatnonzero(mask[len(mask) - len(counts) :])
        response = None if response is None or len(response) != len(counts) else response[columns]
        counts = counts[columns]
        if counts.sum() != len(ids):
            raise ValueError("there are kept ids of padding")
    count = len(counts)
    if count > len(tokens):
        raise ValueError(f"the record is of {count} tokens, but the row has {len(tokens)}")
    first = len(tokens) - count
    if count and response is not None and len(response) == count:
        starts = np.flatnonzero((sliding_window_view(tokens, count) == response).all(1))
        first = int(starts[-1]) if len(starts) else first
    row_counts = np.zeros(len(tokens), np.int64)
    row_counts[first : first + count] = counts
    _check_sampled(row_counts, ids, tokens)
    return np.concatenate([[0], np.cumsum(row_counts)]), ids


def _check_sampled(counts: NDArray[np.int64], ids: NDArray[np.int32], tokens: NDArray[np.int64]) -> None:
    """Raise ValueError if a token is not among the `counts[t]` ids that were recorded for it."""
    position = np.repeat(np.arange(len(tokens)), counts)  # of the token that each id was recorded for
    found = counts == 0
    found[position[tokens[position] == ids]] = True
    if not found.all():
        at = int((~found).argmax())
        raise ValueError(
            f"token {at}, {tokens[at]}, is not among the ids that it was drawn from: the record is of others"
            " (a text that is encoded again may give others; input_mode='tokens' scores what was drawn)"
        )


def per_row(choices: Any, ndim: int, count: int) -> list[list[Any]]:
    """The choices of each of `count` rows, as texts or lists of ids.

    Args:
        choices: one list for all rows, or one list for each, nested by the `ndim` dimensions of the batch.

    Raises:
        ValueError: there are no choices, or not one list for each row.

    Example:
        >>> per_row(["yes", "no"], 1, 2)
        [['yes', 'no'], ['yes', 'no']]
        >>> per_row([["yes", "no"], [[5], [6, 7]]], 1, 2)
        [['yes', 'no'], [[5], [6, 7]]]
    """
    if not isinstance(choices, list | tuple | np.ndarray) or not len(choices):
        raise ValueError(f"choices must be a list of at least one choice, got {choices!r}")
    if _is_choice(choices[0]):
        return [list(choices)] * count
    lists = flatten(choices, ndim)
    if len(lists) != count or not all(isinstance(own, list | tuple | np.ndarray) for own in lists):
        raise ValueError(
            f"choices must be one list of texts or of ids, or {count} such lists in the shape of the batch; "
            f"got {choices!r}"
        )
    return [list(own) for own in lists]


def _is_choice(value: Any) -> bool:
    """Whether `value` is a text, or the ids of one."""
    if isinstance(value, list | tuple | np.ndarray):
        return len(value) > 0 and np.ndim(value[0]) == 0 and not isinstance(value[0], str)
    return isinstance(value, str)


def scored_entries(inputs: Inputs, options: WrapperOptions, layout: Layout) -> dict[NestedKey, Any]:
    """The entries to write besides log-probs: tokens, masks, texts and conversations of the inputs."""
    rows = inputs.rows
    masks = {"all_attention_mask": (rows.mask, rows.mask)}
    if inputs.assistant_mask is not None:
        masks["all_assistant_mask"] = (inputs.assistant_mask & rows.mask, rows.mask)
    written: dict[NestedKey, Any] = {
        options.tokens_key: layout.make(Tokens, full=rows),
        options.masks_key: layout.make(Masks, **masks),
    }
    if inputs.texts is not None:
        written[options.text_key] = layout.text(full=inputs.texts)
    if inputs.chats is not None:
        history = inputs.history if inputs.history is not None else layout.history(inputs.chats)
        written[options.history_key] = ChatHistory(full=history, batch_size=layout.shape)
    return written


def rows_with_tokens(rows: TokenRows) -> list[int]:
    """The indices of rows that are not empty; an empty text has no tokens to score.

    Raises:
        ValueError: all rows are empty.
    """
    present = [i for i, row in enumerate(rows.rows) if len(row)]
    if not present and len(rows.ids):
        raise ValueError(f"Input contains empty sequences. None of the {len(rows.ids)} rows has a token")
    return present
