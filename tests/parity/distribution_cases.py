"""Distributions of both libraries with the same parameters: for tests of values and of gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensordict.nn.distributions as td_nn
import torch
from torchrl.modules import distributions as rl

from lite.nn import distributions as ours

D = torch.distributions
Rng = np.random.Generator
Make = Callable[[Rng, tuple[int, ...]], Any]


class Case(NamedTuple):
    """A distribution of both libraries.

    Attributes:
        ours, theirs: make it of parameters, given by keyword.
        params: parameters of a batch, by name.
        values: values to score, of a batch.
        members: properties and methods that both have; all, where there are none.
    """

    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    params: Make
    values: Make
    members: tuple[str, ...] = ()


def tensors(kwargs: dict[str, Any], dtype: Any = None) -> dict[str, Any]:
    """Arrays as tensors of their own."""
    return {
        k: torch.from_numpy(np.array(v, dtype or v.dtype)) if isinstance(v, np.ndarray | np.generic) else v
        for k, v in kwargs.items()
    }


def of_torch(name: str, params: Make, values: Make) -> Case:
    return Case(getattr(ours, name), lambda **kw: getattr(D, name)(**kw, validate_args=False), params, values)


def of(name: str, params: Make, values: Make, *members: str, source: Any = rl, **options: Any) -> Case:
    """A distribution of TorchRL or tensordict, which keep bounds that are numbers in float32."""

    def theirs(**kw: Any) -> Any:
        dtype = next(iter(kw.values())).dtype
        bounds = {k: torch.tensor(v, dtype=dtype) if type(v) is float else v for k, v in options.items()}
        return getattr(source, name)(**kw, **bounds)

    return Case(lambda **kw: getattr(ours, name)(**kw, **options), theirs, params, values, members)


def positive(rng: Rng, s: tuple[int, ...]) -> Any:
    return np.exp(rng.uniform(-1.5, 1.5, s))


def matrices(rng: Rng, s: tuple[int, ...]) -> Any:
    root = rng.normal(size=(*s, 3, 3))
    return root @ root.swapaxes(-1, -2) + np.eye(3)


def between(low: float, high: float) -> Make:
    return lambda rng, s: rng.uniform(low, high, s)


def counts(rng: Rng, s: tuple[int, ...]) -> Any:
    return rng.integers(0, 8, s).astype(float)


def bits(rng: Rng, s: tuple[int, ...]) -> Any:
    return rng.integers(0, 2, s).astype(float)


def classes(rng: Rng, s: tuple[int, ...]) -> Any:
    return rng.integers(0, 4, s)


def one_hot(rng: Rng, s: tuple[int, ...]) -> Any:
    return np.eye(4, dtype=np.int64)[classes(rng, s)]


def simplex(rng: Rng, s: tuple[int, ...]) -> Any:
    return rng.dirichlet(np.ones(4), s)


def drawn(rng: Rng, s: tuple[int, ...]) -> Any:
    return rng.multinomial(5, np.full(4, 0.25), s).astype(float)


def each(**makers: Make) -> Make:
    """Parameters by name, each drawn by its function."""
    return lambda rng, s: {name: make(rng, s) for name, make in makers.items()}


def last(make: Make, n: int = 4) -> Make:
    """With a last dimension."""
    return lambda rng, s: make(rng, (*s, n))


def number(value: Any) -> Make:
    return lambda rng, s: value


logits, shares, inside, real = between(-3, 3), between(0.05, 0.95), between(0.01, 0.99), between(-4, 4)
loc_and_scale = each(loc=lambda rng, s: rng.normal(size=s), scale=positive)
near = each(loc=last(between(-2, 2)), scale=last(between(0.3, 2)))

TORCH = {
    "Bernoulli, probs": of_torch("Bernoulli", each(probs=shares), bits),
    "Bernoulli, logits": of_torch("Bernoulli", each(logits=logits), bits),
    "Beta": of_torch("Beta", each(concentration1=positive, concentration0=positive), inside),
    "Binomial, probs": of_torch(
        "Binomial", each(total_count=lambda r, s: np.full(s, 7.0), probs=shares), counts
    ),
    "Binomial, logits": of_torch("Binomial", each(total_count=number(7), logits=logits), counts),
    "Cauchy": of_torch("Cauchy", loc_and_scale, real),
    "Chi2": of_torch("Chi2", each(df=positive), positive),
    "Dirichlet": of_torch("Dirichlet", each(concentration=last(positive)), simplex),
    "Exponential": of_torch("Exponential", each(rate=positive), positive),
    **{
        f"RelaxedOneHotCategorical, {name}": of_torch(
            "RelaxedOneHotCategorical",
            each(**{"temperature": number(np.array(0.7)), name: last(shares)}),
            simplex,
        )
        for name in ("probs", "logits")
    },
    "Gamma": of_torch("Gamma", each(concentration=positive, rate=positive), positive),
    "Geometric, probs": of_torch("Geometric", each(probs=shares), counts),
    "Geometric, logits": of_torch("Geometric", each(logits=logits), counts),
    "Gumbel": of_torch("Gumbel", loc_and_scale, real),
    "HalfNormal": of_torch("HalfNormal", each(scale=positive), positive),
    "Laplace": of_torch("Laplace", loc_and_scale, real),
    "LogNormal": of_torch("LogNormal", loc_and_scale, positive),
    "Multinomial, probs": of_torch("Multinomial", each(total_count=number(5), probs=last(shares)), drawn),
    "Multinomial, logits": of_torch("Multinomial", each(total_count=number(5), logits=last(logits)), drawn),
    **{
        f"MultivariateNormal, {name}": of_torch(
            "MultivariateNormal",
            lambda r, s, name=name, form=form: {"loc": r.normal(size=(*s, 3)), name: form(matrices(r, s))},
            last(real, 3),
        )
        for name, form in (
            ("covariance_matrix", np.asarray),
            ("precision_matrix", np.asarray),
            ("scale_tril", np.linalg.cholesky),
        )
    },
    "NegativeBinomial, probs": of_torch("NegativeBinomial", each(total_count=positive, probs=shares), counts),
    "NegativeBinomial, logits": of_torch(
        "NegativeBinomial", each(total_count=positive, logits=logits), counts
    ),
    "Normal": of_torch("Normal", loc_and_scale, real),
    "Pareto": of_torch("Pareto", each(scale=positive, alpha=positive), lambda r, s: 4.5 + positive(r, s)),
    "Poisson": of_torch("Poisson", each(rate=positive), counts),
    "StudentT": of_torch("StudentT", lambda r, s: {"df": positive(r, s), **loc_and_scale(r, s)}, real),
    "Uniform": of_torch("Uniform", each(low=between(-6, -2), high=between(2, 6)), between(-2, 2)),
    "VonMises": of_torch("VonMises", each(loc=real, concentration=positive), real),
    # torch's mode is wrong for concentrations below 1
    "Weibull": of_torch(
        "Weibull", each(scale=positive, concentration=lambda r, s: 1 + positive(r, s)), positive
    ),
}
MOMENTS = ("mean", "mode", "variance", "stddev")
SCORES = ("log_prob", "entropy")
DRAW = "deterministic_sample"
OTHERS = {
    "Categorical, probs": Case(
        ours.Categorical, D.Categorical, each(probs=last(shares)), classes, ("mode", *SCORES)
    ),
    "Categorical, logits": Case(
        ours.Categorical, D.Categorical, each(logits=last(logits)), classes, ("mode", *SCORES)
    ),
    "Independent": Case(
        lambda **kw: ours.Independent(ours.Normal(**kw), 1),
        lambda **kw: D.Independent(D.Normal(**kw), 1),
        lambda r, s: loc_and_scale(r, (*s, 4)),
        last(real),
        (*MOMENTS, *SCORES),
    ),
    "IndependentNormal": of(
        "IndependentNormal", lambda r, s: loc_and_scale(r, (*s, 4)), last(real), *MOMENTS, DRAW, *SCORES
    ),
    "TanhNormal": of("TanhNormal", near, last(between(-0.95, 0.95)), DRAW, "log_prob"),
    "TanhNormal, bounds": of(
        "TanhNormal", near, last(between(-1.9, 4.9)), DRAW, "log_prob", low=-2.0, high=5.0
    ),
    "TanhNormal, tanh_loc": of(
        "TanhNormal", near, last(between(0.1, 2.9)), DRAW, "log_prob",
        low=0.0, high=3.0, tanh_loc=True, upscale=2,
    ),
    "TanhNormal, elementwise": of(
        "TanhNormal", near, last(between(-0.95, 0.95)), DRAW, "log_prob", "cdf", event_dims=0
    ),
    "TruncatedNormal": of(
        "TruncatedNormal", near, last(between(-0.99, 0.99)), "mean", "mode", "variance", "log_prob"
    ),
    "TruncatedNormal, bounds": of(
        "TruncatedNormal", near, last(between(-2.9, 0.49)), "mean", "mode", "variance", DRAW, "log_prob",
        low=-3.0, high=0.5, tanh_loc=True,
    ),
    "TruncatedNormal, a and b": of(
        "TruncatedNormal", near, last(between(-0.99, 0.99)), "mean", "variance", "log_prob", "cdf", "icdf",
        source=td_nn, a=-1.0, b=1.0,
    ),
    "OneHotCategorical, logits": of(
        "OneHotCategorical", each(logits=last(logits)), one_hot, "mode", *SCORES, source=td_nn
    ),
    "OneHotCategorical, probs": of("OneHotCategorical", each(probs=last(shares)), one_hot, "mode", *SCORES),
    "OneHotCategorical, torch": of(
        "OneHotCategorical", each(logits=last(logits)), one_hot, "mean", "variance", "log_prob", source=D
    ),
    "OneHotCategoricalStraightThrough": of(
        "OneHotCategoricalStraightThrough", each(logits=last(logits)), one_hot, "mean", "mode", "variance",
        *SCORES, source=D,
    ),
    "Ordinal": of("Ordinal", each(scores=last(logits)), classes, "mode", "probs", *SCORES),
    "OneHotOrdinal": of("OneHotOrdinal", each(scores=last(logits)), one_hot, "mode", "probs", *SCORES),
    "Delta": of(
        "Delta", each(param=last(real)), last(real), "mean", "mode", DRAW, "log_prob", source=td_nn
    ),
    "TanhDelta": of("TanhDelta", each(param=last(real)), last(real), "mode", DRAW),
    "TanhDelta, bounds": of(
        "TanhDelta", each(param=last(real)), last(real), "mode", DRAW, low=-1.0, high=3.0
    ),
}  # fmt: skip
