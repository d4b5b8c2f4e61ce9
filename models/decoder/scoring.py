"""Log-probs of given tokens, in chunks over time with the cache.

Memory is the weights, the cache and the logits of one chunk, whatever the length of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite.kernels import TokenScores, log_softmax_stats, token_log_probs, token_scores
from lite.kernels._integer import integer
from lite.kernels._logits import Support, checked_support
from lite.models.decoder.device_logits import Logits, on_their_device
from lite.models.decoder.protocol import Decoder, checked_row, refuse_path


class Scored(NamedTuple):
    """The scores of the tokens of a row: see `score_with_alternatives`."""

    log_probs: NDArray[np.float32]
    top_ids: NDArray[np.int64]
    top_log_probs: NDArray[np.float32]


def score(
    decoder: Decoder,
    rows: Sequence[NDArray[np.int64]],
    *,
    temperature: ArrayLike = 1.0,
    supports: Sequence[Support | None] | None = None,
    equal_lengths: bool = False,
) -> list[NDArray[np.float32]]:
    """Log-prob of every token given the tokens before it.

    By default under the raw model distribution. With a temperature and recorded supports, under the one that
    tokens were really sampled from: `softmax(logits / temperature)` of the tokens that the filters had kept.

    Args:
        decoder: the model; its rows are left as they are.
        rows: token ids, one integer array (L_i,) per row, each at least one token and at most one more than
            the model's context: the last one is not read.
        temperature: divides the logits; one number, or one per row.
        supports: for each row the kept ids of its last n tokens, or None if nothing was recorded:
            `(offsets, ids)`, integers (n + 1,) and (m,); token j of these n was drawn from
            `ids[offsets[j]:offsets[j + 1]]`, from the whole vocabulary if empty. So the record of
            a response goes with the row of prompt and response.
        equal_lengths: let only rows of equal length share a run, so that the model sees no padding.

    Returns:
        One float32 array (L_i,) per row. Entry 0 is 0: nothing comes before the first token. A token that is
        not in its support has the probability 0 and scores -inf.

    Raises:
        ValueError: for an empty row, one that is too long, ids outside the vocabulary, a temperature
            that is not positive and finite, or supports that do not fit the rows.
        TypeError: for supports that are not pairs of integers, or a temperature that is not a number.

    Example:
        >>> import numpy as np
        >>> from lite.models import OnnxDecoder, embedded_model_path, score
        >>> decoder = OnnxDecoder(embedded_model_path())
        >>> rows = score(decoder, [np.array([10, 20, 30]), np.array([40, 50])])
        >>> [row.shape for row in rows], float(rows[0][0]), bool((rows[0][1:] < 0).all())
        ([(3,), (2,)], 0.0, True)
        >>> only_one = np.array([0, 1]), np.array([50])  # the last token could be nothing else
        >>> np.exp(score(decoder, [np.array([40, 50])], temperature=0.7, supports=[only_one])[0]).tolist()
        [1.0, 1.0]
    """
    out = [np.zeros(len(row), np.float32) for row in rows]

    def note(i: int, at: slice, logits: Logits, sampled: dict[str, Any]) -> None:
        out[i][at] = on_their_device(token_log_probs, logits, ids[i][at], **sampled)

    ids = [np.asarray(row) for row in rows]
    _run(decoder, ids, temperature, supports, equal_lengths, note)
    return out


def score_details(
    decoder: Decoder,
    rows: Sequence[NDArray[np.int64]],
    *,
    temperature: ArrayLike = 1.0,
    supports: Sequence[Support | None] | None = None,
    equal_lengths: bool = False,
) -> list[TokenScores]:
    """All that `lite.kernels.token_scores` tells of each token, from one run of the model.

    The log-prob in the raw model, the log-prob in the distribution that it was sampled from, the log of the
    mass that was kept of that, and the entropy of the raw model: what generation reports with its draws, if
    there were no penalties.

    Args:
        decoder, rows, temperature, supports, equal_lengths: as for `score`.

    Returns:
        One `TokenScores` of float64 arrays (L_i,) per row; entry 0 is 0 throughout.

    Raises:
        ValueError, TypeError: as `score`.

    Example:
        >>> import numpy as np
        >>> from lite.models import OnnxDecoder, embedded_model_path, score_details
        >>> decoder = OnnxDecoder(embedded_model_path())
        >>> kept = np.array([0, 0, 2]), np.array([30, 31])  # of the last two tokens
        >>> (row,) = score_details(decoder, [np.array([10, 20, 30])], temperature=0.7, supports=[kept])
        >>> (row.kept_log_mass < 0).tolist(), bool(row.sampled_log_probs[2] > row.log_probs[2])
        ([False, False, True], True)
    """
    out = [TokenScores(*np.zeros((4, len(row)))) for row in rows]

    def note(i: int, at: slice, logits: Logits, sampled: dict[str, Any]) -> None:
        found = on_their_device(token_scores, logits, ids[i][at], **sampled)
        for part, values in zip(out[i], found, strict=True):
            part[at] = values

    ids = [np.asarray(row) for row in rows]
    _run(decoder, ids, temperature, supports, equal_lengths, note)
    return out


def score_with_alternatives(
    decoder: Decoder, rows: Sequence[NDArray[np.int64]], count: int, *, temperature: ArrayLike = 1.0
) -> list[Scored]:
    """What `score` gives, and the most probable tokens in the place of each, from one run of the model.

    Args:
        decoder, rows, temperature: as for `score`.
        count: the number n of alternatives; all tokens, where the vocabulary has fewer.

    Returns:
        For each row its log-probs (L_i,), and the ids and log-probs of the n best, (L_i, n), the first of
        equal ones first. The first token has none, nor has one whose logits are not numbers: ids -1 and
        log-probs 0.

    Raises:
        ValueError: as `score`, or if count is below 1.

    Example:
        >>> import numpy as np
        >>> from lite.models import OnnxDecoder, embedded_model_path
        >>> from lite.models.decoder.scoring import score_with_alternatives
        >>> decoder = OnnxDecoder(embedded_model_path())
        >>> (row,) = score_with_alternatives(decoder, [np.array([10, 20, 30])], 5)
        >>> row.top_ids.shape, bool((row.top_log_probs[1:, 0] >= row.log_probs[1:]).all())
        ((3, 5), True)
    """
    integer("count", count, least=1)
    count = min(count, decoder.vocab_size)
    out = [
        Scored(
            np.zeros(len(row), np.float32),
            np.full((len(row), count), -1, np.int64),
            np.zeros((len(row), count), np.float32),
        )
        for row in rows
    ]

    def note(i: int, at: slice, logits: Logits, sampled: dict[str, Any]) -> None:
        out[i].log_probs[at] = on_their_device(token_log_probs, logits, ids[i][at], **sampled)
        here = np.asarray(logits)
        totals = log_softmax_stats(here, temperature=sampled["temperature"]).log_sum_exp
        for place, values, total in zip(range(at.start, at.stop), here, totals, strict=True):
            if np.isfinite(total):
                top = highest(values, count)
                out[i].top_ids[place] = top
                out[i].top_log_probs[place] = values[top].astype(np.float64) / sampled["temperature"] - total

    ids = [np.asarray(row) for row in rows]
    _run(decoder, ids, temperature, None, False, note)
    return out


def highest(values: NDArray[np.floating], count: int) -> NDArray[np.int64]:
    """The indices of the highest values in descending order; equal values in the order of their indices.

    Raises:
        ValueError: fewer than so many are numbers.

    Example:
        >>> highest(np.array([1.0, 3.0, 3.0, 2.0]), 3).tolist()
        [1, 2, 3]
    """
    least = np.partition(values, len(values) - count)[len(values) - count]
    above = np.flatnonzero(values > least)
    chosen = np.concatenate([above, np.flatnonzero(values == least)[: count - len(above)]])
    if len(chosen) < count:  # NaN is neither above nor equal
        raise ValueError("logits contain NaN")
    return chosen[np.argsort(-values[chosen], kind="stable")]


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
        out[i][start + 1 : start + 1 + len(logits)] = logits
    return out


def _run(
    decoder: Decoder,
    rows: Sequence[NDArray[np.int64]],
    temperature: ArrayLike,
    supports: Sequence[Support | None] | None,
    equal_lengths: bool,
    note: Callable[[int, slice, Logits, dict[str, Any]], None],
) -> None:
    """Call `note(row, positions, logits, options of the kernel)` for all positions that have logits."""
    refuse_path(decoder, "decoder")
    lengths = [len(row) for row in rows]
    temperatures, kept = checked_sampling(temperature, supports, lengths, decoder.vocab_size)
    for i, start, logits in _chunks(decoder, rows, equal_lengths):
        stop = start + len(logits)
        sampled: dict[str, Any] = {"temperature": float(temperatures[i])}
        if (support := kept[i]) is not None:
            offsets, ids = support
            here = offsets[start + 1 : stop + 2]
            sampled["support"] = here - here[0], ids[here[0] : here[-1]]
        note(i, slice(start + 1, stop + 1), logits, sampled)
        del logits  # the next run needs as much memory


def checked_sampling(
    temperature: ArrayLike, supports: Sequence[Support | None] | None, lengths: Sequence[int], vocab_size: int
) -> tuple[NDArray[np.float64], list[tuple[NDArray[np.int64], NDArray[np.int32]] | None]]:
    """A temperature of each row, and offsets (L_i + 1,) and ids or None; raises the errors of `score`."""
    given = np.asarray(temperature)
    if given.dtype.kind not in "fiu":
        raise TypeError(f"temperature must be a number, or one per row, got {temperature!r}")
    if given.shape not in ((), (len(lengths),)):
        raise ValueError(
            f"temperature must be one number or one for each of {len(lengths)} rows, got shape {given.shape}"
        )
    if not (fits := (given >= 2.0**-126) & (given <= 2.0**100)).all():
        raise ValueError(f"temperature must be positive and finite, got {given[~fits].flat[0]}")
    temperatures = np.broadcast_to(given.astype(np.float64), (len(lengths),))
    return temperatures, _whole(supports, lengths, vocab_size)


def _whole(
    supports: Sequence[Support | None] | None, lengths: Sequence[int], vocab_size: int
) -> list[tuple[NDArray[np.int64], NDArray[np.int32]] | None]:
    """Supports of whole rows: offsets (L_i + 1,) and ids, or None."""
    if supports is None:
        return [None] * len(lengths)
    if len(supports) != len(lengths):
        raise ValueError(f"supports must be one per row, {len(lengths)}, or None; got {len(supports)}")
    out: list[tuple[NDArray[np.int64], NDArray[np.int32]] | None] = []
    for i, (support, length) in enumerate(zip(supports, lengths, strict=True)):
        if support is None:
            out.append(None)
            continue
        pair = isinstance(support, tuple | list) and len(support) == 2
        count = max(0, np.size(support[0]) - 1) if pair else 0
        if count > length:
            raise ValueError(f"supports[{i}] is of {count} tokens, but the row has {length}")
        try:
            offsets, ids = checked_support(support, count, vocab_size, f"supports[{i}]")
        except IndexError as error:
            raise ValueError(str(error)) from None
        out.append((np.concatenate([np.zeros(length - count, np.int64), offsets]), ids))
    return out


def _chunks(
    decoder: Decoder, rows: Sequence[NDArray[np.int64]], equal_lengths: bool
) -> Iterator[tuple[int, int, Logits]]:
    """Run all rows through the model; yields (index in `rows`, first position, logits of some positions).

    Their last tokens are not read: nothing that is given follows these.
    """
    arrays = [checked_row(decoder, f"row {i}", row, given=True)[:-1] for i, row in enumerate(rows)]
    for batch in _batches(decoder, [len(ids) for ids in arrays], equal_lengths):
        held = decoder.acquire(len(batch))
        try:
            decoder.reserve(max(len(arrays[i]) for i in batch), len(batch))
            chunk = decoder.chunk_length(len(batch))
            for start in range(0, len(arrays[batch[-1]]), chunk):
                live = [(row, i) for row, i in zip(held, batch, strict=True) if len(arrays[i]) > start]
                ids = [arrays[i][start : start + chunk] for _, i in live]
                for (_, i), logits in zip(live, decoder.extend([row for row, _ in live], ids), strict=True):
                    yield i, start, logits
                    del logits
        finally:
            decoder.release(held)


def _batches(decoder: Decoder, lengths: list[int], equal: bool) -> Iterator[list[int]]:
    """Indices of rows to run together: of similar length, which wastes no padding, or of equal length.

    No more than leave the chunks as long as a row needs them: more would cut long rows into more pieces, each
    of which reads the past again.
    """
    order = sorted([i for i, length in enumerate(lengths) if length], key=lengths.__getitem__)
    groups = [list(group) for _, group in groupby(order, key=lengths.__getitem__)] if equal else [order]
    most, single = decoder.rows_per_run, decoder.chunk_length(1)
    for group in groups:
        while group:
            size = most
            while size > 1 and decoder.chunk_length(size) < min(single, lengths[group[:size][-1]]):
                size -= 1
            yield group[:size]
            group = group[size:]
