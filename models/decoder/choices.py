"""How likely given continuations of prompts are: a prompt is run once, and its choices go on from there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite.kernels import masked_log_softmax, token_log_probs
from lite.models.decoder.cache import ENOUGH_TOKENS
from lite.models.decoder.device_logits import Logits, on_their_device
from lite.models.decoder.protocol import Decoder, checked_row

_TOGETHER = 8  # continuations that share a run


class ChoiceScores(NamedTuple):
    """How likely N prompts make the choices that follow them.

    Where prompts have different numbers of choices, C is the largest, and what a prompt lacks has the
    log-prob -inf. Of `relative` scores, log-probs are given that the first token is that of one of the
    prompt's choices; what they say of the choices among each other is the same.
    """

    log_probs: NDArray[np.float64]
    """Log-prob of each choice given its prompt, (N, C): the sum over its tokens."""
    probabilities: NDArray[np.float64]
    """Probability of each choice among the choices, (N, C): rows sum to 1."""
    token_log_probs: list[list[NDArray[np.float32]]]
    """Log-probs of each token of each choice, in arrays (L,)."""

    @classmethod
    def of(cls, token_log_probs: list[list[NDArray[np.float32]]]) -> ChoiceScores:
        """The results that follow from the log-probs of the tokens."""
        shape = len(token_log_probs), max(map(len, token_log_probs), default=0)
        log_probs = np.full(shape, -np.inf)
        for row, parts in zip(log_probs, token_log_probs, strict=True):
            row[: len(parts)] = [part.sum(dtype=np.float64) for part in parts]
        top = log_probs.max(1, keepdims=True, initial=-np.inf)
        weights = np.exp(log_probs - np.where(np.isinf(top), 0.0, top))
        with np.errstate(invalid="ignore"):  # where no choice is possible
            return cls(log_probs, weights / weights.sum(1, keepdims=True), token_log_probs)


def score_choices(
    decoder: Decoder, prompts: Sequence[ArrayLike], choices: Sequence[Any], *, relative: bool = False
) -> ChoiceScores:
    """Log-probs of given continuations under the raw model distribution.

    A prompt is run once; choices of several tokens go on from copies of its cache. Logits are computed at the
    positions that are needed alone where the graph allows that. A choice is a beginning: whether the model
    would end there is a part of it only if it ends with the token that says so.

    A log-prob needs the logits of the whole vocabulary, which it is normalised over. Log-odds and
    `probabilities` do not at a choice's first token: what choices of a prompt have in common there cancels.
    `relative` scores leave that out, so that for float32 graphs only the first tokens' vectors of the output
    matrix are read. Choices differ in what comes before their later tokens, so these need all logits.

    Args:
        decoder: the model; its rows are left as they are.
        prompts: token ids, one integer array (L_i,) per prompt, at least one token each.
        choices: token ids, one integer array per choice, at least one token each: either one list of them
            for all prompts, or such a list for each prompt.
        relative: give log-probs of first tokens among the first tokens of the prompt's choices only.

    Returns:
        The `ChoiceScores`. The difference of two log-probs of a prompt are the log-odds of these choices.

    Raises:
        ValueError: no choices, a choice or a prompt without tokens, ids outside the vocabulary, a prompt
            that is longer than the context with one of its choices, not one list per prompt.

    Example:
        >>> import numpy as np
        >>> from lite.models import OnnxDecoder, embedded_model_path, score_choices
        >>> decoder = OnnxDecoder(embedded_model_path())
        >>> scores = score_choices(decoder, [[10, 20, 30], [40]], [[50], [60, 61]])
        >>> scores.log_probs.shape, [part.shape for part in scores.token_log_probs[0]]
        ((2, 2), [(1,), (2,)])
        >>> bool(np.allclose(scores.probabilities.sum(1), 1))
        True
        >>> relative = score_choices(decoder, [[10, 20, 30], [40]], [[50], [60, 61]], relative=True)
        >>> bool(np.allclose(relative.probabilities, scores.probabilities))
        True
    """
    lists = checked_choices(decoder, prompts, choices)
    ids = [decoder.check_ids(prompt) for prompt in prompts]
    out = [[np.zeros(len(choice), np.float32) for choice in own] for own in lists]
    order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))  # memory for the longest serves the others
    while order:
        count = max(1, min(decoder.rows_per_run, ENOUGH_TOKENS // len(ids[order[0]])))
        _score_group(decoder, ids, lists, out, order[:count], relative)
        order = order[count:]
    return ChoiceScores.of(out)


def checked_choices(
    decoder: Decoder, prompts: Sequence[ArrayLike], choices: Sequence[Any]
) -> list[list[NDArray[np.int64]]]:
    """One list of choices per prompt, all of which can be run; raises the errors of `score_choices`."""
    if isinstance(choices, str) or not len(choices):
        raise ValueError(f"choices must be a list of at least one choice, got {choices!r}")
    depth = 1 + _depth(choices[0])
    if depth == 1:
        raise ValueError(f"choices must hold arrays of token ids, one per choice, got {choices[0]!r}")
    if depth > 2 and len(choices) != len(prompts):
        raise ValueError(
            f"choices must be one list for all prompts or {len(prompts)} lists, got {len(choices)}"
        )
    lists = []
    for i, prompt in enumerate(prompts):
        own = [np.asarray(choice) for choice in (choices[i] if depth > 2 else choices)]
        if not own:
            raise ValueError(f"choices[{i}] must hold at least one choice, got none")
        row = checked_row(decoder, f"prompt {i}", prompt)
        for j, choice in enumerate(own):
            _check(decoder, row, choice, f"choices[{j}] of prompt {i}")
        lists.append(own)
    return lists


def _depth(value: Any) -> int:
    """How deep lists are nested, arrays counted by their dimensions."""
    if isinstance(value, list | tuple):
        return 1 + (_depth(value[0]) if value else 0)
    return int(np.ndim(value))


def _check(decoder: Decoder, prompt: NDArray[np.int64], choice: NDArray[Any], name: str) -> None:
    if choice.ndim != 1 or not choice.size or choice.dtype.kind not in "iu":
        raise ValueError(
            f"{name} must be at least one token id, in one dimension; got {choice.dtype} {choice.shape}"
        )
    checked_row(decoder, name, np.concatenate([prompt, choice]), given=True)


def _score_group(
    decoder: Decoder, prompts: Sequence[NDArray[np.int64]], choices: Sequence[Sequence[NDArray[np.int64]]],
    out: list[list[NDArray[np.float32]]], group: Sequence[int], relative: bool,
) -> None:  # fmt: skip
    """Score the choices of prompts that run together, into `out`."""
    longer = [(i, j) for i in group for j, choice in enumerate(choices[i]) if len(choice) > 1]
    held = decoder.acquire(len(group) + min(len(longer), _TOGETHER))
    try:
        extra = max((len(choices[i][j]) - 1 for i, j in longer), default=0)
        decoder.reserve(max(len(prompts[i]) for i in group) + extra, len(held))
        row_of = dict(zip(group, held, strict=False))
        firsts = [np.array([choice[0] for choice in choices[i]], np.int64) for i in group]
        scores = _first_log_probs(decoder, held[: len(group)], [prompts[i] for i in group], firsts, relative)
        for i, own in zip(group, scores, strict=True):
            for part, value in zip(out[i], own, strict=True):
                part[0] = value
        for start in range(0, len(longer), _TOGETHER):
            batch = longer[start : start + _TOGETHER]
            rows = held[len(group) :][: len(batch)]
            for row, (i, _) in zip(rows, batch, strict=True):
                decoder.fork(row_of[i], row)
            for place, at, row_logits in _extended(decoder, rows, [choices[i][j][:-1] for i, j in batch]):
                i, j = batch[place]
                stop = at + len(row_logits)
                tokens = choices[i][j][at + 1 : stop + 1]
                out[i][j][at + 1 : stop + 1] = on_their_device(token_log_probs, row_logits, tokens)
            for row in rows:
                decoder.reset(row)
    finally:
        decoder.release(held)


def _first_log_probs(
    decoder: Decoder,
    rows: list[int],
    prompts: Sequence[NDArray[np.int64]],
    tokens: Sequence[NDArray[np.int64]],
    relative: bool,
) -> list[NDArray[np.float32]]:
    """Log-probs of some tokens after each prompt, in the vocabulary or among each other."""
    if not relative:
        logits = np.asarray(decoder.prefill_rows(rows, prompts))
        return [
            token_log_probs(np.broadcast_to(row, (len(own), len(row))), own)
            for row, own in zip(logits, tokens, strict=True)
        ]
    different = [np.unique(own, return_inverse=True) for own in tokens]
    chosen = getattr(decoder, "prefill_chosen", None)  # of `OnnxDecoder`
    if chosen is not None:
        scores = chosen(rows, prompts, [ids for ids, _ in different])
    else:
        logits = np.asarray(decoder.prefill_rows(rows, prompts))
        scores = [row[ids] for row, (ids, _) in zip(logits, different, strict=True)]
    return [masked_log_softmax(row)[which] for row, (_, which) in zip(scores, different, strict=True)]


def _extended(
    decoder: Decoder, rows: list[int], ids: Sequence[NDArray[np.int64]]
) -> Iterator[tuple[int, int, Logits]]:
    """Append tokens to rows; yields (index, first position, logits after some of them)."""
    if max(map(len, ids)) == 1:  # all rows in one run, whatever the graph
        logits = decoder.decode_unchecked(np.concatenate(ids).astype(np.int64), rows)
        for place in range(len(rows)):
            yield place, 0, logits[place : place + 1]
        return
    chunk = decoder.chunk_length(len(rows))
    for at in range(0, max(map(len, ids)), chunk):
        live = [place for place, new in enumerate(ids) if len(new) > at]
        pieces = [ids[place][at : at + chunk] for place in live]
        found = decoder.extend([rows[p] for p in live], pieces)
        for place, row_logits in zip(live, found, strict=True):
            yield place, at, row_logits
