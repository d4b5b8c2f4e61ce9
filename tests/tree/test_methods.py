"""Methods whose module is imported on their first access, and methods that are made from tables."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case

from lite import NonTensorData, TensorDict
from lite._tree.methods import LazyModule, make_lazy, resolved

CODE = """
import sys, lite
from lite import NonTensorData, TensorDict
text = "lite._show.text"
lite.TensorClass  # whose methods are those of TensorDict
assert text not in sys.modules
td = TensorDict({"a": 1})
print(repr(td)[:10], text in sys.modules, "lite._convert.from_python" in sys.modules)
print(TensorDict.from_dict({"a": 1})["a"], NonTensorData("x").to_dict())
print(vars(lite.TensorDictBase)["__repr__"])
"""


def test_a_module_is_imported_when_a_method_is_used() -> None:
    out = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True).stdout
    used, values, member = out.splitlines()
    assert used == "TensorDict True False"
    assert values == "1 x"
    assert member.startswith("<function repr at")


def made(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A class whose members are implemented in a module that is not imported yet."""
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    module = LazyModule("colorsys")

    class Base:
        first = module.hls_to_rgb
        second = module.hls_to_rgb
        of_class = classmethod(module._v)
        of_none = staticmethod(module.rgb_to_yiq)

        @property
        def read(self) -> float:
            value: float = module._v(0.0, 1.0, 0.5)
            return value

    make_lazy(Base)
    return Base


def test_every_form_becomes_what_it_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    base = made(monkeypatch)
    child = type("Child", (base,), {})
    assert "colorsys" not in sys.modules
    assert inspect.isfunction(resolved(vars(base)["first"]))
    assert not inspect.isfunction(vars(base)["first"])  # resolving is no access

    import colorsys

    assert child().first.__func__ is colorsys.hls_to_rgb
    assert vars(base)["first"] is colorsys.hls_to_rgb
    assert "first" not in vars(child)
    assert child.second is colorsys.hls_to_rgb
    assert child.of_class.__func__ is colorsys._v  # type: ignore[attr-defined]
    assert child.of_class.__self__ is child
    assert child.of_none(0.0, 0.0, 0.0) == (0.0, 0.0, 0.0)
    assert child().read == base().read == colorsys._v(0.0, 1.0, 0.5)  # type: ignore[attr-defined]


def test_an_access_that_found_the_lazy_one_before_it_was_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a second thread."""
    base = made(monkeypatch)
    lazy = vars(base)["first"]
    assert lazy.__get__(None, base) is lazy.__get__(None, base) is base.first


def test_an_override_that_calls_super_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    class Child(made(monkeypatch)):  # type: ignore[misc]
        @property
        def first(self) -> Any:
            calls.append("first")
            return super().first

    assert Child().first.__name__ == "hls_to_rgb"
    assert calls == ["first"]


def test_names_and_texts_of_lazy_methods() -> None:
    assert next(iter(inspect.signature(TensorDict.from_dict).parameters)) == "input_dict"
    assert "folder" in (inspect.getdoc(TensorDict.memmap) or "")
    assert NonTensorData("x", [2]).memmap.__doc__ == TensorDict.memmap.__doc__
    assert TensorDict({"a": np.ones(2)}).dumps.__func__ is TensorDict.save  # type: ignore[attr-defined]


@each_case(
    "name", ["exp", "exp_", "isnan", "add", "sub_", "mul", "sum", "std", "max", "all", "cumsum", "half"]
)
def test_generated_methods_have_names_and_docs(name: str) -> None:
    method = getattr(TensorDict, name)
    assert (method.__name__, method.__qualname__) == (name, f"TensorDictBase.{name}")
    assert len(method.__doc__) > 20
