"""Runs the CUDA kernels' tests under Numba's CUDA simulator."""

from __future__ import annotations

from pathlib import Path

import pytest
import simulator

TESTS = Path(__file__).parents[1] / "cuda"


@pytest.mark.parametrize(("name", "at_least"), [("test_kernel_arrays", 20)])
def test_under_the_simulator(name: str, at_least: int) -> None:
    simulator.run(TESTS / f"{name}.py", at_least=at_least)
