"""Exported ONNX language models run through onnxruntime."""
