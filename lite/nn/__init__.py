"""Modules on NumPy: Module, layers, TensorDictModule and TensorDictSequential."""
