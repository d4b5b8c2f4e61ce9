"""What a training step changes: parameters, buffers, gradients, and the state of an optimiser."""

from __future__ import annotations

from typing import Any

import numpy as np


def states(net: Any, optimizer: Any) -> dict[str, Any]:
    found = {name: np.array(value) for name, value in net.state_dict().items()}
    found |= {f"grad {name}": param.grad for name, param in net.named_parameters()}
    for i, state in optimizer.state_dict()["state"].items():
        found |= {f"{name} {i}": value for name, value in state.items()}
    return found


def check(mine: dict[str, Any], other: dict[str, Any]) -> None:
    assert mine.keys() == other.keys()
    for name, value in mine.items():
        assert (value is None) == (other[name] is None), name
        if value is not None:
            assert np.shape(value) == np.shape(other[name]), name
            np.testing.assert_allclose(value, other[name], rtol=1e-5, atol=1e-6, err_msg=name)
