"""`vmap`: an interpreter of NumPy's protocols that runs a function for all elements of a dimension at once.

`transform` takes arguments apart and puts results together (`trees`, `tensordicts`); in between, arrays are
`array.BatchedArray`s. NumPy asks them (`ufuncs`, `dispatch`) and finds a batching rule: `reductions`,
`products`, `linalg`, `shapes`, `joining`, `sorting`, `elementwise`, `creation`, `fourier`, with `indexing`
for brackets. `registry` holds the rules, and the loop for what has none. `level` is what a rule works with,
`randomness` what random draws do.
"""

from lite._vmap.array import BatchedArray
from lite._vmap.randomness import generator_for
from lite._vmap.transform import vmap

__all__ = ["BatchedArray", "generator_for", "vmap"]
