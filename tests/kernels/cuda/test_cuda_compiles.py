"""The CUDA kernels compile for a GPU, in all types that calls lead to; no GPU is needed.

Needs NVVM: of a CUDA toolkit, or of pip install -e ".[cuda]".
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.simulator

TESTS = Path(__file__).parents[2]


def run(task: str, file: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(TESTS / "helpers" / "cuda_launches.py"), task, str(file)],
        env={**os.environ, "PYTHONPATH": f"{TESTS.parent}{os.pathsep}{TESTS}", **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_all_launches_compile(tmp_path: Path) -> None:
    launches = tmp_path / "launches"
    able = run("compile", launches, NUMBA_ENABLE_CUDASIM="0")  # there is no file yet
    if able.returncode == 77:
        pytest.skip(able.stdout.strip())
    assert able.returncode == 0, able.stderr
    recorded = run("record", launches, NUMBA_ENABLE_CUDASIM="1")
    assert recorded.returncode == 0, recorded.stderr
    done = run("compile", launches, NUMBA_ENABLE_CUDASIM="0")
    assert done.returncode == 0, done.stdout + done.stderr
    names = {line.split()[-1] for line in done.stdout.splitlines()}
    assert names >= {
        "_copy", "_count_outside", "_move", "_spread", "advantages", "fixed_lambda_returns", "lambda_returns",
        "pack", "powers", "row_numbers", "sample", "sample_with_details", "token_scores", "windows",
        "write_log_softmax",
    }  # fmt: skip


def test_small_grids_do_not_warn() -> None:
    code = (
        "from lite.kernels.cuda._copies import _copy; from lite.kernels.cuda._gpu import _configured\n"
        "_configured(_copy, 1, 32, 0, 0)\n"
        "try: _copy[2, 32, 0, 0]\n"
        "except Warning: print('of others it does')"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], env={**os.environ, "NUMBA_ENABLE_CUDASIM": "0"},
        cwd=TESTS.parent, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "of others it does"
