"""Which of the usual mistakes makes two columns of log-probs, A and B, differ.

For each mistake, B is predicted from A: the log-probs that A would have with this mistake. The mistake whose
prediction is nearest to B is named, if it explains most of the difference and leaves little. For different
models some temperature is nearest, too, but it leaves much, or is an edge of the grid, so it is not named. A
sample of the tokens is enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lite.kernels import token_log_probs
from lite.models.comparison.logged import LoggedResponse
from lite.models.comparison.supports import WHOLE, Support, SupportFit, at_edge, finer, mildness, supports
from lite.models.decoder.protocol import Decoder
from lite.models.decoder.scoring import score

ROUNDING = 1e-6  # mean difference in nats; below, A and B agree
AGREE = 1e-3  # mean difference; below, A and B agree unless a cause convinces
EXPLAINS = 0.5  # the share of the difference that a cause has to explain
LITTLE = 0.25  # the mean difference, in nats, that it may leave: that of coarse quantisation
NEARLY_ALL = 0.9  # the explained share from which on it may leave more
BETTER = 0.6  # two causes together are named if they leave less than this share of what one leaves
MOST = 10.0  # differences of a token are clipped to this, so that one outlier does not decide
TOKENS, TOKENS_OF_A_ROW = 4096, 256  # the sample: at most so many in all, and of a row
LOGITS = 2**25  # at most, vocabulary times tokens: they are computed for each cause
FEWEST = 8  # tokens below which no cause is named
_TEMPERATURES = tuple(2.0 ** (i / 8) for i in range(-16, 17))


@dataclass(frozen=True)
class Cause:
    """A mistake that might explain the difference.

    Attributes:
        name: "temperature", "truncated support", "temperature and truncated support", "off by one",
            "special tokens", "quantisation" or "unexplained".
        detail: what B seems to have done, in a sentence.
        explained: the share of the mean difference that it explains; 0 if there are too few tokens.
        parameters: its numbers, such as `{"temperature": 0.7}`.
        left: the mean absolute difference that it leaves, in nats.
        at_edge: whether its parameter is an edge of the grid: one beyond might be nearer, so it is not named.
    """

    name: str
    detail: str
    explained: float = 0.0
    parameters: dict[str, float] = field(default_factory=dict)
    left: float = 0.0
    at_edge: bool = False

    @property
    def convinces(self) -> bool:
        """Whether it explains most of the difference and leaves little."""
        enough = self.explained >= (EXPLAINS if self.left <= LITTLE else NEARLY_ALL)
        return enough and not self.at_edge


@dataclass(frozen=True)
class _Evidence:
    """A sample of the tokens: the first ones of some rows."""

    rows: list[LoggedResponse]  # cut to the sample, as b is
    a: list[NDArray[np.float64]]  # of the whole row: the shift by one reads the token after the sample
    b: list[NDArray[np.float64]]

    def tried(
        self, name: str, detail: str, values: Sequence[NDArray[np.float64]], **parameters: float
    ) -> Cause:
        """The cause whose prediction of B is `values`, NaN where it predicts nothing."""
        predicted, b = np.concatenate(values), np.concatenate(self.b)
        a = np.concatenate([row[: len(own)] for row, own in zip(self.a, self.b, strict=True)])
        known = ~np.isnan(predicted)
        before, after = _size(b - a)[known].sum(), _size(b - predicted)[known].sum()
        enough = known.sum() >= max(FEWEST, len(b) // 4) and before > 0
        explained = float(1 - after / before) if enough else 0.0
        return Cause(name, detail, explained, parameters, float(after / max(1, known.sum())))


def find_causes(
    decoder: Decoder | None,
    rows: Sequence[LoggedResponse],
    a: Sequence[NDArray[np.float64]],
    b: Sequence[NDArray[np.float64]],
    bos_token_id: int | None,
) -> tuple[Cause | None, tuple[Cause, ...]]:
    """The likely cause (None if A and B agree), and all causes that were tried, the best first.

    Args:
        decoder: model A; None where A is a file, too, so that only what needs no model can be tried.
        rows: the tokens.
        a, b: their log-probs, float64 (L_i,) for the response of each row.
        bos_token_id: the token that one side may have put before the prompt, or None.
    """
    log_ratios = np.concatenate(a) - np.concatenate(b)
    if np.abs(log_ratios).mean() <= ROUNDING:
        return None, ()
    most = TOKENS if decoder is None else max(256, min(TOKENS, LOGITS // decoder.vocab_size))
    evidence = _chosen(rows, a, b, most)
    tried = [*_shifted_values(evidence)]
    both = None
    if decoder is not None:
        *single, both = _sampling(decoder, evidence)
        tried += [
            *_shifted_distributions(decoder, evidence),
            *_special_tokens(decoder, evidence, bos_token_id),
            *single,
        ]
    tried.sort(key=lambda cause: -cause.explained)
    best = next((cause for cause in tried if cause.convinces), None)
    if both is not None:
        if both.convinces and 1 - both.explained < BETTER * (1 - tried[0].explained):
            best = both
        tried = sorted([*tried, both], key=lambda cause: -cause.explained)
    if best is None and np.abs(log_ratios).mean() > AGREE:
        best = _noise(np.concatenate(a), log_ratios, decoder is None)
    return best, tuple(tried)


def _chosen(
    rows: Sequence[LoggedResponse],
    a: Sequence[NDArray[np.float64]],
    b: Sequence[NDArray[np.float64]],
    most: int,
) -> _Evidence:
    """Rows drawn at random, always the same, until they have `most` tokens."""
    out = _Evidence([], [], [])
    for i in np.random.default_rng(0).permutation(len(rows)).tolist():
        if most <= 0:
            break
        row, count = rows[i], min(len(b[i]), TOKENS_OF_A_ROW, most)
        out.rows.append(LoggedResponse(row.prompt_ids, row.response_ids[:count]))
        out.a.append(a[i])
        out.b.append(b[i][:count])
        most -= count
    return out


def _shifted_values(evidence: _Evidence) -> Iterator[Cause]:
    """Causes "off by one" in the columns: B has A's values of the next or the previous token."""
    for shift, where in ((1, "next"), (-1, "previous")):
        values = []
        for a, b in zip(evidence.a, evidence.b, strict=True):
            at = np.arange(len(b)) + shift
            inside = (at >= 0) & (at < len(a))
            values.append(np.where(inside, a[np.where(inside, at, 0)], np.nan))
        yield evidence.tried(
            "off by one", f"B has the log-prob of the {where} token at each position", values, shift=shift
        )


def _shifted_distributions(decoder: Decoder, evidence: _Evidence) -> Iterator[Cause]:
    """Causes "off by one" in the logits: B scores tokens by the logits of the position after or before."""
    late = [np.full(len(b), np.nan) for b in evidence.b]
    early = [np.full(len(b), np.nan) for b in evidence.b]
    for i, start, logits in _distributions(decoder, evidence.rows):
        ids = evidence.rows[i].response_ids
        for values, shift in ((late, -1), (early, 1)):
            at = np.arange(start, start + len(logits)) + shift  # tokens scored under other distributions
            inside = (at >= 0) & (at < len(ids))
            if inside.any():
                values[i][at[inside]] = token_log_probs(logits[inside], ids[at[inside]])
    yield evidence.tried(
        "off by one", "B scores each token by the logits after it, which have seen it", late, logits=1
    )
    yield evidence.tried(
        "off by one", "B scores each token by the logits one position too early", early, logits=-1
    )


def _special_tokens(decoder: Decoder, evidence: _Evidence, bos: int | None) -> Iterator[Cause]:
    """Causes "special tokens": B has one beginning-of-text token more or less before the prompt."""
    if bos is None:
        return
    with_bos = [np.concatenate([[bos], row.prompt_ids]) for row in evidence.rows]
    without = [
        row.prompt_ids[1:] if row.prompt_ids[0] == bos and len(row.prompt_ids) > 1 else None
        for row in evidence.rows
    ]
    yield evidence.tried(
        "special tokens",
        f"B put another beginning-of-text token ({bos}) before the prompt",
        _rescored(decoder, evidence.rows, with_bos),
        added=bos,
    )
    yield evidence.tried(
        "special tokens",
        f"B left the beginning-of-text token ({bos}) of the prompt out",
        _rescored(decoder, evidence.rows, without),
        removed=bos,
    )


def _rescored(
    decoder: Decoder, rows: Sequence[LoggedResponse], prompts: Sequence[NDArray[np.int64] | None]
) -> list[NDArray[np.float64]]:
    """Log-probs of responses after other prompts; NaN after None, and where a row outgrows the context."""
    out = [np.full(len(row.response_ids), np.nan) for row in rows]
    limit = decoder.context_length
    ids = {
        i: np.concatenate([prompt, row.response_ids])
        for i, (row, prompt) in enumerate(zip(rows, prompts, strict=True))
        if prompt is not None and (limit is None or len(prompt) + len(row.response_ids) <= limit)
    }
    for i, scores in zip(ids, score(decoder, list(ids.values())), strict=True):
        out[i] = scores[-len(out[i]) :].astype(np.float64)
    return out


def _sampling(decoder: Decoder, evidence: _Evidence) -> tuple[Cause, Cause, Cause]:
    """The best temperature, the best support, and the best of both together.

    A coarse grid of all pairs comes first, then a fine one around the best pairs of the coarse one.
    """
    every = supports(decoder.vocab_size)
    coarse = _fitted(decoder, evidence, {t: {WHOLE, *every} for t in _TEMPERATURES})
    grid: dict[float, set[Support]] = {}
    for pairs in _kinds(coarse):
        # The best of each kind: a value between two points of its coarse grid may beat the other kinds.
        for kind in sorted({support.kind for _, support in pairs}):
            temperature, support = min((p for p in pairs if p[1].kind == kind), key=coarse.__getitem__)
            for t in _near(temperature) if temperature != 1 else [1.0]:
                grid.setdefault(t, set()).update(finer(support))
    fine = _fitted(decoder, evidence, grid)
    out = []
    a = np.concatenate([row[: len(own)] for row, own in zip(evidence.a, evidence.b, strict=True)])
    before = float(_size(np.concatenate(evidence.b) - a).sum())
    names = ("temperature", "truncated support", "temperature and truncated support")
    for name, pairs in zip(names, _kinds(fine), strict=True):
        temperature, support = min(pairs, key=fine.__getitem__)
        parameters = {} if temperature == 1 else {"temperature": temperature}
        parameters |= {} if support == WHOLE else {support.kind: support.value}
        said = " and ".join(f"{key} {value:g}" for key, value in parameters.items())
        out.append(
            Cause(
                name,
                f"B's log-probs are those of A under {said}",
                1 - fine[temperature, support] / before if before else 0.0,
                parameters,
                fine[temperature, support] / len(a),
                not _TEMPERATURES[0] <= temperature <= _TEMPERATURES[-1] or at_edge(support),
            )
        )
    return out[0], out[1], out[2]


def _kinds(pairs: Mapping[tuple[float, Support], float]) -> tuple[list[tuple[float, Support]], ...]:
    """The pairs with another temperature, with another support, and with both."""
    return (
        [(t, s) for t, s in pairs if t != 1 and s == WHOLE],
        [(t, s) for t, s in pairs if t == 1 and s != WHOLE],
        [(t, s) for t, s in pairs if t != 1 and s != WHOLE],
    )


def _near(temperature: float) -> list[float]:
    """Temperatures of two digits around one of `_TEMPERATURES`, up to its neighbours."""
    step = 0.01 if temperature < 2 else 0.02
    low, high = temperature / 2**0.125, temperature * 2**0.125
    near = np.round(np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step, 2)
    return [float(t) for t in near if t != 1]


def _fitted(
    decoder: Decoder, evidence: _Evidence, grid: Mapping[float, set[Support]]
) -> dict[tuple[float, Support], float]:
    """For each pair of temperature and support: the sum of unexplained differences."""
    # The mildest support first: it is named if several fit the sample equally well.
    fit = SupportFit({t: sorted(some, key=mildness, reverse=True) for t, some in grid.items()}, MOST)
    for i, start, logits in _distributions(decoder, evidence.rows):
        ids = evidence.rows[i].response_ids[start : start + len(logits)]
        fit.add(logits[: len(ids)], ids, evidence.b[i][start : start + len(ids)])
    return fit.left


def _distributions(
    decoder: Decoder, rows: Sequence[LoggedResponse]
) -> Iterator[tuple[int, int, NDArray[np.float32]]]:
    """Logits (n, V) of the response's positions, in chunks: row, first position, logits.

    Position j is the distribution of token j; the last one is that of the token after the response.
    """
    held = decoder.acquire(1)
    try:
        for i, row in enumerate(rows):
            yield i, 0, np.asarray(decoder.prefill_rows(held, [row.prompt_ids]))
            chunk = decoder.chunk_length(1)
            for start in range(0, len(row.response_ids), chunk):
                (logits,) = decoder.extend(held, [row.response_ids[start : start + chunk]])
                yield i, start + 1, np.asarray(logits)
    finally:
        decoder.release(held)


def _noise(a: NDArray[np.float64], log_ratios: NDArray[np.float64], without_model: bool) -> Cause:
    """The cause "quantisation" if the difference looks like noise, else "unexplained".

    Noise is spread over many tokens, and its mean is small: tokens sampled from B have log B - log A =
    KL(B, A) on average, which is half the variance for small noise.
    """
    size = _size(log_ratios)
    deviation, mean = float(np.sqrt((size**2).mean())), float(log_ratios.mean())
    unsure = size[a < np.log(0.9)]  # noise hardly changes tokens whose probability is near 1
    even = len(unsure) < FEWEST or np.median(unsure) > 0.1 * unsure.mean()
    bias = 3 * deviation / np.sqrt(len(log_ratios)) + deviation**2  # three standard errors, and the KL
    if even and deviation < 0.5 and abs(mean) <= bias:
        return Cause(
            "quantisation",
            f"the difference is noise of deviation {deviation:.2g} around {mean:.2g}: weights or sums of "
            "another precision",
            0.0,
            {"deviation": deviation},
        )
    detail = "none of the causes that were tried explains most of the difference"
    if without_model:
        detail += "; with the model itself as A, temperatures, supports and special tokens are tried, too"
    return Cause("unexplained", detail)


def _size(difference: NDArray[np.float64]) -> NDArray[np.float64]:
    """Absolute differences, clipped at `MOST`."""
    return np.minimum(np.abs(difference), MOST)
