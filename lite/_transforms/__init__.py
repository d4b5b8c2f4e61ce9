"""Interpreters of NumPy's protocols: code written for arrays is run for something else.

`registry` holds the rules of an interpreter, what it does in place of each NumPy function; `formulas` those
that all interpreters share, as they are written with other NumPy functions. `vmap/` runs a function for all
elements of a dimension at once; `grad/` goes back for its derivative, and `levels` tells which of several
answers for a call; `graphs/` writes down what a function does, for ONNX.
"""
