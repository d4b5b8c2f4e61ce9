"""How far the log-probs of two ways to run a model are apart, in numbers, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.models.comparison.causes import Cause, find_causes
from lite.models.comparison.logged import LoggedResponse
from lite.models.decoder.protocol import Decoder, check_decoder, checked_given
from lite.models.decoder.scoring import score

NEAR = (0.9, 1.1)  # importance ratios that are acceptable for training
EDGES = (0.5, 0.67, 0.8, 0.9, 0.95, 0.99, 1.01, 1.05, 1.1, 1.25, 1.5, 2.0)
PERCENTILES = (50.0, 90.0, 99.0, 99.9)
PROBABILITIES = (0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0)
_LARGEST = 50.0  # log-ratios are clipped to this size, so that ratios are finite


@dataclass(frozen=True)
class Estimates:
    """Numbers of the log-ratios log A - log B of tokens that were drawn from B.

    Attributes:
        mean: their mean.
        deviation: their standard deviation.
        mean_abs, max_abs: mean and maximum of their absolute values.
        percentiles: percentiles of the absolute values, by percent.
        k1, k3: estimates of KL(B, A): the mean of -log r, and of r - 1 - log r, which has less variance
            and is never negative (Schulman 2020, http://joschu.net/blog/kl-approx.html), where r = A / B.
        chi_square: the mean of (r - 1)^2.
        ratio_mean, ratio_median: mean and median of r, the importance ratio; a mean other than 1 is a bias.
        outside: the fraction of r outside [0.9, 1.1].
        histogram: counts of r below the first of `EDGES`, between neighbours, and from the last on.
    """

    mean: float
    deviation: float
    mean_abs: float
    max_abs: float
    percentiles: dict[float, float]
    k1: float
    k3: float
    chi_square: float
    ratio_mean: float
    ratio_median: float
    outside: float
    histogram: tuple[int, ...]


@dataclass(frozen=True)
class Group:
    """Tokens with a position, or a probability under A, in an interval.

    Attributes:
        low, high: the interval [low, high).
        tokens: the number of tokens.
        mean: mean of log A - log B.
        mean_abs: mean of its absolute value.
    """

    low: float
    high: float
    tokens: int
    mean: float
    mean_abs: float


def estimates(log_ratios: NDArray[np.float64]) -> Estimates:
    """Numbers of the log-ratios (N,) of N >= 1 tokens."""
    size = np.abs(log_ratios)
    ratio = np.exp(np.clip(log_ratios, -_LARGEST, _LARGEST))
    low, high = NEAR
    found = np.searchsorted(EDGES, ratio, side="right")
    return Estimates(
        mean=float(log_ratios.mean()),
        deviation=float(log_ratios.std()),
        mean_abs=float(size.mean()),
        max_abs=float(size.max()),
        percentiles={p: float(np.percentile(size, p)) for p in PERCENTILES},
        k1=float(-log_ratios.mean()),
        k3=float((ratio - 1 - log_ratios).mean()),
        chi_square=float(((ratio - 1) ** 2).mean()),
        ratio_mean=float(ratio.mean()),
        ratio_median=float(np.median(ratio)),
        outside=float(((ratio < low) | (ratio > high)).mean()),
        histogram=tuple(np.bincount(found, minlength=len(EDGES) + 1).tolist()),
    )


def first_beyond(rows: Sequence[NDArray[np.float64]], limit: float) -> NDArray[np.int64]:
    """The first position of each row whose log-ratio exceeds `limit` in size; -1 if none does."""
    beyond = [np.flatnonzero(np.abs(row) > limit) for row in rows]
    return np.array([at[0] if len(at) else -1 for at in beyond], np.int64)


def by_position(rows: Sequence[NDArray[np.float64]]) -> tuple[Group, ...]:
    """Groups of log-ratios by their position in the response: 0, 1, 2 to 3, 4 to 7, and so on."""
    longest = max(len(row) for row in rows)
    edges = [0, *(2**i for i in range(longest.bit_length() + 1))]
    position = np.concatenate([np.arange(len(row)) for row in rows])
    return _groups(position, edges, np.concatenate(rows))


def by_probability(log_probs: NDArray[np.float64], log_ratios: NDArray[np.float64]) -> tuple[Group, ...]:
    """Groups of log-ratios (N,) by the probability of their token under A, whose log-probs are (N,)."""
    return _groups(np.exp(log_probs), PROBABILITIES, log_ratios)


def _groups(
    values: NDArray[np.float64] | NDArray[np.int64], edges: Sequence[float], log_ratios: NDArray[np.float64]
) -> tuple[Group, ...]:
    """The groups between edges that hold a token; the last edge belongs to the last group."""
    at = np.minimum(np.searchsorted(edges, values, side="right") - 1, len(edges) - 2)
    counts = np.bincount(at, minlength=len(edges) - 1)
    sums = np.bincount(at, log_ratios, minlength=len(edges) - 1)
    sizes = np.bincount(at, np.abs(log_ratios), minlength=len(edges) - 1)
    return tuple(
        Group(edges[i], edges[i + 1], int(n), float(sums[i] / n), float(sizes[i] / n))
        for i, n in enumerate(counts)
        if n
    )


@dataclass(frozen=True)
class Mismatch:
    """The result of `mismatch`.

    Attributes:
        rows: the responses.
        log_probs_a, log_probs_b: float64 (L_i,) for each response.
        estimates: numbers of all tokens' log-ratios log A - log B.
        first_divergence: int64 (len(rows),), the first position of each response where the log-ratio is
            larger than `divergence` in size; -1 where none is.
        divergence: as given.
        by_position, by_probability: groups of tokens by their position in the response, and by their
            probability under A.
        cause: the likely cause of the difference, None where the two agree.
        tried: the causes that were tried, the best first.
    """

    rows: list[LoggedResponse]
    log_probs_a: list[NDArray[np.float64]]
    log_probs_b: list[NDArray[np.float64]]
    estimates: Estimates
    first_divergence: NDArray[np.int64]
    divergence: float
    by_position: tuple[Group, ...]
    by_probability: tuple[Group, ...]
    cause: Cause | None
    tried: tuple[Cause, ...]

    @property
    def tokens(self) -> int:
        """Number of tokens that were compared."""
        return sum(map(len, self.log_probs_a))

    def to_dict(self) -> dict[str, Any]:
        """All but the log-probs themselves, for JSON."""
        return {
            "rows": len(self.rows),
            "tokens": self.tokens,
            **{name: value for name, value in asdict(self.estimates).items() if name != "percentiles"},
            "percentiles": {f"{p:g}": value for p, value in self.estimates.percentiles.items()},
            "histogram_edges": list(EDGES),
            "divergence": self.divergence,
            "rows_that_diverge": int((self.first_divergence >= 0).sum()),
            "first_divergence": self.first_divergence.tolist(),
            "by_position": [asdict(group) for group in self.by_position],
            "by_probability": [asdict(group) for group in self.by_probability],
            "cause": None if self.cause is None else asdict(self.cause),
            "tried": [asdict(cause) for cause in self.tried],
        }

    def __repr__(self) -> str:
        cause = None if self.cause is None else self.cause.name
        return (
            f"Mismatch({len(self.rows)} rows, {self.tokens} tokens, mean |difference| "
            f"{self.estimates.mean_abs:.3g}, cause: {cause})"
        )


def mismatch(
    a: Decoder | Sequence[LoggedResponse],
    b: Decoder | Sequence[LoggedResponse],
    rows: Sequence[LoggedResponse] | None = None,
    *,
    divergence: float = 0.1,
    bos_token_id: int | None = None,
) -> Mismatch:
    """Compare log-probs of the same tokens: of models, or from files of other tools.

    B is the side that drew the tokens, A the one that will train on them: the importance ratio is A / B.
    Log-probs of models are of the raw distribution (temperature 1, no filter). The likely cause of a
    difference is looked for among those that are common: another temperature, log-probs over the tokens that
    top-k, top-p or min-p kept, positions off by one, a beginning-of-text token too many or missing, and noise
    as quantisation makes it. For that the tokens of some rows run again; if A is not a model, only positions
    and noise can be looked at.

    Args:
        a: a model, or responses with log-probs, as `read_log_probs` reads them, if `b` is such, too: then
            each has the tokens of one of `b`, in any order.
        b: another model, or responses with log-probs.
        rows: the responses to compare if `b` is a model; their own log-probs are not looked at.
        divergence: the size of a log-ratio from which on a row counts as diverged.
        bos_token_id: the token that one side may have put before the prompt; default: that of model A.

    Returns:
        Numbers, groups and the likely cause.

    Raises:
        ValueError: there are no rows, one has no log-probs, one is too long or has unknown ids for a
            model, or has no row of the same tokens on the other side; the message names it.
        TypeError: `a` or `b` is not a sequence of responses and lacks the interface of `Decoder`, or `a` is
            one and `b` is a model.

    Example:
        >>> import numpy as np
        >>> from lite.models import LoggedResponse, OnnxDecoder, embedded_model_path, mismatch, score
        >>> model = OnnxDecoder(embedded_model_path())
        >>> prompt, response = np.array([10, 20]), np.arange(30, 60)
        >>> (log_probs,) = score(model, [np.concatenate([prompt, response])])
        >>> log = [LoggedResponse(prompt, response, log_probs[2:].astype(float))]
        >>> mismatch(model, log).cause is None
        True
        >>> late = [LoggedResponse(prompt, response, np.roll(log_probs[2:], 1).astype(float))]
        >>> mismatch(model, late).cause.detail
        'B has the log-prob of the previous token at each position'
    """
    if not divergence > 0:
        raise ValueError(f"divergence must be above 0, got {divergence}")
    (log_a, model_a), (log_b, model_b) = _side("a", a), _side("b", b)
    if log_a is not None and model_b is not None:
        raise TypeError("a must be a model if b is one; responses with log-probs are b")
    if (log_b is not None) == (rows is not None):
        raise ValueError("rows must be given if b is a model, and only then")
    given = _checked("rows", rows or (), log_probs=False) if log_b is None else _checked("b", log_b)
    of_a = _of_same_tokens(_checked("a", log_a), given) if model_a is None else _scored(model_a, given)
    of_b = [_values(row) for row in given] if model_b is None else _scored(model_b, given)
    log_ratios = [x - y for x, y in zip(of_a, of_b, strict=True)]
    together = np.concatenate(log_ratios)
    if model_a is not None:
        bos_token_id = _bos(model_a, bos_token_id)
    cause, tried = find_causes(model_a, given, of_a, of_b, bos_token_id)
    return Mismatch(
        rows=given,
        log_probs_a=of_a,
        log_probs_b=of_b,
        estimates=estimates(together),
        first_divergence=first_beyond(log_ratios, divergence),
        divergence=divergence,
        by_position=by_position(log_ratios),
        by_probability=by_probability(np.concatenate(of_a), together),
        cause=cause,
        tried=tried,
    )


def _side(name: str, side: Any) -> tuple[Sequence[Any] | None, Decoder | None]:
    """The responses or the model that a side is."""
    if isinstance(side, Sequence) and not isinstance(side, str):
        return side, None
    check_decoder(side, name)
    return None, side


def _bos(model: Decoder, given: int | None) -> int | None:
    """The token that begins texts, as given or as the model's files say."""
    if given is None:
        return model.config.bos_token_id if model.config else None
    try:
        model.check_ids([given])
    except ValueError as error:
        raise ValueError(f"bos_token_id: {error}") from None
    return given


def _checked(name: str, rows: Sequence[Any] | None, *, log_probs: bool = True) -> list[LoggedResponse]:
    """The rows, with a log-prob for each token where they have to have them."""
    if not rows:
        raise ValueError(f"{name}: there must be at least one response to compare, got none")
    for i, row in enumerate(rows):
        if not isinstance(row, LoggedResponse):
            raise TypeError(f"{name}: responses must be LoggedResponse, entry {i} is {type(row).__name__}")
        if log_probs and (row.log_probs is None or len(row.log_probs) != len(row.response_ids)):
            raise ValueError(f"{row.where or f'row {i}'} must have a log-prob for each token of the response")
        if not len(row.prompt_ids) or not len(row.response_ids):
            raise ValueError(
                f"{row.where or f'row {i}'}: prompt and response must each hold at least one token"
            )
    return list(rows)


def _values(row: LoggedResponse) -> NDArray[np.float64]:
    return np.asarray(row.log_probs, np.float64)


def _of_same_tokens(a: Sequence[LoggedResponse], b: Sequence[LoggedResponse]) -> list[NDArray[np.float64]]:
    """The log-probs of A for each row of B, found by its tokens; of equal rows the first is the first's."""

    def key(row: LoggedResponse, skipped: int = 0) -> tuple[bytes, bytes]:
        prompt, response = (np.asarray(ids, np.int64) for ids in (row.prompt_ids, row.response_ids))
        return prompt[skipped:].tobytes(), response.tobytes()

    waiting: dict[tuple[bytes, bytes], list[int]] = {}
    for i in reversed(range(len(a))):
        waiting.setdefault(key(a[i]), []).append(i)
    found = []
    for i, row in enumerate(b):
        same = waiting.get(key(row))
        if not same:
            near = key(row, 1) in waiting or any(
                key(a[j], 1) == key(row) for js in waiting.values() for j in js
            )
            hint = ", but one whose prompt has a token more or less at its beginning" if near else ""
            raise ValueError(f"{row.where or f'row {i}'} of b: no row of a has the same tokens{hint}")
        found.append(same.pop())
    if rest := [i for js in waiting.values() for i in js]:
        i = min(rest)
        raise ValueError(f"{a[i].where or f'row {i}'} of a: no row of b has the same tokens")
    return [_values(a[i]) for i in found]


def _scored(decoder: Decoder, rows: Sequence[LoggedResponse]) -> list[NDArray[np.float64]]:
    """Log-probs of each response under a model."""
    for i, row in enumerate(rows):
        try:
            checked_given(decoder, row.ids)
        except ValueError as error:
            raise ValueError(f"{row.where or f'row {i}'}: {error}") from None
    scores = score(decoder, [row.ids for row in rows])
    return [own[len(row.prompt_ids) :].astype(np.float64) for row, own in zip(rows, scores, strict=True)]
