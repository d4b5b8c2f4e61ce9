"""Targets of compiled kernels: levels of x86-64 and 64-bit ARM, on Linux."""

import platform
import sys
from typing import NamedTuple


class Target(NamedTuple):
    """Processors that run the same code.

    Attributes:
        name: as on the command line, and of the library's file.
        level: what `lite_fits` of entries.c is asked for.
        machine: as `platform.machine()` says it on Linux.
        processor: LLVM's name.
        features: LLVM's, beyond those of the processor.
    """

    name: str
    level: int
    machine: str
    processor: str
    features: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """The settings that make Numba compile for it."""
        return {"NUMBA_CPU_NAME": self.processor, "NUMBA_CPU_FEATURES": self.features}

    @property
    def native(self) -> bool:
        """Whether it is Linux on this machine's architecture."""
        return sys.platform == "linux" and self.machine == platform.machine()


TARGETS = {
    target.name: target
    for target in (
        Target("x86-64-v2", 2, "x86_64", "x86-64-v2"),
        Target("x86-64-v3", 3, "x86_64", "x86-64-v3"),
        Target("x86-64-v4", 4, "x86_64", "x86-64-v4"),
        Target("armv8", 0, "aarch64", "generic", "+neon"),
    )
}


def chosen(names: str) -> list[Target]:
    """The targets of a list with commas; "host" is all that are native.

    Raises:
        ValueError: a name that is none of them.

    Example:
        >>> from lite.kernels.prebuild.targets import chosen
        >>> [target.level for target in chosen("x86-64-v3,armv8")]
        [3, 0]
    """
    found: list[Target] = []
    for name in names.split(","):
        if name == "host":
            found += [target for target in TARGETS.values() if target.native]
        elif name in TARGETS:
            found.append(TARGETS[name])
        else:
            raise ValueError(f"target must be host or of {', '.join(TARGETS)}, got {name!r}")
    if not found:
        raise ValueError(
            f"there is no target for {sys.platform} on {platform.machine()}, name one of {', '.join(TARGETS)}"
        )
    return list(dict.fromkeys(found))
