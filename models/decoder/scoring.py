"""Log-probs of given tokens, in chunks over time with the cache.

Memory is the weights, the cache and the logits of one chunk, whatever the length of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from lite.kernels import token_log_probs
from lite.models.decoder.protocol import Decoder


def score(
    decoder: Decoder, rows: Sequence[NDArray[np.int64]], *, equal_lengths: bool = False
) -> list[NDArray[np.float32]]:
    """Log-prob of every token given the tokens before it, under the raw model distribution (no temperature).

    Args:
        decoder: the model; its rows are left as they are.
        rows: token ids, one integer array (L_i,) per row, each at least one token and at most the model's
            context.
        equal_lengths: let only rows of equal length share a run, so that the model sees no padding.

    Returns:
        One float32 array (L_i,) per row. Entry 0 is 0: nothing comes before the first token.

    Raises:
        ValueError: for an empty row, one longer than the context, or ids outside the vocabulary.

    Example:
        >>> import numpy as np
        >>> from lite.models import OnnxDecoder, embedded_model_path, score
        >>> decoder = OnnxDecoder(embedded_model_path())
        >>> rows = score(decoder, [np.array([10, 20, 30]), np.array([40, 50])])
        >>> [row.shape for row in rows], float(rows[0][0]), bool((rows[0][1:] < 0).all())
        ([(3,), (2,)], 0.0, True)
    """
    out = [np.zeros(len(row), np.float32) for row in rows]
    for i, start, logits in _chunks(decoder, rows, equal_lengths):
        stop = min(start + len(logits), len(rows[i]) - 1)  # the last logits score a token that is not given
        if stop > start:
            targets = np.asarray(rows[i], np.int64)[start + 1 : stop + 1]
            out[i][start + 1 : stop + 1] = token_log_probs(logits[: stop - start], targets)
    return out


def full_logits(
    decoder: Decoder, rows: Sequence[NDArray[np.int64]], *, equal_lengths: bool = False
) -> list[NDArray[np.float32]]:
    """Logits of the distribution each token was drawn from: entry j is the model's before token j.

    Args:
        decoder: the model; its rows are left as they are.
        rows: token ids, one integer array (L_i,) per row.
        equal_lengths: as for `score`.

    Returns:
        One float32 array (L_i, V) per row; entry 0 is all zeros, since nothing comes before the first
        token, and the logits after the last token are not part of it.

    Raises:
        ValueError: as `score`.

    Example:
        >>> import numpy as np
        >>> from lite.models import OnnxDecoder, embedded_model_path, full_logits
        >>> decoder = OnnxDecoder(embedded_model_path())
        >>> (logits,) = full_logits(decoder, [np.array([10, 20, 30])])
        >>> logits.shape == (3, decoder.vocab_size), bool(logits[0].any())
        (True, False)
    """
    out = [np.zeros((len(row), decoder.vocab_size), np.float32) for row in rows]
    for i, start, logits in _chunks(decoder, rows, equal_lengths):
        stop = min(start + len(logits), len(rows[i]) - 1)
        out[i][start + 1 : stop + 1] = logits[: stop - start]
    return out


def _chunks(
    decoder: Decoder, rows: Sequence[NDArray[np.int64]], equal_lengths: bool
) -> Iterator[tuple[int, int, NDArray[np.float32]]]:
    """Run all rows through the model; yields (index in `rows`, first position, logits of some positions)."""
    arrays = [decoder.check_ids(row) for row in rows]
    for batch in _batches([len(ids) for ids in arrays], decoder.rows_per_run, equal_lengths):
        held = decoder.acquire(len(batch))
        try:
            decoder.reserve(max(len(arrays[i]) for i in batch), len(batch))
            chunk = decoder.chunk_length(len(batch))
            for start in range(0, len(arrays[batch[-1]]), chunk):
                live = [(row, i) for row, i in zip(held, batch, strict=True) if len(arrays[i]) > start]
                ids = [arrays[i][start : start + chunk] for _, i in live]
                for (_, i), logits in zip(live, decoder.extend([row for row, _ in live], ids), strict=True):
                    yield i, start, logits
        finally:
            decoder.release(held)


def _batches(lengths: list[int], size: int, equal: bool) -> Iterator[list[int]]:
    """Indices of rows to run together: of similar length, which wastes no padding, or of equal length."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    groups = [list(group) for _, group in groupby(order, key=lengths.__getitem__)] if equal else [order]
    for group in groups:
        for first in range(0, len(group), size):
            yield group[first : first + size]
