"""Interpreters of NumPy's protocols."""
