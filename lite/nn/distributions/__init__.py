"""Distributions on NumPy: log-probs, samples from a `numpy.random.Generator`, modes, entropies."""

from lite.nn.distributions.categorical import Categorical
from lite.nn.distributions.llm_masked_categorical import LLMMaskedCategorical
from lite.nn.distributions.log_prob_distribution import LogProbDistribution

__all__ = ["Categorical", "LLMMaskedCategorical", "LogProbDistribution"]
