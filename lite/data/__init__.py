"""Trajectory transforms on TensorDicts."""

from lite.data.multistep import MultiStep
from lite.data.token_transitions import TokenTransitions

__all__ = ["MultiStep", "TokenTransitions"]
