"""Distributions of real numbers and vectors.

In reading order: `normal` with its half and the log-normal one, `tanh` (a map to an interval) and
`tanh_normal`, `truncated_normal`, `multivariate_normal`; `uniform`, `delta`; `gamma`,
`dirichlet` with beta; `heavy_tails` with that of Laplace, `extreme_values`, `von_mises`.
"""
