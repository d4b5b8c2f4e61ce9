"""The examples learn, to a mark that takes a part of their time; `bench/test_cartpole.py` has the rest."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

for name in ("gymnasium", "onnx", "onnxruntime"):
    pytest.importorskip(name)


@pytest.mark.parametrize(("example", "graph"), [("dqn", "1"), ("ppo", "0")])
def test_learns_and_exports(example: str, graph: str) -> None:
    """A mark of 150, where random actions reach about 20, after some ten seconds of training."""
    program = Path(__file__).with_name(f"cartpole_{example}.py")
    done = subprocess.run(
        [sys.executable, str(program), "0", "150", "150", graph], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found = re.fullmatch(r"mean return ([\d.]+) after (\d+) frames and [\d.]+ s\n", done.stdout)
    assert found, done.stdout
    assert float(found[1]) >= 100  # other episodes than those that training stopped at
