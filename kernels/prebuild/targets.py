"""Targets of compiled kernels: levels of x86-64 and 64-bit ARM, on Linux."""

import platform
import sys
from typing import NamedTuple


class Target(NamedTuple):
    """A family of processors that one library is compiled for.

    Attributes:
        name: the name on the command line, and of the library's file.
        level: the argument of `lite_fits` (entries.c), which checks the processor.
        machine: the value of `platform.machine()` on Linux.
        processor: LLVM's name of the processor.
        features: LLVM's features beyond those of the processor.
    """

    name: str
    level: int
    machine: str
    processor: str
    features: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that make Numba compile for the target."""
        return {"NUMBA_CPU_NAME": self.processor, "NUMBA_CPU_FEATURES": self.features}

    @property
    def native(self) -> bool:
        """Whether this machine is Linux of the target's architecture."""
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
    """The targets of comma-separated names; "host" is all native targets.

    Raises:
        ValueError: an unknown name, or no target for this machine.

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
