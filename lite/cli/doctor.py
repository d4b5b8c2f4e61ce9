"""`lite doctor`: what is installed, what runs here, and what to install for more; one screen for a report."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import re
import subprocess
import sys
import textwrap
import warnings
from importlib import metadata
from pathlib import Path
from typing import Any

import lite
from lite.kernels import get_num_threads
from lite.kernels._install import install
from lite.kernels.backends import prebuilt
from lite.kernels.backends.choice import choice
from lite.models.graph.runtime import choose_runtime, import_onnxruntime

# By extra: its packages, and their purpose. Either build of onnxruntime will do.
EXTRAS = {
    "numba": (("numba",), "compiles kernels that no library here has"),
    "llm": (("onnxruntime", "tokenizers", "jinja2"), "language models"),
    "cuda": (("numba-cuda",), "CUDA"),
    "files": (("safetensors", "h5py", "pyarrow", "pandas"), "safetensors, HDF5, Arrow and Parquet"),
    "grammar": (("llguidance",), "grammars"),
    "gym": (("gymnasium",), "gymnasium"),
    "ray": (("ray",), "Ray"),
    "logging": (("tensorboardX", "matplotlib"), "logs and curves"),
    "video": (("imageio",), "videos"),
}
_BUILDS = ("onnxruntime-gpu", "onnxruntime")  # the same module
_ASIDE = ("AzureExecutionProvider",)  # a provider that does not run graphs
_VARIABLES = ("LITE_", "NUMBA_", "OMP_NUM_", "OPENBLAS_", "ORT_", "CUDA_VISIBLE")


def run(args: argparse.Namespace) -> int:
    """Print the facts for a bug report, without names of users, machines or folders."""
    environment = [  # before onnxruntime is imported, which sets one
        f"{name}={_without_folders(value)}"
        for name, value in sorted(os.environ.items())
        if name.startswith(_VARIABLES)
    ]
    facts = {
        "lite": f"{lite.__version__} ({_installed_as()})",
        "python": _python(),
        "machine": _machine(),
        "numpy": version("numpy"),
        "kernels": _kernels(),
        "graphs": _graphs(),
        "providers": _providers(),
        "extras": {name: {package: version(package) for package in EXTRAS[name][0]} for name in EXTRAS},
        "environment": environment,
    }
    facts["advice"] = _advice(facts)
    if args.json:
        print(json.dumps(facts))
    else:
        print("\n".join(_lines(facts)))
    return 0


def version(package: str) -> str | None:
    """The installed version of a package; None if it is not there."""
    for name in _BUILDS if package == "onnxruntime" else (package,):
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        return f"{found} ({name})" if name == "onnxruntime-gpu" else found
    return None


def _installed_as() -> str:
    if (Path(lite.__file__).parents[1] / "pyproject.toml").is_file():
        return "a checkout"
    return "a wheel with kernels inside" if prebuilt._INSIDE.is_dir() else "a wheel"


def _python() -> str:
    free = "" if getattr(sys, "_is_gil_enabled", lambda: True)() else ", without the GIL"
    return f"{platform.python_implementation()} {platform.python_version()}{free}"


def _machine() -> str:
    c = " ".join(filter(None, platform.libc_ver()))
    system = f"{platform.system()} {platform.machine()}{', ' + c if c else ''}"
    return f"{system}, {os.cpu_count()} processors, {get_num_threads()} used by a kernel"


def _kernels() -> dict[str, Any]:
    """The backend of kernels, and for each library that was found but is not used the reason."""
    refused: list[str] = []
    try:
        chosen = choice()
    except (ImportError, ValueError) as error:  # what LITE_KERNELS asks for
        return {"backend": None, "level": None, "refused": [_line(error)]}
    if chosen.library is None:
        prebuilt.find(None, refused)
    level = chosen.library.level if chosen.library else None
    return {"backend": chosen.backend, "level": level, "refused": list(map(_without_folders, refused))}


def _graphs() -> str:
    """The runtime of ONNX graphs."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return choose_runtime(None)
    except ValueError as error:  # of LITE_RUNTIME
        return _line(error)


def _providers() -> dict[str, str]:
    """onnxruntime's providers that run graphs: "yes", or the reason why not."""
    if version("onnxruntime") is None:
        return {}
    try:
        onnxruntime = import_onnxruntime()
    except ImportError as error:
        return {"CPU": _line(error)}
    built = [name for name in onnxruntime.get_available_providers() if name not in _ASIDE]
    found = {
        name.removesuffix("ExecutionProvider"): _missing(Path(onnxruntime.__file__).parent, name) or "yes"
        for name in built
    }
    if "CUDA" not in found:
        found["CUDA"] = "not in this build of onnxruntime: onnxruntime-gpu has it"
    return found


def _missing(package: Path, provider: str) -> str | None:
    """Why a provider that the build has cannot be used; None if nothing is known to be missing."""
    if provider == "CPUExecutionProvider" or sys.platform != "linux":
        return None
    if provider in ("CUDAExecutionProvider", "TensorrtExecutionProvider"):
        try:
            ctypes.CDLL("libcuda.so.1")
        except OSError:
            return "no NVIDIA driver (libcuda.so.1)"
    part = provider.removesuffix("ExecutionProvider").lower()
    library = package / "capi" / f"libonnxruntime_providers_{part}.so"
    if not library.is_file():
        return None
    with_libraries = "import onnxruntime; getattr(onnxruntime, 'preload_dlls', lambda: 0)(); import ctypes"
    return _cannot_load(library, with_libraries)


def _cannot_load(library: Path, first: str) -> str | None:
    """The loader's error for a library, which a new process tries to load; None if it loads."""
    program = f"{first}; ctypes.CDLL({str(library)!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    told = re.search(r"OSError: ([^\n]*cannot open shared object file)", done.stderr)
    return _without_folders(told[1]) if told else None


def _advice(facts: dict[str, Any]) -> list[str]:
    """Suggestions, each with its command."""
    said = []
    asked = [line for line in facts["environment"] if line in ("LITE_KERNELS=numpy", "NUMBA_DISABLE_JIT=1")]
    if facts["kernels"]["backend"] == "numpy" and asked:
        said.append(f"kernels are slow because the environment has {asked[0]}: unset it")
    elif facts["kernels"]["backend"] in (None, "numpy"):
        made = "python -m lite.kernels.prebuild --wheel DIR"
        said.append(
            f"kernels are slow without a compiler: {install('numba')}, or install a library of them that "
            f"a machine with one makes: {made}"
        )
    said += [
        f"matrix products of NumPy may take twice the time with {line}: unset it"
        for line in facts["environment"]
        if line.startswith("OPENBLAS_CORETYPE=")
    ]
    absent = [
        name for name in EXTRAS if name not in ("numba", "cuda") and None in facts["extras"][name].values()
    ]
    if absent:
        said.append(f"for {', '.join(EXTRAS[name][1] for name in absent)}: {install(','.join(absent))}")
    if facts["providers"].get("CUDA", "").startswith("lib"):
        said.append(f"the CUDA libraries are missing: {install('cuda')}")
    return said


def _lines(facts: dict[str, Any]) -> list[str]:
    """Rows of at most 100 characters."""
    kernels = facts["kernels"]
    rows = [(name, facts[name]) for name in ("lite", "python", "machine", "numpy")]
    level = f", {kernels['level']}" if kernels["level"] else ""
    rows.append(("kernels", f"{kernels['backend'] or 'none'}{level}"))
    rows += [("", f"not used: {reason}") for reason in kernels["refused"]]
    rows.append(("graphs", facts["graphs"]))
    rows += [("", f"{name}: {told}") for name, told in facts["providers"].items()]
    for name, packages in facts["extras"].items():
        told = ", ".join(f"{package} {found or '-'}" for package, found in packages.items())
        rows.append((name, told))
    rows.append(("environment", ", ".join(facts["environment"]) or "none of lite's variables is set"))
    rows += [("advice", line) for line in facts["advice"]]
    return [
        line
        for name, told in rows
        for line in textwrap.wrap(
            f"{name:<12} {told}",
            100,
            subsequent_indent=" " * 13,
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]


def _without_folders(text: str) -> str:
    """A text with each path cut to its last name, so that a report has no folders of its user."""
    home = os.path.expanduser("~")  # whose name may have spaces
    text = text.replace(home, "/~") if len(home) > 3 else text
    return re.sub(r"(?:(?:\b[A-Za-z]:)?[\\/][^\\/\s:]+)+[\\/]([^\\/\s:]+)", r"\1", text)


def _line(error: Exception) -> str:
    return _without_folders(" ".join(str(error).split()))
