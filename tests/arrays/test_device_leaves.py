"""Runs tests/cuda/test_device_leaves.py under Numba's CUDA simulator."""

from pathlib import Path

import pytest
from helpers import simulator


@pytest.mark.simulator
def test_device_leaves_under_the_simulator() -> None:
    simulator.run(Path(__file__).parents[1] / "cuda" / "test_device_leaves.py", at_least=25)
