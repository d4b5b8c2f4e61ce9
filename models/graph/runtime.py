"""What runs graphs: onnxruntime, imported here and nowhere else, or NumPy; and the devices that there are."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

from lite._arrays.caller import warn
from lite.kernels._install import install

_ONE_BUILD = (
    "Only one of onnxruntime and onnxruntime-gpu may be installed, as both put their files into one folder. "
    f"Run: pip uninstall onnxruntime onnxruntime-gpu; {install('llm,cuda')} (or llm-cpu without a GPU)"
)
RUNTIMES = ("onnxruntime", "numpy")


def import_onnxruntime() -> Any:
    """Return the onnxruntime module, or raise ImportError with the command that installs it.

    Its telemetry is off unless the user has set ORT_DISABLE_TELEMETRY, which it reads while it is imported:
    from 1.31 on it writes an identifier of the device to the user's cache folder, and sends events.
    """
    if "onnxruntime" not in sys.modules:  # which would read it no more
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        import onnxruntime
    except ImportError as error:
        raise ImportError(
            f"ONNX models need onnxruntime: {install('llm')} (or llm-cpu without CUDA); "
            f"the import said: {error}"
        ) from error
    if not hasattr(onnxruntime, "InferenceSession"):  # a leftover folder is a namespace package
        raise ImportError(f"the installed onnxruntime is incomplete. {_ONE_BUILD}")
    return onnxruntime


def choose_runtime(runtime: str | None) -> str:
    """The runtime of graphs: "onnxruntime" or "numpy".

    Args:
        runtime: one of them; None for the one that the environment variable LITE_RUNTIME names, or else
            onnxruntime where it is installed and NumPy where it is not.

    Raises:
        ValueError: it is neither, nor what LITE_RUNTIME says.

    Warns:
        UserWarning: once in a process, if NumPy was chosen as onnxruntime is missing.
    """
    if runtime is not None and runtime not in RUNTIMES:
        raise ValueError(f"runtime must be None, 'onnxruntime' or 'numpy', got {runtime!r}")
    asked = runtime or os.environ.get("LITE_RUNTIME") or None
    if asked is None and _is_installed():
        return "onnxruntime"
    if asked is None:
        _warn_once()
        return "numpy"
    if asked not in RUNTIMES:
        raise ValueError(
            f"the environment variable LITE_RUNTIME must be 'onnxruntime' or 'numpy', got {asked!r}"
        )
    return asked


def _is_installed() -> bool:
    """Whether there is an onnxruntime. A broken one counts: its error says what to do."""
    try:
        import_onnxruntime()
    except ImportError as error:
        cause = error.__cause__
        return not isinstance(cause, ModuleNotFoundError) or cause.name != "onnxruntime"
    return True


@functools.cache
def _warn_once() -> None:
    warn(
        "onnxruntime is not installed, so ONNX models run on NumPy, which is slower. To install it: "
        f"{install('llm')} (or llm-cpu without CUDA; it has no wheels for musl and browsers); "
        "runtime='numpy' chooses NumPy without this warning",
        UserWarning,
    )


def parse_device(device: str) -> tuple[str, int]:
    """Split `"cpu"`, `"cuda"` or `"cuda:N"` into (type, index). Raises ValueError for anything else."""
    kind, colon, index = str(device).partition(":")
    if kind == "cpu" and not colon:
        return "cpu", 0
    if kind == "cuda" and (not colon or (index.isascii() and index.isdigit())):
        return "cuda", int(index or 0)
    raise ValueError(f"device must be 'cpu', 'cuda' or 'cuda:N', got {device!r}")


def refuse_on_numpy(**options: Any) -> None:
    """Raise ValueError for options that only onnxruntime has, if they are given: are true, or a GPU.

    One thread runs the nodes on NumPy, so `num_threads=1` passes: scripts for small machines say so.
    """
    for name, value in options.items():
        on_cpu = name == "device" and value and parse_device(value)[0] == "cpu"
        if value and not on_cpu and (name, value) != ("num_threads", 1):
            hint = " (OPENBLAS_NUM_THREADS sets the threads of NumPy's products)" * (name == "num_threads")
            raise ValueError(f"{name}={value!r} needs onnxruntime, and this graph runs on NumPy{hint}")


def check_cuda(ort: Any) -> None:
    """Raise RuntimeError without a GPU build of onnxruntime; load the CUDA libraries that came as wheels."""
    if "CUDAExecutionProvider" not in ort.get_available_providers():
        raise RuntimeError(
            "device='cuda' needs a GPU build of onnxruntime, this one has only "
            f"{', '.join(ort.get_available_providers())}. {_ONE_BUILD}"
        )
    if hasattr(ort, "preload_dlls"):
        ort.preload_dlls()
