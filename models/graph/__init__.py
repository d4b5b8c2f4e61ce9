"""ONNX graphs: sessions, calls, files."""
