"""The parameters of modules as TensorDicts."""
