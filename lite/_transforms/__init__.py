"""Interpreters of NumPy's protocols: code written for arrays is run for something else.

- `vmap/` runs a function for all elements of a dimension at once.
- `grad/` records what a function computes and goes back for its derivative.
- `graphs/` writes down what a function does, as an ONNX graph.
- `jit/` runs functions as such graphs, and keeps their state.
- `rules/` holds what each of them does in place of a NumPy function, `registry` the tables of these rules.
- `levels` says which of several interpreters handles a call: the one that started last.
"""
