"""The level of processors that a cache for other machines is compiled for."""

from pathlib import Path

import pytest
from helpers.cases import each_case

from lite.kernels.backends import portable


@each_case(
    ("machine", "level"),
    [
        ("x86_64", "x86-64-v3"),
        ("AMD64", "x86-64-v3"),
        ("aarch64", "generic"),
        ("arm64", "generic"),
        ("m68k", None),
    ],
)
def test_the_level_of_an_architecture(monkeypatch: pytest.MonkeyPatch, machine: str, level: str) -> None:
    monkeypatch.setattr(portable.platform, "machine", lambda: machine)
    assert portable.level() == level


def test_a_processor_must_have_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portable.platform, "machine", lambda: "x86_64")
    needed = dict.fromkeys(("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"), True)
    assert portable.fits(needed)
    assert not portable.fits(needed | {"fma": False})
    assert not portable.fits({"avx2": True})
    monkeypatch.setattr(portable.platform, "machine", lambda: "aarch64")
    assert portable.fits({})
    monkeypatch.setattr(portable.platform, "machine", lambda: "m68k")
    assert not portable.fits(needed)


def test_the_environment_asks_for_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(portable.platform, "machine", lambda: "x86_64")
    monkeypatch.delenv("NUMBA_CPU_NAME", raising=False)
    monkeypatch.setenv("KEPT", "1")
    found = portable.environment(tmp_path)
    assert found["NUMBA_CACHE_DIR"] == str(tmp_path)
    assert (found["NUMBA_CPU_NAME"], found["NUMBA_CPU_FEATURES"]) == ("x86-64-v3", "")
    assert (found["LITE_KERNELS"], found["KEPT"]) == ("numba", "1")
    monkeypatch.setenv("NUMBA_CPU_NAME", "cortex-a72")
    assert portable.environment(tmp_path)["NUMBA_CPU_NAME"] == "cortex-a72"
