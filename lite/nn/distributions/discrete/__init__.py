"""Distributions of classes and counts.

In reading order: `categorical`, `one_hot_categorical`, `ordinal`, `masked_categorical` and
`llm_masked_categorical`; `probs_or_logits` (what those of zeros and ones share), `bernoulli`, `binomial` with
the multinomial one, `geometric`, `poisson`.
"""
