"""Distributions of real numbers and vectors.

In reading order: `normal`, `tanh` (a map to an interval) and `tanh_normal`, `truncated_normal`, `log_normal`,
`multivariate_normal`; `uniform`, `delta`; `gamma` with the exponential one, `dirichlet` with beta; `laplace`,
`heavy_tails`, `extreme_values`, `von_mises`.
"""
