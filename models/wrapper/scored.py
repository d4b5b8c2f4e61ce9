"""The entries that scoring writes besides log-probs, and the rows that are scored."""

from __future__ import annotations

from typing import Any

from lite import NestedKey
from lite.models.text.data import ChatHistory, Masks, Tokens
from lite.models.text.rows import TokenRows
from lite.models.wrapper.input import Inputs
from lite.models.wrapper.options import WrapperOptions
from lite.models.wrapper.output import Layout


def scored_entries(inputs: Inputs, options: WrapperOptions, layout: Layout) -> dict[NestedKey, Any]:
    """Tokens, masks, texts and conversations of the inputs, by key."""
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
    """The indices of rows that are not empty: an empty text among others has nothing to score.

    Raises:
        ValueError: all rows are empty.
    """
    present = [i for i, row in enumerate(rows.rows) if len(row)]
    if not present and len(rows.ids):
        raise ValueError(f"Input contains empty sequences. None of the {len(rows.ids)} rows has a token")
    return present
