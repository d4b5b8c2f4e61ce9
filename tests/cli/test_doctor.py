"""`lite doctor`."""

import ctypes
import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.commands import Run

import lite
from lite.cli import doctor
from lite.kernels.backends import choice, prebuilt

ROOT = Path(__file__).parents[2]


def told(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(["doctor", "--json"]).out)
    return found


def test_one_screen_without_names_of_folders(run, monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    lines = run(["doctor"]).out.splitlines()
    assert len(lines) <= 50
    assert max(map(len, lines)) <= 100
    assert lines[0] == f"lite         {lite.__version__} (a checkout)"
    assert f"numpy        {metadata.version('numpy')}" in lines
    assert f"NUMBA_CACHE_DIR={tmp_path.name}" in " ".join(" ".join(lines).split())
    assert not re.search(r"(?<!\w)/\w+/", "\n".join(lines))


def test_paths_as_their_last_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.path.expanduser", lambda _: "/home/a b")
    for text, shown in (
        ("in /home/a b/lib/x.so: no", "in x.so: no"),
        (r"C:\Program\lib\x.dll: 1/2 of a/b", "x.dll: 1/2 of a/b"),
        (r"D:/lib\x.dll, /opt/y", "x.dll, y"),
        ("https://x.org", "https://x.org"),
    ):
        assert doctor._without_folders(text) == shown


def test_what_is_installed_and_what_is_not(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"onnxruntime-gpu": "1.2.3", "tokenizers": "4.5", "jinja2": "6", "pandas": "7"}

    def version(name: str) -> str:
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setattr(
        doctor, "import_onnxruntime", lambda: SimpleNamespace(get_available_providers=list, __file__="")
    )
    found = told(run)
    assert found["extras"]["llm"] == {
        "onnxruntime": "1.2.3 (onnxruntime-gpu)",
        "tokenizers": "4.5",
        "jinja2": "6",
    }
    assert found["extras"]["files"] == {"safetensors": None, "h5py": None, "pyarrow": None, "pandas": "7"}
    (line,) = (line for line in found["advice"] if line.startswith("for "))
    assert "[files,grammar,gym,ray,logging,video]" in line
    versions["onnxruntime"] = versions.pop("onnxruntime-gpu")
    assert doctor.version("onnxruntime") == "1.2.3"


def test_why_libraries_of_kernels_are_not_used(run, monkeypatch, tmp_path):
    (tmp_path / "manifest.json").write_text('{"format": 1, "digest": "of others"}')
    monkeypatch.setenv("LITE_KERNELS_PATH", str(tmp_path))
    monkeypatch.setattr(doctor, "choice", lambda: choice.Choice("numpy"))
    for name in ("LITE_KERNELS", "NUMBA_DISABLE_JIT"):
        monkeypatch.delenv(name, raising=False)
    found = told(run)
    assert found["kernels"]["backend"] == "numpy"
    assert found["kernels"]["refused"][0].startswith(
        f"{tmp_path.name}: compiled from other sources: 'of others'"
    )
    assert any("[numba]" in line and "lite.kernels.prebuild" in line for line in found["advice"])
    monkeypatch.setenv("LITE_KERNELS", "numpy")  # who asks for it needs no compiler
    told_now = told(run)["advice"]
    assert any("LITE_KERNELS=numpy: unset it" in line for line in told_now)
    assert not any("[numba]" in line for line in told_now)

    def refuses() -> choice.Choice:
        raise ImportError("LITE_KERNELS=prebuilt,\nbut there is none")

    monkeypatch.setattr(doctor, "choice", refuses)
    lines = run(["doctor"]).out.splitlines()
    assert "kernels      none" in lines
    assert "             not used: LITE_KERNELS=prebuilt, but there is none" in lines


def test_the_level_of_a_library_and_the_kind_of_installation(run, monkeypatch, tmp_path):
    library = prebuilt.Library(tmp_path, "x86-64-v3", "digest")
    monkeypatch.setattr(doctor, "choice", lambda: choice.Choice("prebuilt", library))
    assert "kernels      prebuilt, x86-64-v3" in run(["doctor"]).out.splitlines()
    monkeypatch.setattr(doctor.lite, "__file__", str(tmp_path / "lite" / "__init__.py"))
    monkeypatch.setattr(prebuilt, "_INSIDE", tmp_path / "libraries")
    assert told(run)["lite"].endswith(" (a wheel)")
    (tmp_path / "libraries").mkdir()
    assert told(run)["lite"].endswith(" (a wheel with kernels inside)")


@pytest.mark.skipif(sys.platform != "linux", reason="libraries are looked for on Linux")
def test_why_a_provider_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def absent(name: str) -> None:
        raise OSError(name)

    assert doctor._missing(tmp_path, "CPUExecutionProvider") is None
    with monkeypatch.context() as patched:
        patched.setattr(ctypes, "CDLL", absent)
        assert doctor._missing(tmp_path, "CUDAExecutionProvider") == "no NVIDIA driver (libcuda.so.1)"
    monkeypatch.setattr(ctypes, "CDLL", lambda name: None)  # a driver
    assert doctor._missing(tmp_path, "CUDAExecutionProvider") is None
    (tmp_path / "capi").mkdir()
    (tmp_path / "capi" / "libonnxruntime_providers_cuda.so").touch()
    error = "OSError: libcublasLt.so.12: cannot open shared object file: No such file or directory"
    monkeypatch.setattr(
        subprocess, "run", lambda *args, **options: SimpleNamespace(stderr=f"Traceback\n{error}\n")
    )
    said = doctor._missing(tmp_path, "CUDAExecutionProvider")
    assert said == "libcublasLt.so.12: cannot open shared object file"


@pytest.mark.compiled  # NumPy's kernels would be an advice
def test_the_cpu_build_says_where_cuda_is(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["AzureExecutionProvider", "CPUExecutionProvider"]
    module = SimpleNamespace(get_available_providers=lambda: names, __file__=__file__)
    monkeypatch.setattr(doctor, "import_onnxruntime", lambda: module)
    monkeypatch.setattr(doctor, "version", lambda name: "1")
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    found = told(run)
    assert found["providers"] == {
        "CPU": "yes",
        "CUDA": "not in this build of onnxruntime: onnxruntime-gpu has it",
    }
    assert found["advice"] == []
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    found = told(run)
    assert "OPENBLAS_CORETYPE=Haswell" in found["environment"]
    (line,) = found["advice"]
    assert "twice the time with OPENBLAS_CORETYPE=Haswell: unset it" in line


def test_extras_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extra, (packages, _) in doctor.EXTRAS.items():
        names = {re.split(r"[^\w-]", line)[0] for line in project["optional-dependencies"][extra]}
        assert set(packages) <= names, extra
    apart = {"llm-cpu", "llm-numpy", "test", "parity", "bench", "dev", "site"}
    assert set(doctor.EXTRAS) == set(project["optional-dependencies"]) - apart
