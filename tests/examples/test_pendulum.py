"""What torch trained keeps pendulums upright here, both ways; `tests/parity` has torch beside it."""

from pathlib import Path

import numpy as np
import pytest
from helpers import without_torch


@pytest.mark.parametrize("way", ["as_graph", "as_weights"])
def test_computes_what_torch_computed_and_controls(way: str) -> None:
    from examples import pendulum_deploy

    policy = getattr(pendulum_deploy, way)()
    np.testing.assert_array_less(pendulum_deploy.difference(policy), 1e-6)
    angles = pendulum_deploy.control(policy)
    assert angles.shape == (100, 8)
    assert abs(angles[0]).max() > 0.5
    np.testing.assert_array_less(abs(angles[-20:]), 0.1)


def test_falls_without_the_policy() -> None:
    from examples import pendulum_deploy

    def still(td):
        td["action"] = np.zeros((8, 1), np.float32)
        return td

    assert abs(pendulum_deploy.control(still)).max(0).min() > 1.5  # each has gone past the horizontal


@pytest.mark.processes
def test_runs_by_itself_without_torch() -> None:
    printed = without_torch.run(Path(__file__).with_name("pendulum_deploy.py"))
    assert [line.partition(":")[0] for line in printed.splitlines()] == ["graph", "weights"]
