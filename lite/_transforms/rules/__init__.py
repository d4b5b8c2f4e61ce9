"""Rules: what `grad`, `vmap` and ONNX graphs do in place of a function of NumPy; a family is a file.

The rules of a function stand side by side, in the tables `GRAD`, `VMAP` and `ONNX` of `registry.py`. A rule
of `grad` computes a value and says how a derivative goes back (`grad/tape.py`), one of `vmap` works on
arrays with the batch dimension in front (`vmap/level.py`), one of ONNX adds nodes to a graph
(`graphs/graph.py`). A function that is written with others (`formula`) needs no more than that. `TABLE.md`
lists which function has which rule.

`ufuncs` is a table; then come `elementwise`, `reductions`, `scans`, `products`, `linalg`, `shapes`,
`joining`, `sorting`, `selecting`, `creation` and `fourier`.
"""

# Each of these modules registers its rules.
import lite._transforms.rules.creation
import lite._transforms.rules.elementwise
import lite._transforms.rules.fourier
import lite._transforms.rules.joining
import lite._transforms.rules.linalg
import lite._transforms.rules.products
import lite._transforms.rules.reductions
import lite._transforms.rules.scans
import lite._transforms.rules.selecting
import lite._transforms.rules.shapes
import lite._transforms.rules.sorting
import lite._transforms.rules.ufuncs  # noqa: F401
