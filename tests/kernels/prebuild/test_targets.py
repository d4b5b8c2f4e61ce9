"""Names of what kernels are compiled for."""

from __future__ import annotations

import platform
import sys

import pytest
from helpers.cases import each_case, raises

from lite.kernels.prebuild.targets import TARGETS, chosen


def test_names_are_those_of_libraries() -> None:
    files = [
        "x86-64-v2.so", "x86-64-v3.so", "x86-64-v4.so", "armv8.so", "windows-x86-64-v2.dll",
        "windows-x86-64-v3.dll", "windows-armv8.dll", "macos-x86-64-v2.dylib", "macos-x86-64-v3.dylib",
        "macos-armv8.dylib",
    ]  # fmt: skip
    assert [target.file for target in TARGETS.values()] == files
    assert [target.file.partition(".")[0] for target in TARGETS.values()] == list(TARGETS)


def test_levels_and_processors_are_those_of_linux() -> None:
    for name, target in TARGETS.items():
        same = TARGETS[name.removeprefix("windows-").removeprefix("macos-")]
        assert target[1:5] == same[1:5]
    assert TARGETS["windows-armv8"].triple == "aarch64-w64-windows-gnu"


def test_lists_keep_their_order_and_name_each_target_once() -> None:
    assert chosen("armv8,x86-64-v2,armv8") == [TARGETS["armv8"], TARGETS["x86-64-v2"]]


@pytest.mark.parametrize(
    ("system", "machine", "names"),
    [
        ("linux", "x86_64", ["x86-64-v2", "x86-64-v3", "x86-64-v4"]),
        ("linux", "aarch64", ["armv8"]),
        ("win32", "AMD64", ["windows-x86-64-v2", "windows-x86-64-v3"]),
        ("darwin", "arm64", ["macos-armv8"]),
    ],
)
def test_host_is_all_of_this_architecture(monkeypatch, system, machine, names):
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(sys, "platform", system)
    assert [target.name for target in chosen("host")] == names


@each_case("system", [("darwin", "ppc"), ("freebsd15", "x86_64"), ("linux", "riscv64")])
def test_there_is_nothing_native_elsewhere(monkeypatch: pytest.MonkeyPatch, system: tuple[str, str]) -> None:
    monkeypatch.setattr(sys, "platform", system[0])
    monkeypatch.setattr(platform, "machine", lambda: system[1])
    raises(ValueError, f"no target for {system[0]} on {system[1]}", lambda: chosen("host"))


def test_other_names_are_refused() -> None:
    raises(ValueError, r"of x86-64-v2, .*, macos-armv8, got 'avx2'", lambda: chosen("x86-64-v3,avx2"))
