"""The compiled halves of the kernels, one file each; imported on a kernel's first call."""
