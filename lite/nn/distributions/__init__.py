"""Distributions on NumPy: log-probs, samples from a `numpy.random.Generator`, modes, entropies.

In reading order: `arrays` makes arrays of parameters and is the only place that draws; `support` has the
sets of values; `distribution` says what each distribution offers. Then one family per file: `normal`,
`tanh_normal` and `truncated_normal` (`tanh` has their map to an interval), `uniform`, `delta`, `bernoulli`,
`categorical`, `one_hot_categorical`, `ordinal`, `masked_categorical` and `llm_masked_categorical`.
`independent` and `composite` are made of others; `log_prob_distribution` holds log-probs that are known, and
`log_prob_names` says under which keys log-probs are written.
"""

from __future__ import annotations

from lite._arrays.public import belong_here as _belong_here
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

# tensordict.nn.distributions has these, too; they belong to lite.nn.
from lite.nn.layers.normal_params import (
    AddStateIndependentNormalScale as AddStateIndependentNormalScale,
)
from lite.nn.layers.normal_params import NormalParamExtractor as NormalParamExtractor
from lite.nn.layers.normal_params import add_custom_mapping as add_custom_mapping
from lite.nn.layers.normal_params import mappings as mappings
from lite.nn.settings import InteractionType as InteractionType
from lite.nn.settings import set_interaction_type as set_interaction_type

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

_belong_here(globals())
