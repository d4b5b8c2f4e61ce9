"""Names of what kernels are compiled for."""

from __future__ import annotations

import platform
import sys

import pytest
from helpers.cases import each_case

from lite.kernels.prebuild.targets import TARGETS, chosen


def test_names_are_those_of_libraries() -> None:
    assert list(TARGETS) == ["x86-64-v2", "x86-64-v3", "x86-64-v4", "armv8"]
    assert all(target.name == name for name, target in TARGETS.items())


def test_lists_keep_their_order_and_name_each_target_once() -> None:
    assert chosen("armv8,x86-64-v2,armv8") == [TARGETS["armv8"], TARGETS["x86-64-v2"]]


@pytest.mark.parametrize(
    ("machine", "names"), [("x86_64", ["x86-64-v2", "x86-64-v3", "x86-64-v4"]), ("aarch64", ["armv8"])]
)
def test_host_is_all_of_this_architecture(
    monkeypatch: pytest.MonkeyPatch, machine: str, names: list[str]
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(sys, "platform", "linux")
    assert [target.name for target in chosen("host")] == names


@each_case("system", [("darwin", "arm64"), ("win32", "AMD64"), ("linux", "riscv64")])
def test_there_is_nothing_native_elsewhere(monkeypatch: pytest.MonkeyPatch, system: tuple[str, str]) -> None:
    monkeypatch.setattr(sys, "platform", system[0])
    monkeypatch.setattr(platform, "machine", lambda: system[1])
    with pytest.raises(ValueError, match=f"no target for {system[0]} on {system[1]}"):
        chosen("host")


def test_other_names_are_refused() -> None:
    with pytest.raises(ValueError, match="of x86-64-v2, x86-64-v3, x86-64-v4, armv8, got 'avx2'"):
        chosen("x86-64-v3,avx2")
