"""Numba where it is missing, broken, or has no room."""

import os
import subprocess
import sys

import pytest

from lite.kernels.backends import compiler


def test_a_missing_package_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(compiler.CompilerMissing, match=r"^drawing needs Numba: `pip install numba`$"):
        compiler.import_numba("drawing")


@pytest.mark.parametrize(
    "error", [ImportError("Numba needs NumPy 2.2 or less"), OSError("no libllvmlite.so")]
)
def test_one_that_does_not_load_gives_its_reason(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(name: str) -> None:
        raise error

    monkeypatch.setattr(compiler.importlib, "import_module", fail)
    monkeypatch.setattr(compiler, "_address_space", lambda: None)
    with pytest.raises(compiler.CompilerMissing) as caught:
        compiler.import_numba("drawing")
    for text in (
        str(error),
        "pip install --upgrade numba",
        "python -m lite.kernels.prebuild --wheel",
        "LITE_KERNELS=numpy",
    ):
        assert text in str(caught.value)
    assert caught.value.__cause__ is error


PROGRAM = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (256 << 20, 256 << 20))
import numpy as np
from lite.kernels import multistep_return
multistep_return(np.ones(3), np.zeros(3, bool), gamma=0.9, n_steps=2)
"""


@pytest.mark.processes
@pytest.mark.skipif(sys.platform != "linux", reason="the limit is one of Linux")
def test_too_small_an_address_space_is_what_the_error_says() -> None:
    pytest.importorskip("numba")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"LITE_KERNELS": "numba", "NUMBA_DISABLE_JIT": "0", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    assert "CompilerMissing" in said, done.stderr
    for text in (
        "256 MB of address space",
        "ulimit -v",
        "1024",
        "python -m lite.kernels.prebuild --wheel",
        "LITE_KERNELS=numpy",
    ):
        assert text in said
