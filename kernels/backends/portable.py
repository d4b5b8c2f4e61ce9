"""Caches of compiled kernels for other machines.

Numba compiles for the processor at hand. For a folder that is copied, `lite warmup --output` compiles for a
level that most processors of the architecture have. A processor that has the level reads that code if there
is none of its own. Levels are x86-64-v3 (AVX2 and fused multiply-add: Intel since 2013, AMD since 2015)
and plain 64-bit ARM.
"""

import os
import platform
from collections.abc import Mapping
from pathlib import Path

# LLVM's name of the level, and of the features that it has beyond the architecture's baseline.
_LEVELS: dict[str, tuple[str, tuple[str, ...]]] = {
    "x86_64": ("x86-64-v3", ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")),
    "aarch64": ("generic", ()),
}
FEATURES = ""  # in addition to the level's own


def level() -> str | None:
    """LLVM's name of the level for this architecture; None if it has none."""
    found = _level()
    return found[0] if found else None


def fits(features: Mapping[str, bool]) -> bool:
    """Whether a processor with these features, by LLVM's names, runs code for the level."""
    found = _level()
    return found is not None and all(features.get(name, False) for name in found[1])


def environment(folder: Path) -> dict[str, str]:
    """The environment of a process that compiles into `folder`, at the level or for NUMBA_CPU_NAME."""
    name, wanted = level(), dict(os.environ)
    if name is not None and "NUMBA_CPU_NAME" not in wanted:
        wanted |= {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": FEATURES}
    return wanted | {"LITE_KERNELS": "numba", "NUMBA_CACHE_DIR": str(folder.absolute())}


def _level() -> tuple[str, tuple[str, ...]] | None:
    machine = platform.machine().lower()
    return _LEVELS.get({"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine))
