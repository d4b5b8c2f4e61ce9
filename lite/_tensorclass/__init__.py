"""Dataclasses over TensorDicts."""
