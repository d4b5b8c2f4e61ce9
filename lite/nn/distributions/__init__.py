"""Distributions on NumPy: log-probs, samples from a `numpy.random.Generator`, modes, entropies, divergences.

In reading order: `support` has the sets of values; `distribution` says what each distribution offers, makes
arrays of parameters and is the only place that draws. Then the families, in `continuous` and
`discrete`. `transforms` and `number_transforms` are maps of values; `independent`, `transformed`, `mixture`
and `composite` are made of other distributions; `log_prob_distribution` holds log-probs that are known, and
`log_prob_names` says under which keys log-probs are written. `kl` has the divergences of pairs.
"""

from __future__ import annotations

from lite._arrays.public import belong_here as _belong_here
from lite.nn.distributions.composite import CompositeDistribution
from lite.nn.distributions.continuous.delta import Delta, TanhDelta
from lite.nn.distributions.continuous.dirichlet import Beta, Dirichlet
from lite.nn.distributions.continuous.extreme_values import Gumbel, Pareto, Weibull
from lite.nn.distributions.continuous.gamma import Chi2, Exponential, Gamma
from lite.nn.distributions.continuous.heavy_tails import Cauchy, Laplace, StudentT
from lite.nn.distributions.continuous.multivariate_normal import MultivariateNormal
from lite.nn.distributions.continuous.normal import HalfNormal, IndependentNormal, LogNormal, Normal
from lite.nn.distributions.continuous.relaxed_one_hot_categorical import RelaxedOneHotCategorical
from lite.nn.distributions.continuous.tanh_normal import TanhNormal
from lite.nn.distributions.continuous.truncated_normal import TruncatedNormal
from lite.nn.distributions.continuous.uniform import Uniform
from lite.nn.distributions.continuous.von_mises import VonMises
from lite.nn.distributions.discrete.binomial import Binomial, Multinomial, Poisson
from lite.nn.distributions.discrete.categorical import Categorical, LLMMaskedCategorical
from lite.nn.distributions.discrete.geometric import Bernoulli, Geometric, NegativeBinomial
from lite.nn.distributions.discrete.masked_categorical import MaskedCategorical, MaskedOneHotCategorical
from lite.nn.distributions.discrete.one_hot_categorical import (
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
    OneHotOrdinal,
    Ordinal,
    rand_one_hot,
)
from lite.nn.distributions.distribution import Distribution
from lite.nn.distributions.independent import Independent
from lite.nn.distributions.kl import kl_divergence, register_kl
from lite.nn.distributions.log_prob_distribution import LogProbDistribution
from lite.nn.distributions.mixture import MixtureSameFamily
from lite.nn.distributions.number_transforms import (
    AbsTransform,
    AffineTransform,
    ExpTransform,
    PowerTransform,
    SafeTanhTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
)
from lite.nn.distributions.transformed import TransformedDistribution
from lite.nn.distributions.transforms import (
    ComposeTransform,
    IndependentTransform,
    ReshapeTransform,
    Transform,
    identity_transform,
)

# tensordict.nn.distributions has these, too; they belong to lite.nn.
from lite.nn.layers.normal_params import AddStateIndependentNormalScale as AddStateIndependentNormalScale
from lite.nn.layers.normal_params import NormalParamExtractor as NormalParamExtractor
from lite.nn.layers.normal_params import add_custom_mapping as add_custom_mapping
from lite.nn.layers.normal_params import mappings as mappings
from lite.nn.settings import InteractionType as InteractionType
from lite.nn.settings import set_interaction_type as set_interaction_type

__all__ = [
    "AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2",
    "ComposeTransform", "CompositeDistribution", "Delta", "Dirichlet", "Distribution", "ExpTransform",
    "Exponential", "Gamma", "Geometric", "Gumbel", "HalfNormal", "Independent", "IndependentNormal",
    "IndependentTransform", "LLMMaskedCategorical", "Laplace", "LogNormal", "LogProbDistribution",
    "MaskedCategorical", "MaskedOneHotCategorical", "MixtureSameFamily", "Multinomial", "MultivariateNormal",
    "NegativeBinomial", "Normal", "OneHotCategorical", "OneHotCategoricalStraightThrough", "OneHotOrdinal",
    "Ordinal", "Pareto", "Poisson", "PowerTransform", "RelaxedOneHotCategorical", "ReshapeTransform",
    "SafeTanhTransform", "SigmoidTransform", "SoftplusTransform", "StudentT", "TanhDelta", "TanhNormal",
    "TanhTransform", "Transform", "TransformedDistribution", "TruncatedNormal", "Uniform", "VonMises",
    "Weibull", "distributions_maps", "identity_transform", "kl_divergence", "rand_one_hot", "register_kl"
]  # fmt: skip

# Names in lower case, as `distribution_class` of a probabilistic module takes them.
_OF_OTHERS = (Distribution, Independent, LogProbDistribution, MixtureSameFamily, TransformedDistribution)
distributions_maps: dict[str, type[Distribution]] = {
    name.lower(): globals()[name]
    for name in __all__
    if isinstance(globals().get(name), type) and issubclass(globals()[name], Distribution)
    if globals()[name] not in _OF_OTHERS
}
_belong_here(globals())
