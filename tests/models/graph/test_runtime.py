"""What runs graphs: the choice, its warning and errors, and devices."""

import os
import re
import shutil
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from helpers.cases import each_case, raises
from helpers.recurrent_policy import PATH, inputs

from lite.models import OnnxModule
from lite.models.graph import runtime
from lite.models.graph.runtime import choose_runtime, import_onnxruntime, parse_device, refuse_on_numpy


def test_devices() -> None:
    cases: list[tuple[str, tuple[str, int]]] = [
        ("cpu", ("cpu", 0)),
        ("cuda", ("cuda", 0)),
        ("cuda:3", ("cuda", 3)),
    ]
    for text, parsed in cases:
        assert parse_device(text) == parsed, text


def test_unknown_devices() -> None:
    for text in ("gpu", "cpu:0", "cuda:", "cuda:-1", "cuda:x", ""):
        raises(ValueError, "device must be 'cpu', 'cuda' or 'cuda:N'", parse_device, text)


def test_without_onnxruntime_the_command_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    raises(ImportError, r'pip install -e "\.\[llm\]"', import_onnxruntime)


BOTH = r"pip uninstall onnxruntime onnxruntime-gpu; pip install"


def test_what_is_left_of_two_builds_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have the same files: uninstalling one leaves a folder of some, which Python still imports."""
    monkeypatch.setitem(sys.modules, "onnxruntime", ModuleType("onnxruntime"))
    raises(ImportError, rf"incomplete.*{BOTH}", import_onnxruntime)


@each_case(("setting", "kept"), [(None, "1"), ("0", "0"), ("", "")])
def test_telemetry_is_off_unless_the_user_has_set_it(setting, kept, monkeypatch):
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", setting or "")
    if setting is None:
        monkeypatch.delenv("ORT_DISABLE_TELEMETRY")
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    monkeypatch.setitem(sys.modules, "onnxruntime.capi", None)  # it is not to be loaded twice
    raises(ImportError, "", import_onnxruntime)
    assert os.environ["ORT_DISABLE_TELEMETRY"] == kept


def test_onnxruntime_is_imported_in_one_place() -> None:
    root = Path(__file__).parents[3]
    files = [
        f for d in ("lite", "kernels", "models") for f in (root / d).rglob("*.py") if "assets" not in f.parts
    ]
    statement = re.compile(r"^\s*(import|from) onnxruntime\b", re.MULTILINE)
    assert {f.name for f in files if statement.search(f.read_text(encoding="utf-8"))} == {"runtime.py"}


# -- the choice ----------------------------------------------------------------------------------


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No onnxruntime, in a process that was not told so yet."""
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.delenv("LITE_RUNTIME", raising=False)
    runtime._warn_once.cache_clear()


def test_numpy_is_chosen_with_one_warning_where_onnxruntime_is_missing(missing: None, tmp_path: Path) -> None:
    for name in ("one.onnx", "two.onnx"):
        shutil.copy(PATH, tmp_path / name)
    with pytest.warns(
        UserWarning, match=r'NumPy, which is slower. To install it: pip install -e "\.\[llm\]"'
    ):
        module = OnnxModule(tmp_path / "one.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other = OnnxModule(tmp_path / "two.onnx")
    assert module.runtime == other.runtime == "numpy"
    assert module(*inputs(3))[0].shape[0] == 3


def test_what_is_asked_for_is_not_replaced(missing: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert choose_runtime("numpy") == "numpy"
        monkeypatch.setenv("LITE_RUNTIME", "numpy")
        assert choose_runtime(None) == "numpy"
        assert choose_runtime("onnxruntime") == "onnxruntime"  # whose import says what to do
        monkeypatch.setenv("LITE_RUNTIME", "onnxruntime")
        assert choose_runtime(None) == "onnxruntime"


def test_a_broken_installation_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LITE_RUNTIME", raising=False)
    monkeypatch.setitem(sys.modules, "onnxruntime", ModuleType("onnxruntime"))
    assert choose_runtime(None) == "onnxruntime"


def test_unknown_runtimes(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="runtime must be None, 'onnxruntime' or 'numpy', got 'torch'"):
        OnnxModule(PATH, runtime="torch")
    monkeypatch.setenv("LITE_RUNTIME", "tflite")
    raises(ValueError, "LITE_RUNTIME must be 'onnxruntime' or 'numpy', got 'tflite'", OnnxModule, PATH)


def test_what_numpy_lacks_is_refused() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"device": "cuda:1"}, "device='cuda:1' needs onnxruntime"),
        ({"providers": ["CPUExecutionProvider"]}, "providers=.* needs onnxruntime"),
        ({"num_threads": 2}, "num_threads=2 needs onnxruntime.*OPENBLAS_NUM_THREADS"),
    ]
    for options, message in cases:
        raises(ValueError, message, OnnxModule, PATH, runtime="numpy", **options)
        raises(ValueError, "device='cuda' needs onnxruntime", OnnxModule(PATH, runtime="numpy").cuda)
        refuse_on_numpy(device="cpu", providers=None, num_threads=None)
        OnnxModule(PATH, runtime="numpy", num_threads=1)  # as scripts for small machines have it
