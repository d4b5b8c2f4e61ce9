"""ONNX graphs as modules. In reading order:

- `from_onnx`: the function, and `module`: the `GraphModule` that it returns
- `program`: a graph as steps in order, compiled once; `joining`: several in one where a kernel computes them
- `operators`: the table of rules; `integers`: sizes and axes that rules read of arrays;
  `limits`: time and memory
- rules, a family a file: `elementwise`, `shapes`, `selecting`, `reductions`, `products`, `convolution`,
  `images`, `normalization`, `recurrent`, `attention`, `quantized`, `control`
- `saving`: the file again with learnt weights
"""
