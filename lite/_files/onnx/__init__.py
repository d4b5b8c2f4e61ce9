"""ONNX files as bytes: what a graph is made of, written without the onnx package.

- `wire`: integers and fields of protobuf;
- `writer`: models, nodes, tensors.
"""
