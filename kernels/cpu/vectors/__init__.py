"""Formulas over rows of numbers as vector instructions.

`width` asks LLVM for the widest vectors of a function. `formulas` turns a formula, written in Python, into a
function that compiled code calls; `blocks` has the formulas of logits, `gelu` the numbers in those of GELU.
Behind `formulas`: `numbers` writes LLVM's instructions for Python's operators, `row_loops` the loops around
them, and `intrinsics` makes functions for Numba of both.
"""
