"""ONNX graphs as modules. In reading order:

- `from_onnx`: the function, and `module`: the `GraphModule` that it returns
- `program`: a graph as steps in order, compiled once; `joining`: several in one where a kernel computes them
- `operators`: the table of rules; `integers`: sizes and axes that rules read of arrays;
  `limits`: time and memory
- rules, a family a file: `elementwise`, `creation`, `shapes`, `selecting`, `reductions`, `products`,
  `convolution`, `pooling`, `images`, `normalization`, `recurrent`, `attention`, `quantized`, `control`,
  `sequences`
- `saving`: the file again with learnt weights
"""
