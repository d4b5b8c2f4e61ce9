"""Kullback-Leibler divergences: a table of pairs of classes, to which other pairs can be added.

Formulas are computed in float64, as the differences of large terms that they are. Where the classes differ
the divergence is the mean of the second one's negative log-density under the first, less the entropy of the
first: `_surprise` has the one, and what it needs of a distribution beside its mean and variance is in
`_mean_log` and `_mean_exp`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lite._arrays.caller import warn
from lite._arrays.formulas import erf, log_gamma
from lite._arrays.special import digamma, log_beta, xlogy
from lite._arrays.types import Array
from lite.nn.distributions.continuous.dirichlet import Beta, Dirichlet
from lite.nn.distributions.continuous.extreme_values import Gumbel, Pareto
from lite.nn.distributions.continuous.gamma import Exponential, Gamma
from lite.nn.distributions.continuous.heavy_tails import Cauchy, Laplace
from lite.nn.distributions.continuous.multivariate_normal import MultivariateNormal, log_diagonal
from lite.nn.distributions.continuous.normal import HalfNormal, Normal
from lite.nn.distributions.continuous.tanh_normal import TanhNormal
from lite.nn.distributions.continuous.uniform import Uniform
from lite.nn.distributions.discrete.binomial import Binomial, Poisson
from lite.nn.distributions.discrete.categorical import Categorical
from lite.nn.distributions.discrete.geometric import Bernoulli, Geometric
from lite.nn.distributions.distribution import EULER, HALF_LOG_2PI, Distribution, sum_rightmost
from lite.nn.distributions.independent import Independent
from lite.nn.distributions.transformed import TransformedDistribution

Rule = Callable[[Any, Any], Any]
_rules: dict[tuple[type[Distribution], type[Distribution]], Rule] = {}


def register_kl(type_p: type[Distribution], type_q: type[Distribution]) -> Callable[[Rule], Rule]:
    """Make a function the divergence of two classes, and of their subclasses that have none of their own.

    Args:
        type_p: class of the distribution that the mean is taken under.
        type_q: class of the other.

    Raises:
        TypeError: one of them is not a class of distributions.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import Delta, Normal, kl_divergence, register_kl
        >>> @register_kl(Delta, Normal)
        ... def infinite(p, q):
        ...     return np.full(p.batch_shape, np.inf)
        >>> kl_divergence(Delta(np.zeros((2, 1))), Normal(np.zeros(2), 1.0))
        array([inf, inf])

    Source:
        torch.distributions.register_kl.
    """
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not (isinstance(kind, type) and issubclass(kind, Distribution)):
            raise TypeError(f"{name} must be a subclass of Distribution, got {kind!r}")

    def register(rule: Rule) -> Rule:
        _rules[type_p, type_q] = rule
        return rule

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Array:
    """The Kullback-Leibler divergence of `q` from `p`: the mean of log p(x) - log q(x) for x drawn from `p`.

    Args:
        p: a distribution.
        q: another one; their batches are broadcast.

    Returns:
        Numbers of the shape of the batch, infinite where `q` excludes what `p` may draw.

    Raises:
        NotImplementedError: there is no formula for the two classes or their base distributions.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import Normal, kl_divergence
        >>> kl_divergence(Normal(np.zeros(2), 1.0), Normal(np.array([0.0, 2.0]), 1.0))
        array([0., 2.])

    Source:
        torch.distributions.kl_divergence.
    """
    ways = [
        (i, j, _rules[kind_p, kind_q])
        for i, kind_p in enumerate(type(p).__mro__)
        for j, kind_q in enumerate(type(q).__mro__)
        if (kind_p, kind_q) in _rules
    ]
    if not ways:
        raise NotImplementedError(
            f"there is no formula of KL(p || q) for a {type(p).__name__} and a {type(q).__name__}; add one "
            "with register_kl"
        )
    rule = min(ways, key=lambda way: way[:2])[2]
    if rule is not min(ways, key=lambda way: (way[1], way[0]))[2]:
        warn(
            f"two formulas fit kl_divergence({type(p).__name__}, {type(q).__name__}) equally; name one with "
            f"register_kl({type(p).__name__}, {type(q).__name__})",
            RuntimeWarning,
        )
    return rule(p, q)


def _pair(*kinds: type[Distribution]) -> Callable[[Rule], Rule]:
    """Register a formula of the parameters, which it gets as float64."""

    def register(formula: Rule) -> Rule:
        def rule(p: Distribution, q: Distribution) -> Array:
            with np.errstate(all="ignore"):
                out = formula(_wide(p), _wide(q))
                return out.astype(np.result_type(p._dtype, q._dtype), copy=False)

        register_kl(kinds[0], kinds[-1])(rule)
        return formula

    return register


def _wide(dist: Distribution) -> Distribution:
    out = copy.copy(dist)
    for name in dist._batched:
        value = dist.__dict__.get(name)
        if value is not None:
            out.__dict__[name] = value.astype(np.float64)
    return out


# -- distributions made of others ----------------------------------------------------------------------------


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Array:
    dims = p.reinterpreted_batch_ndims
    if dims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            f"reinterpreted_batch_ndims must be equal, got {dims} and {q.reinterpreted_batch_ndims}"
        )
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), dims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Array:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError(
            "KL(p || q) needs equal transforms and event shapes, got "
            f"{p.transforms} of {p.event_shape} and {q.transforms} of {q.event_shape}"
        )
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(TanhNormal, TanhNormal)
def _tanh_normal(p: TanhNormal, q: TanhNormal) -> Array:
    same = np.array_equal(p.low, q.low) and np.array_equal(p.high, q.high)
    if not same or p.event_shape != q.event_shape:
        raise NotImplementedError(
            "KL(p || q) needs equal bounds and event shapes, got "
            f"{p.low} to {p.high} of {p.event_shape} and {q.low} to {q.high} of {q.event_shape}"
        )
    return sum_rightmost(kl_divergence(p.root_dist, q.root_dist), len(p.event_shape))


# -- two of a class ------------------------------------------------------------------------------------------


def _share(p: Array, q: Array) -> Array:
    """p log(p / q): what values contribute of which `p` and `q` are the probabilities."""
    return np.where(p == 0, 0.0, p * np.log(p / q))


@_pair(Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Array:
    a, b = p.probs, q.probs
    return _share(a, b) + _share(1 - a, 1 - b)


@_pair(Binomial)
def _binomial(p: Binomial, q: Binomial) -> Array:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL(p || q) of Binomials has no formula where q has more trials, got a total_count of "
            f"{p.total_count} and {q.total_count}"
        )
    return np.where(p.total_count > q.total_count, np.inf, p.total_count * _bernoulli(p, q))


@_pair(Categorical)
def _categorical(p: Categorical, q: Categorical) -> Array:
    kept: list[Any] = [getattr(dist, "_indices", None) for dist in (p, q)]
    if not np.array_equal(*kept):
        raise NotImplementedError("KL(p || q) of masked classes has a formula for equal indices only")
    of_q = np.where(q.probs == 0, -np.inf, q.logits)
    return np.where(p.probs == 0, 0.0, p.probs * (p.logits - of_q)).sum(-1)


@_pair(Geometric)
def _geometric(p: Geometric, q: Geometric) -> Array:
    a, b = p.probs, q.probs
    return np.log(a / b) + _share(1 - a, 1 - b) / a


@_pair(Poisson)
def _poisson(p: Poisson, q: Poisson) -> Array:
    return _share(p.rate, q.rate) - (p.rate - q.rate)


@_pair(Beta)
def _beta(p: Beta, q: Beta) -> Array:
    a, b, c, d = p.concentration1, p.concentration0, q.concentration1, q.concentration0
    means = (a - c) * digamma(a) + (b - d) * digamma(b) - (a + b - c - d) * digamma(a + b)
    return log_beta(c, d) - log_beta(a, b) + means


@_pair(Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Array:
    c, d = p.concentration, q.concentration
    total, other = c.sum(-1), d.sum(-1)
    means = ((c - d) * (digamma(c) - digamma(total)[..., None])).sum(-1)
    return log_gamma(total) - log_gamma(other) - (log_gamma(c) - log_gamma(d)).sum(-1) + means


@_pair(Exponential)
def _exponential(p: Exponential, q: Exponential) -> Array:
    ratio = q.rate / p.rate
    return ratio - 1 - np.log(ratio)


@_pair(Gamma)
def _gamma(p: Gamma, q: Gamma) -> Array:
    a, b = p.concentration, q.concentration
    norm = log_gamma(b) - log_gamma(a) + b * np.log(p.rate / q.rate)
    return norm + (a - b) * digamma(a) + (q.rate - p.rate) * (a / p.rate)


@_pair(Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Array:
    ratio, away = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return away - np.log(ratio) + ratio * EULER + np.exp(log_gamma(1 + ratio) - away) - (1 + EULER)


@_pair(Laplace)
def _laplace(p: Laplace, q: Laplace) -> Array:
    ratio, away = p.scale / q.scale, np.abs(p.loc - q.loc)
    return away / q.scale - np.log(ratio) + ratio * np.exp(-away / p.scale) - 1


@_pair(Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Array:
    sums, away = p.scale + q.scale, p.loc - q.loc
    return np.log((sums * sums + away * away) / (4 * p.scale * q.scale))


@_pair(Normal)
def _normal(p: Normal, q: Normal) -> Array:
    ratio, away = (p.scale / q.scale) ** 2, (p.loc - q.loc) / q.scale
    return 0.5 * (ratio + away * away - 1 - np.log(ratio))


@_pair(HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Array:
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio - 1 - np.log(ratio))


@_pair(MultivariateNormal)
def _multivariate_normal(p: MultivariateNormal, q: MultivariateNormal) -> Array:
    if p.event_shape != q.event_shape:
        raise ValueError(f"p and q must have equal event shapes, got {p.event_shape} and {q.event_shape}")
    spread = np.linalg.solve(q.scale_tril, p.scale_tril)
    away = np.linalg.solve(q.scale_tril, (p.loc - q.loc)[..., None])
    squares = (spread * spread).sum((-2, -1)) + (away * away).sum((-2, -1))
    norm = log_diagonal(q.scale_tril) - log_diagonal(p.scale_tril)
    return norm + 0.5 * (squares - p.event_shape[0])


@_pair(Pareto)
def _pareto(p: Pareto, q: Pareto) -> Array:
    ratio = q.alpha / p.alpha
    out = q.alpha * np.log(p.scale / q.scale) - np.log(ratio) + ratio - 1
    return np.where(p.scale < q.scale, np.inf, out)


@_pair(Uniform)
def _uniform(p: Uniform, q: Uniform) -> Array:
    out = np.log((q.high - q.low) / (p.high - p.low))
    return np.where((q.low > p.low) | (q.high < p.high), np.inf, out)


# -- two of different classes --------------------------------------------------------------------------------


def _mean_log(p: Any) -> Array:
    """The mean of log(x)."""
    match p:
        case Beta():
            return digamma(p.concentration1) - digamma(p.concentration1 + p.concentration0)
        case Exponential():
            return -EULER - np.log(p.rate)
        case Pareto():
            return np.log(p.scale) + 1 / p.alpha
        case _:
            return _mean_log_between(p.low, p.high)


def _mean_log_between(low: Array, high: Array) -> Array:
    return (xlogy(high, high) - xlogy(low, low)) / (high - low) - 1


def _mean_exp(p: Any, loc: Array, scale: Array) -> Array:
    """The mean of exp(-(x - loc) / scale)."""
    match p:
        case Exponential():
            return np.exp(loc / scale) / (1 + 1 / (p.rate * scale))
        case Gamma():
            return np.exp(loc / scale - p.concentration * np.log1p(1 / (p.rate * scale)))
        case Normal():
            return np.exp((loc - p.loc) / scale + 0.5 * (p.scale / scale) ** 2)
        case _:
            ends = np.exp((loc - p.low) / scale) - np.exp((loc - p.high) / scale)
            return ends * scale / (p.high - p.low)


def _surprise(p: Any, q: Any) -> Array:
    """The mean of -log q(x) for x drawn from `p`."""
    match q:
        case Exponential():
            return q.rate * p.mean - np.log(q.rate)
        case Gamma():
            norm = log_gamma(q.concentration) - q.concentration * np.log(q.rate)
            return norm - (q.concentration - 1) * _mean_log(p) + q.rate * p.mean
        case Normal():
            away = p.variance + (p.mean - q.loc) ** 2
            return HALF_LOG_2PI + np.log(q.scale) + away / (2 * q.scale**2)
        case Gumbel():
            return np.log(q.scale) + (p.mean - q.loc) / q.scale + _mean_exp(p, q.loc, q.scale)
        case Laplace():
            z = (p.loc - q.loc) / p.scale
            near = p.scale * math.sqrt(2 / math.pi) * np.exp(-0.5 * z * z)
            return np.log(2 * q.scale) + (near + p.scale * z * erf(z / math.sqrt(2))) / q.scale
        case Beta():
            a, b = q.concentration1, q.concentration0
            turned = _mean_log_between(1 - p.high, 1 - p.low)
            return log_beta(a, b) - (a - 1) * _mean_log(p) - (b - 1) * turned
        case Pareto():
            return (q.alpha + 1) * _mean_log(p) - q.alpha * np.log(q.scale) - np.log(q.alpha)
        case Poisson():  # of zeros and ones, whose factorials are 1
            return q.rate - xlogy(p.probs, q.rate)
        case _:
            return np.log(q.high - q.low)


def _covers(p: Distribution, q: Distribution) -> Array:
    """Whether `q` admits all that `p` draws, which depends on the bounds of a `Uniform` alone."""
    if isinstance(q, Uniform):
        return (q.low <= 0) & (q.high >= 1)  # of the classes in the table Beta alone lies in an interval
    if not isinstance(p, Uniform) or isinstance(q, Normal | Gumbel):
        return np.asarray(True)
    low = q.scale if isinstance(q, Pareto) else 0
    return (p.low >= low) & ((p.high <= 1) if isinstance(q, Beta) else np.True_)


def _cross(p: Distribution, q: Distribution) -> Array:
    return np.where(_covers(p, q), _surprise(p, q) - p.entropy(), np.inf)


def _infinite(p: Distribution, q: Distribution) -> Array:
    return np.full(np.broadcast_shapes(p.batch_shape, q.batch_shape), np.inf)


_CROSSES: dict[type[Distribution], tuple[type[Distribution], ...]] = {
    Bernoulli: (Poisson,),
    Beta: (Exponential, Gamma, Normal, Uniform),
    Exponential: (Gamma, Gumbel, Normal),
    Gamma: (Exponential, Gumbel, Normal),
    Gumbel: (Normal,),
    Laplace: (Normal,),
    Normal: (Gumbel, Laplace),
    Pareto: (Exponential, Gamma, Normal),
    Uniform: (Beta, Exponential, Gamma, Gumbel, Normal, Pareto),
}
# Pairs whose supports always differ: the first draws values with probability 0 under the second.
_EXCLUDED: dict[type[Distribution], tuple[type[Distribution], ...]] = {
    Beta: (Pareto,),
    Exponential: (Beta, Pareto, Uniform),
    Gamma: (Beta, Pareto, Uniform),
    Gumbel: (Beta, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, Uniform),
    Poisson: (Bernoulli, Binomial),
}
for _table, _formula in ((_CROSSES, _cross), (_EXCLUDED, _infinite)):
    for _first, _others in _table.items():
        for _second in _others:
            _pair(_first, _second)(_formula)
