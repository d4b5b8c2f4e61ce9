"""The compiled half of the kernels for NVIDIA GPUs, imported with the first array in CUDA memory."""
