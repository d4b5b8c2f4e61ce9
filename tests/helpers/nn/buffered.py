"""A module with layers inside one another and buffers of both kinds."""

from typing import Any

import numpy as np

from lite import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 3, rng=0)
        self.second = nn.Sequential(nn.ReLU(), nn.Linear(3, 1, rng=1))
        self.register_buffer("count", np.zeros((), dtype=np.int64))
        self.register_buffer("scratch", np.ones(2, dtype=np.float32), persistent=False)

    def forward(self, x: Any) -> Any:
        return self.second(self.first(x))
