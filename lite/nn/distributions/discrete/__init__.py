"""Distributions of classes and counts.

In reading order: `categorical`, also masked over a large vocabulary; `one_hot_categorical` with the ordinal
ones, `masked_categorical`; `geometric` with Bernoulli's and what those of zeros and ones share, `binomial`
with the multinomial and Poisson's.
"""
