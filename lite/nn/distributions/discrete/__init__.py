"""Distributions of classes and counts.

In reading order: `categorical`, also masked over a large vocabulary; `one_hot_categorical` with the ordinal
ones, `masked_categorical`; `probs_or_logits` (what those of zeros and ones share), `geometric` with
Bernoulli's, `binomial` with the multinomial and Poisson's.
"""
