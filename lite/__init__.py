"""TensorDict, modules, RL kernels and ONNX language models on NumPy, without torch."""
