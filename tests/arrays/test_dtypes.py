"""Dtypes: the default one, names, those of ml_dtypes, and what counts as a number."""

import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from helpers.cases import each_case, raises

import lite
from lite import TensorDict, nn
from lite._arrays import dtypes


@each_case(
    "use",
    [
        lambda: TensorDict(a=1.0).bfloat16(),
        lambda: TensorDict(a=1.0).to("bfloat16"),
        lambda: nn.Linear(1, 1).bfloat16(),
        lambda: nn.Linear(1, 1, dtype="bfloat16"),
        lambda: dtypes.dtype_of("torch.float8_e5m2"),
    ],
)
def test_one_error_says_what_to_install(use: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    raises(ImportError, r"float.* needs the ml_dtypes package: pip install ml-dtypes", use)


def test_extension_dtypes() -> None:
    narrow = np.dtype(ml_dtypes.bfloat16)
    assert dtypes.as_dtype("bfloat16") == dtypes.extension_dtype("bfloat16") == narrow
    assert dtypes.as_dtype("float32") == np.float32
    for name in ("qint8", "complex32"):  # ml_dtypes has the second from 0.6 on; no leaf can have it
        raises(TypeError, f"no NumPy dtype for {name}", dtypes.extension_dtype, name)
    assert dtypes.is_floating(narrow)
    assert dtypes.is_floating(np.dtype(ml_dtypes.float8_e4m3fn))
    assert not dtypes.is_floating(np.dtype(ml_dtypes.int4))
    assert dtypes.is_numeric(np.dtype(ml_dtypes.int4))


@each_case(
    ("code", "floating", "inexact", "numeric"),
    [
        ("e", True, True, True),
        ("g", True, True, True),
        ("F", False, True, True),
        ("?", False, False, True),
        ("b", False, False, True),
        ("U3", False, False, False),
        ("V8", False, False, False),
        ("M8[s]", False, False, False),
        ([("a", "f4")], False, False, False),
    ],
)
def test_what_counts_as_a_number(code: Any, floating: bool, inexact: bool, numeric: bool) -> None:
    dtype = np.dtype(code)
    assert dtypes.is_floating(dtype) is floating
    assert dtypes.is_inexact(dtype) is inexact
    assert dtypes.is_numeric(dtype) is numeric


def test_the_default_dtype() -> None:
    assert lite.get_default_dtype() == np.float32
    with lite.default_dtype("float64"):
        assert lite.TensorDict(a=[0.5])["a"].dtype == np.float64
        raises(TypeError, "must be a floating dtype, got int64", lambda: lite.set_default_dtype(np.int64))
    assert lite.get_default_dtype() == np.float32


def test_dtypes_to_compute_in() -> None:
    f2, f4, f8 = (np.dtype(code) for code in ("f2", "f4", "f8"))
    assert dtypes.compute_dtype(f2) == (f4, f2)
    assert dtypes.compute_dtype(np.dtype("i8"), f4) == (f4, f4)
    assert dtypes.compute_dtype(f4, f8) == (f8, f8)
    assert dtypes.float_dtypes(np.zeros(1, np.int8)) == (f4, f4)
    assert dtypes.inexact(np.zeros(1, bool)).dtype == f8
    x = np.zeros(1, np.float16)
    assert dtypes.inexact(x) is x
    for wrong in (np.array([1.0, None]), np.array(["1"]), np.zeros(1, "M8[D]")):
        raises(TypeError, "must be of numbers, got the dtype", dtypes.float_dtypes, wrong)
        raises(TypeError, "must be of numbers, got the dtype", dtypes.compute_dtype, wrong.dtype, f4)


@each_case("name", ["bool", "uint8", "int64", "float16", "complex128"])
def test_names_of_files_are_torchs(name: str) -> None:
    dtype = np.dtype(name)
    assert dtypes.dtype_name(dtype) == dtypes.dtype_name(dtype.newbyteorder(">")) == f"torch.{name}"
    assert dtypes.dtype_of(f"torch.{name}") == dtype


@each_case("name", ["torch.float7", "float32", None, 3])
def test_unknown_names(name: Any) -> None:
    raises(ValueError, "unknown dtype", lambda: dtypes.dtype_of(name))
    raises(ValueError, "cannot be saved", lambda: dtypes.dtype_name(np.dtype("M8[s]")))
