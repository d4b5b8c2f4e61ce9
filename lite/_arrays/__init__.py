"""Functions on single arrays that NumPy lacks.

In reading order: `types` (classes of arrays), `settings`, `dtypes`, `numbers` (Python numbers as operands),
`formulas` (elementwise and along axes), `special` functions of probability, `reductions`,
`device` (arrays on a GPU), `namespace` (JAX), `foreign` (conversion from other libraries).
"""
