"""Modules whose parameters tests exchange."""

from typing import Any

import numpy as np

from lite import nn


class Counter(nn.Module):
    """Assigns its buffer again in each call, and a parameter if asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(np.float32(2.0))
        self.register_buffer("steps", np.zeros((), np.int64))
        self.register_buffer("scratch", np.zeros(2), persistent=False)

    def forward(self, x: Any) -> Any:
        self.steps = self.steps + 1
        return x * self.scale


class Parent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.empty = nn.ReLU()
        self.second = self.first
        self.counter = Counter()


def ones(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, np.float32)
