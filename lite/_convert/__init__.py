"""Python, pytrees, torch, tables, state dicts to TensorDicts and back."""
