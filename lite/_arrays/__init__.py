"""What NumPy lacks, on single arrays.

In reading order: `types` (what an array is here), `settings`, `dtypes`, `numbers` beside arrays, `formulas`
of single numbers and along axes, `special` functions of probability, `reductions`, `joining` arrays to one,
`device` (arrays on a GPU), `foreign` (arrays of other libraries).
"""
