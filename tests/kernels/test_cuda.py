"""Runs the tests that meet arrays in CUDA memory, on a GPU or under Numba's CUDA simulator."""

from __future__ import annotations

from pathlib import Path

import pytest
import simulator

HERE, CUDA = Path(__file__).parent, Path(__file__).parents[1] / "cuda"


@pytest.mark.parametrize(
    ("files", "at_least"),
    [
        ([CUDA / "test_kernel_arrays.py"], 20),
        ([CUDA / "test_sequences.py"], 50),
        ([HERE / "test_returns.py", HERE / "test_multistep_return.py"], 90),
    ],
    ids=["arrays", "sequences", "same tests as on the CPU"],
)
def test_on_device_arrays(files: list[Path], at_least: int) -> None:
    simulator.run(*files, at_least=at_least)
