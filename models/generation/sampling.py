"""The next token of every open response, each drawn under its own options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite.kernels import DrawDetails, SamplingPlan
from lite.models.decoder.device_logits import DeviceLogits, Logits, drawn_on_gpus
from lite.models.generation.options import GenerationConfig
from lite.models.generation.processors import Processors, packed
from lite.models.generation.response import Response

_Bias = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]

_OPTIONS = ("temperature", "top_k", "top_p", "min_p", "typical_p", "repetition_penalty")
_NO_IDS, _NO_VALUES = np.zeros(0, np.int64), np.zeros(0, np.float32)


class Drawn(NamedTuple):
    """The results of one draw, in the order of the rows.

    Attributes:
        tokens: int64 (n,).
        log_probs: float32 (n,), under the raw model distribution.
        details: statistics of each draw, if any response asks for them.
    """

    tokens: NDArray[np.int64]
    log_probs: NDArray[np.float32]
    details: DrawDetails | None


class Sampler:
    """Draws tokens for a changing set of responses; its plan is kept until the set changes.

    From logits on a GPU the GPU draws, and only tokens and log-probs are copied to the host. The logits are
    copied to the host, which draws, if a response has a function of the user (or another change of whole
    scores), or if Numba cannot launch kernels. Both ways draw the same tokens up to rounding.
    """

    def __init__(self) -> None:
        self._of: Sequence[Response] | None = None
        self._rows: list[tuple[int, Processors]] = []  # rows with processors
        self._penalised: list[bool] | None = None

    def draw(self, logits: Logits, responses: Sequence[Response]) -> Drawn:
        """The next token of each response.

        Args:
            logits: (n, V), of the token after `ids` of each response; not modified.
            responses: n responses; the same object as at the last call while the set does not change.

        Raises:
            ValueError: no token can be drawn, or a function of the user returned no scores.
            Exception: whatever a function of the user raises.
        """
        if self._of is not responses:
            self._settle(responses, logits.shape)
        if isinstance(logits, DeviceLogits) and (self._on_host or not drawn_on_gpus()):
            logits = np.asarray(logits)
        counts = [response.count for response in responses]
        steps = counts[0] if counts.count(counts[0]) == len(counts) else np.array(counts)
        previous = None
        if self._penalised:
            previous = [
                response.ids if penalised else _NO_IDS
                for response, penalised in zip(responses, self._penalised, strict=True)
            ]
        bias, mask, scores = self._changed(logits, responses) if self._rows else (None, None, None)
        if isinstance(logits, DeviceLogits):
            allowed = None if mask is None else logits.beside(mask)
            drawn = self._plan.draw(
                logits, steps, previous=previous, bias=bias, mask=allowed, stream=logits.stream
            )
            return Drawn(logits.on_host(drawn[0]), logits.on_host(drawn[1]), drawn[2])
        tokens, log_probs, details = self._plan.draw(
            logits, steps, previous=previous, bias=bias, mask=mask, scores=scores
        )
        # what the plan gives is overwritten by its next draw
        return Drawn(tokens.copy(), log_probs.copy(), None if details is None else _copy(details))

    def _settle(self, responses: Sequence[Response], shape: tuple[int, ...]) -> None:
        """Make the plan of sampling for these responses; it serves until the responses change."""
        self._of = responses
        for one in responses:
            if one.processors is None and Processors.needed(one.config):
                one.processors = Processors(one.config, len(one.prompt), shape[1])
        self._rows = [(i, one.processors) for i, one in enumerate(responses) if one.processors is not None]
        configs = [response.config for response in responses]
        whole = {i for i, own in self._rows if own.whole}  # these apply it with the rest
        telling = [c for c in configs if c.wants_details]
        self._on_host = bool(whole)
        penalties = [1.0 if i in whole else c.repetition_penalty for i, c in enumerate(configs)]
        alike = penalties.count(1.0) == len(penalties)
        self._penalised = None if alike else [penalty != 1 for penalty in penalties]
        options = [
            (0.0 if c.greedy else c.temperature, c.top_k or 0, c.top_p, c.min_p, c.typical_p, penalty)
            for c, penalty in zip(configs, penalties, strict=True)
        ]
        # one value if it is equal for all rows, which is faster to check; else one per row
        alike = options.count(options[0]) == len(options)
        values: Any = options[0] if alike else map(np.array, zip(*options, strict=True))
        self._plan = SamplingPlan(
            (len(responses), shape[1]),
            np.array([response.seed for response in responses], np.uint64),
            **dict(zip(_OPTIONS, values, strict=True)),
            details=bool(telling),
            kept_ids=any(c.kept_ids for c in telling),
            top_n=min(max([c.logprobs for c in telling], default=0), shape[1]),
        )

    def _changed(
        self, logits: Logits, responses: Sequence[Response]
    ) -> tuple[_Bias | None, NDArray[np.int32] | None, NDArray[np.float32] | None]:
        """The changes of scores of rows with processors: the plan's `bias`, `mask` and `scores`."""
        offsets = np.zeros(len(responses) + 1, np.int64)
        ids, values = [_NO_IDS], [_NO_VALUES]
        mask = scores = None
        for i, own in self._rows:
            before = responses[i].ids
            if own.whole:
                if scores is None:
                    scores = np.array(logits)
                words: NDArray[np.int32] | None = packed(own.apply(scores[i], before))
            else:
                where, value = own.changes(before)
                ids.append(where)
                values.append(value)
                offsets[i + 1] = len(where)
                words = own.allowed(before)
            if words is not None:
                if mask is None:
                    mask = np.full((len(responses), len(words)), -1, np.int32)
                mask[i] = words
        np.cumsum(offsets, out=offsets)
        bias = (offsets, np.concatenate(ids), np.concatenate(values)) if offsets[-1] else None
        return bias, mask, scores


def joined(draws: Sequence[tuple[DrawDetails | None, int]], config: GenerationConfig) -> DrawDetails | None:
    """The statistics of a response's tokens.

    Args:
        draws: for each token the details of its draw, and the token's row in them.
        config: the response's options.

    Returns:
        The statistics that the options ask for, an entry per token; None if they ask for none.
    """
    if not config.wants_details:
        return None
    known = [(details, row) for details, row in draws if details is not None]
    offsets = kept = top_ids = top_log_probs = None
    if config.kept_ids:
        parts = [
            details.kept_ids[details.kept_offsets[row] : details.kept_offsets[row + 1]]
            for details, row in known
            if details.kept_ids is not None and details.kept_offsets is not None
        ]
        offsets = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        kept = np.concatenate([np.zeros(0, np.int32), *parts])
    if count := config.logprobs:
        top = [
            (details.top_ids[row, :count], details.top_log_probs[row, :count])
            for details, row in known
            if details.top_ids is not None and details.top_log_probs is not None
        ]
        shape = len(top), len(top[0][0]) if top else count
        top_ids = np.array([ids for ids, _ in top], np.int64).reshape(shape)
        top_log_probs = np.array([values for _, values in top]).reshape(shape)
    return DrawDetails(
        sampled_log_probs=np.array([details.sampled_log_probs[row] for details, row in known]),
        kept_log_mass=np.array([details.kept_log_mass[row] for details, row in known]),
        entropy=np.array([details.entropy[row] for details, row in known]),
        kept_offsets=offsets,
        kept_ids=kept,
        top_ids=top_ids,
        top_log_probs=top_log_probs,
    )


def _copy(details: DrawDetails) -> DrawDetails:
    names = ("sampled_log_probs", "kept_log_mass", "entropy", "top_ids", "top_log_probs")
    parts = {name: getattr(details, name) for name in names}
    return replace(details, **{name: part.copy() for name, part in parts.items() if part is not None})
