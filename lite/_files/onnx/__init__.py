"""ONNX files as bytes: what a graph is made of, written and read without the onnx package.

- `wire`: integers and fields of protobuf;
- `writer`: models, nodes, tensors;
- `reader`: the nodes of a model, its constants;
- `model`: a graph with its weights, its nodes in an order in which they can run;
- `rewriting`: copies with other places of their weights.
"""
