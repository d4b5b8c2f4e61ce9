"""Copies of cache rows between buffers, on the CPU and as calls of the CUDA runtime."""

import ctypes
import os
import subprocess
import sys

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.models.stand_in_gpu import HostRuntime

from lite.models.decoder.memory import DeviceBuffer, copy_runs, give_back_freed, keep_freed
from lite.models.graph import cuda_stream


def filled(size: int) -> DeviceBuffer:
    buffer = DeviceBuffer(size)
    buffer.view()[:] = np.arange(size) % 251
    return buffer


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_copy_runs(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    source, target = filled(1000), DeviceBuffer(600)
    target.zero()
    want = np.zeros((600,), np.uint8)
    for line in range(4):
        want[50 + line * 100 : 50 + line * 100 + 30] = source.view()[7 + line * 200 : 7 + line * 200 + 30]
    runtime = HostRuntime()
    monkeypatch.setattr(cuda_stream, "cuda_runtime", lambda: runtime)
    source_view, target_view = source.view(), target.view()
    source.device = target.device = device
    copy_runs(source, 7, 200, target, 50, 100, 30, 4)
    np.testing.assert_array_equal(target_view, want)
    np.testing.assert_array_equal(source_view, np.arange(1000) % 251)
    assert runtime.calls == ([] if device == "cpu" else ["set 0", "copy", "set 0", "synchronise"])


def test_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    for device in ("cpu", "cuda"):
        buffer = filled(100)
        view = buffer.view()
        monkeypatch.setattr(cuda_stream, "cuda_runtime", HostRuntime)
        buffer.device = device
        buffer.zero()
        assert not view.any(), device


def test_errors_of_the_gpu_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = HostRuntime()
    monkeypatch.setattr(runtime, "cudaMemcpy2DAsync", lambda *args: 700)
    monkeypatch.setattr(cuda_stream, "cuda_runtime", lambda: runtime)
    buffer = DeviceBuffer(10)
    buffer.device = "cuda"
    raises(RuntimeError, "CUDA error 700", lambda: copy_runs(buffer, 0, 1, buffer, 5, 1, 1, 1))


def test_a_copy_beyond_the_buffer_is_refused() -> None:
    with pytest.raises(IndexError, match="leave a buffer of 100 bytes"):
        copy_runs(filled(100), 0, 60, DeviceBuffer(1000), 0, 60, 50, 2)


def test_a_buffer_on_a_gpu_has_no_view() -> None:
    buffer = DeviceBuffer(10)
    buffer.device = "cuda"
    raises(TypeError, "no NumPy view", lambda: buffer.view())


def test_too_much_is_a_memory_error() -> None:
    raises(MemoryError, r"cannot allocate 1,000,000,000,000,000,000 bytes", lambda: DeviceBuffer(10**18))


OPENED = """
import ctypes, os
from pathlib import Path
from lite.models import OnnxDecoder, embedded_model_path

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

decoder = OnnxDecoder(embedded_model_path())
before = resident()
ctypes.CDLL(None).malloc_trim(0)
print(before - resident())
"""


@pytest.mark.skipif(not hasattr(ctypes.pythonapi, "malloc_trim"), reason="only glibc can be asked to")
def test_what_opening_freed_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", OPENED], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 2e6


KEPT = """
import resource
import numpy as np
from lite.models import OnnxDecoder, embedded_model_path
from lite.models.learning.token_log_probs import token_log_probs_of

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for many in True, False:  # of one megabyte each, and one that the C library would map by itself
        arrays = [np.ones(1 << 17) for _ in range(40)] if many else np.ones(40 << 17)
        del arrays
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

decoder = OnnxDecoder(embedded_model_path())
learner = token_log_probs_of(decoder.config, decoder.spec) if {learns} else None
faults()
print(faults())
"""


@pytest.mark.skipif(not hasattr(ctypes.pythonapi, "mallopt"), reason="only glibc can be told to")
@each_case(
    ("learns", "told", "least", "most"),
    [(True, None, 0, 1000), (False, None, 5000, 1e6), (True, "131072", 5000, 1e6)],
)
def test_what_learns_keeps_freed_memory_unless_told_otherwise(
    learns: bool, told: str | None, least: int, most: int
) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    environment |= {"NUMPY_MADVISE_HUGEPAGE": "0"} | (
        {} if told is None else {"MALLOC_TRIM_THRESHOLD_": told}
    )
    command = [sys.executable, "-c", KEPT.format(learns=learns)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert least <= int(done.stdout) <= most


GONE = """
other = token_log_probs_of(decoder.config, decoder.spec)
del other
print(faults())
kept = [(np.ones(1 << 17), np.ones(10))[1] for _ in range(100)]
before = resident()
del learner
print(before - resident())
print(faults())
"""


@pytest.mark.skipif(not hasattr(ctypes.pythonapi, "mallopt"), reason="only glibc can be told to")
def test_after_the_last_that_learns_freed_memory_is_given_back() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    resident = OPENED[: OPENED.index("decoder =")]
    command = [sys.executable, "-c", resident + KEPT.format(learns=True) + GONE]
    environment["NUMPY_MADVISE_HUGEPAGE"] = "0"
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    kept, still_kept, given, mapped = map(int, done.stdout.split())
    assert max(kept, still_kept) < 5000
    assert given > 3e7
    assert mapped >= 5000


def test_a_library_that_cannot_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    give_back_freed()
    learner = DeviceBuffer(8)
    keep_freed(learner)
    del learner
