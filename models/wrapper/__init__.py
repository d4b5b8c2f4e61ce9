"""Language models as modules on TensorDicts."""
