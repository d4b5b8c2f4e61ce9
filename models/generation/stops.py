"""Texts that end a response."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

DecodeText = Callable[[NDArray[np.int64]], str]


def has_stopped(tokens: NDArray[np.int64], stops: Sequence[str], decode_text: DecodeText) -> bool:
    """Whether the last of a response's tokens (L,) has just completed one of the texts.

    A text of m bytes spans at most m tokens that stand for any text, so only the tail needs decoding; the
    few more are for special tokens and for decoders that leave out the space with which a text begins. That
    of the response counts, as it follows a prompt: its first token is decoded behind itself.
    """
    tail = max(len(stop.encode()) for stop in stops) + 8
    before = tokens[:1] if len(tokens) < tail else tokens[:0]
    text = decode_text(np.concatenate([before, tokens[-tail:]]))[len(decode_text(before)) :]
    return any(stop in text for stop in stops)
