"""What a library computes is what Numba computes for the same level, to the bit.

Takes minutes, as Numba compiles everything for each level: LITE_TEST_PREBUILT names the folder of libraries.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.cases import each_case

pytest.importorskip("numba")

from lite.kernels.backends import prebuilt
from lite.kernels.prebuild.targets import TARGETS

FOLDER = os.environ.get("LITE_TEST_PREBUILT", "")
pytestmark = pytest.mark.skipif(not FOLDER, reason="LITE_TEST_PREBUILT names no folder of libraries")
PROGRAM = Path(__file__).parents[2] / "helpers" / "kernels" / "digests.py"


def digests(**environment: str) -> dict[str, str]:
    run = subprocess.run(
        [sys.executable, "-W", "error", str(PROGRAM)],
        env=os.environ | environment, capture_output=True, text=True, timeout=3000, check=True,
    )  # fmt: skip
    found: dict[str, str] = json.loads(run.stdout)
    return found


@each_case("level", TARGETS)
def test_a_library_computes_what_numba_computes(level, tmp_path, monkeypatch):
    monkeypatch.setenv("LITE_KERNELS_PATH", FOLDER)
    reasons: list[str] = []
    if prebuilt.find(level, reasons) is None:
        pytest.skip(f"no library of this level for this processor: {reasons}")
    compiled = digests(
        LITE_KERNELS="numba", NUMBA_CACHE_DIR=str(tmp_path), NUMBA_OPT="3", **TARGETS[level].environment
    )
    assert len(compiled) > 400
    assert digests(LITE_KERNELS=f"prebuilt:{level}") == compiled
