"""Graphs: an interpreter of NumPy's protocols that writes down, as an ONNX graph, what a function does.

In reading order:

- `trace`: runs a function on symbolic arrays, and again with other sizes, so that nothing hangs on a size;
- `array`: those arrays; `sizes`: integers that stand for a dynamic dimension;
- `graph`: the nodes, constants and weights, and what a rule gets to work with;
- `ufuncs`: from a call of a NumPy function to its rule (`rules/`), and from one of a ufunc;
  `operators` that many rules write; `indexing` for brackets; `convolution` and `scan` (loops) for layers;
- `writer`: the graph as the bytes of an ONNX model (`lite._files.onnx`).

A function without a rule raises an error that names it, and never becomes a constant. Nothing here is
imported before it is used.
"""
