"""`vmap`: an interpreter of NumPy's protocols that runs a function for all elements of a dimension at once.

In reading order:

- `transform`: takes arguments apart and puts results together, with `trees` (nested lists, tuples and dicts)
  and `tensordicts`;
- `array`: the arrays that the function sees in between; `level`: what a rule gets to work with them;
- `dispatch`: from a call of a NumPy function to its rule (`rules/`), `ufuncs` from one of a ufunc;
  `loop` for what has none; `indexing` for brackets; `along` for axes;
- `running`: which maps run, for code that serves mapped functions, too; `randomness`: random draws in them.

Nothing but `running` is imported before it is used.
"""
