"""`vmap`: an interpreter of NumPy's protocols that runs a function for all elements of a dimension at once.

`transform` takes arguments apart and puts results together (`trees`, `tensordicts`); in between, arrays are
`array.BatchedArray`s, with the `methods` of arrays. NumPy asks them (`ufuncs`, `dispatch`) and finds a
batching rule: `reductions`, `products`, `linalg`, `shapes`, `joining`, `sorting`, `elementwise`, `creation`,
`fourier`, `output`, with `indexing` for brackets and `along` for axes. `registry` holds the rules, and the
loop for what has none. `level` is what a rule works with, `running` and `randomness` what random draws do.
Nothing of it is imported before it is used.
"""
