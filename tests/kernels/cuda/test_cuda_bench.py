"""bench/cuda_kernels.py runs: in the simulator at toy sizes, or on a GPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import simulator

from lite.models import embedded_model_path

pytestmark = pytest.mark.simulator

SCRIPT = Path(__file__).parents[3] / "bench" / "cuda_kernels.py"


def run(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", str(SCRIPT), *options],
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip


def test_all_jobs_run_at_toy_sizes() -> None:
    done = run("--toy", "--rounds", "1", NUMBA_ENABLE_CUDASIM="0" if simulator.gpu_found() else "1")
    assert done.returncode == 0, done.stderr
    for name in (
        "copy",
        "gae, time first",
        "multistep_return, n=1000",
        "gather_time",
        "token_log_probs, bfloat16",
        "sample_tokens with details, 8 rows",
        "token_scores",
    ):
        assert name in done.stdout


def test_a_language_model_is_compared_before_it_is_timed() -> None:
    """What of bench/cuda_llm.py needs no GPU."""
    command = [str(SCRIPT.with_name("cuda_llm.py")), str(embedded_model_path()), "--device", "cpu"]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *command, "--rounds", "1", "--tokens", "9"],
        env={**os.environ}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "top_p 0.9 with details, lite: the CPU's log-probs" in done.stdout
    assert "scores agree" in done.stdout


def test_times_are_not_taken_without_a_gpu() -> None:
    done = run(NUMBA_ENABLE_CUDASIM="1")
    assert done.returncode == 1
    assert "times in the simulator mean nothing" in done.stderr
    if not simulator.gpu_found():
        done = run(NUMBA_ENABLE_CUDASIM="0")
        assert done.returncode == 1
        assert "no GPU was found" in done.stderr
