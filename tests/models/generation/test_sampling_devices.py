"""Draws from logits on a GPU, where the graph and its memory are stand-ins: no GPU has run them."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import simulator

FILE = Path(__file__).parents[2] / "cuda" / "test_device_draws.py"


@pytest.mark.simulator
def test_in_the_simulator() -> None:
    """Stand-ins hold the host's memory, which a GPU must not be given."""
    pytest.importorskip("onnxruntime")
    simulator.run(FILE, at_least=29, on_gpu=False)
