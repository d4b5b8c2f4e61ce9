"""Distributions on NumPy: log-probs, samples from a `numpy.random.Generator`, modes, entropies.

`distribution` says what each offers, and the others hold one family per file. `support` has the sets of
values, `_arguments` turns parameters into arrays, `_draw` is the only place that draws.
"""

from __future__ import annotations

from lite.nn.distributions.bernoulli import Bernoulli
from lite.nn.distributions.categorical import Categorical
from lite.nn.distributions.composite import CompositeDistribution
from lite.nn.distributions.delta import Delta, TanhDelta
from lite.nn.distributions.distribution import Distribution
from lite.nn.distributions.independent import Independent
from lite.nn.distributions.llm_masked_categorical import LLMMaskedCategorical
from lite.nn.distributions.log_prob_distribution import LogProbDistribution
from lite.nn.distributions.masked_categorical import MaskedCategorical, MaskedOneHotCategorical
from lite.nn.distributions.normal import IndependentNormal, Normal
from lite.nn.distributions.one_hot_categorical import OneHotCategorical, rand_one_hot
from lite.nn.distributions.ordinal import OneHotOrdinal, Ordinal
from lite.nn.distributions.tanh_normal import TanhNormal
from lite.nn.distributions.truncated_normal import TruncatedNormal
from lite.nn.distributions.uniform import Uniform

__all__ = [
    "Bernoulli",
    "Categorical",
    "CompositeDistribution",
    "Delta",
    "Distribution",
    "Independent",
    "IndependentNormal",
    "LLMMaskedCategorical",
    "LogProbDistribution",
    "MaskedCategorical",
    "MaskedOneHotCategorical",
    "Normal",
    "OneHotCategorical",
    "OneHotOrdinal",
    "Ordinal",
    "TanhDelta",
    "TanhNormal",
    "TruncatedNormal",
    "Uniform",
    "distributions_maps",
    "rand_one_hot",
]

# Names in lower case, as `distribution_class` of a probabilistic module takes them.
distributions_maps: dict[str, type[Distribution]] = {
    cls.__name__.lower(): cls
    for cls in (
        Bernoulli,
        Categorical,
        CompositeDistribution,
        Delta,
        IndependentNormal,
        LLMMaskedCategorical,
        MaskedCategorical,
        MaskedOneHotCategorical,
        Normal,
        OneHotCategorical,
        OneHotOrdinal,
        Ordinal,
        TanhDelta,
        TanhNormal,
        TruncatedNormal,
        Uniform,
    )
}
