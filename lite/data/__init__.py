"""Trajectory transforms on TensorDicts."""
