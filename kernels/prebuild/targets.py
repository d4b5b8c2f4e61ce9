"""Targets of compiled kernels: levels of x86-64 and 64-bit ARM, on Linux, Windows and macOS."""

import platform
import sys
from typing import NamedTuple


class System(NamedTuple):
    """An operating system that libraries are compiled for.

    Attributes:
        platform: the value of `sys.platform` there.
        suffix: suffix of a library's file.
        triple: LLVM's name of it, behind the architecture.
        zig: the same for `zig cc -target`.
        machines: the values of `platform.machine()` on x86-64 and 64-bit ARM.
        tags: tags of wheels, before the architecture.
        always_there: what a library may need of the system: the library that each one there links to, and
            the symbol that linkers take from it.
    """

    platform: str
    suffix: str
    triple: str
    zig: str
    machines: tuple[str, str]
    tags: tuple[str, ...]
    always_there: tuple[str, ...] = ()


LINUX = System(
    "linux", ".so", "unknown-linux-gnu", "linux-gnu.2.17", ("x86_64", "aarch64"),
    ("manylinux2014", "manylinux_2_17", "musllinux_1_1"),
)  # fmt: skip
WINDOWS = System("win32", ".dll", "w64-windows-gnu", "windows-gnu", ("AMD64", "ARM64"), ("win",))
MACOS = System(
    "darwin", ".dylib", "apple-macosx11.0.0", "macos.11.0", ("x86_64", "arm64"), ("macosx_11_0",),
    ("/usr/lib/libSystem.B.dylib", "dyld_stub_binder"),
)  # fmt: skip


class Target(NamedTuple):
    """A family of processors that one library is compiled for.

    Attributes:
        name: the name on the command line, and of the library's file.
        level: the argument of `lite_fits` (entries.c), which checks the processor.
        machine: the architecture, "x86_64" or "aarch64".
        processor: LLVM's name of the processor.
        features: LLVM's features beyond those of the processor.
        system: the operating system.
    """

    name: str
    level: int
    machine: str
    processor: str
    features: str = ""
    system: System = LINUX

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that make Numba compile for the target."""
        return {"NUMBA_CPU_NAME": self.processor, "NUMBA_CPU_FEATURES": self.features}

    @property
    def native(self) -> bool:
        """Whether this machine has the target's architecture and system."""
        return (sys.platform, platform.machine()) == (self.system.platform, self._machine)

    @property
    def _machine(self) -> str:
        """The system's name of the architecture."""
        return self.system.machines[LINUX.machines.index(self.machine)]

    @property
    def platform_tags(self) -> list[str]:
        """The last part of a wheel's tags."""
        return [f"{system}_{self._machine.lower()}" for system in self.system.tags]

    @property
    def file(self) -> str:
        """The name of the library's file."""
        return self.name + self.system.suffix

    @property
    def triple(self) -> str:
        """LLVM's name of the architecture and the system."""
        return f"{self.machine}-{self.system.triple}"


TARGETS = {
    target.name: target
    for target in (
        Target("x86-64-v2", 2, "x86_64", "x86-64-v2"),
        Target("x86-64-v3", 3, "x86_64", "x86-64-v3"),
        Target("x86-64-v4", 4, "x86_64", "x86-64-v4"),
        Target("armv8", 0, "aarch64", "generic", "+neon"),
        Target("windows-x86-64-v2", 2, "x86_64", "x86-64-v2", system=WINDOWS),
        Target("windows-x86-64-v3", 3, "x86_64", "x86-64-v3", system=WINDOWS),
        Target("windows-armv8", 0, "aarch64", "generic", "+neon", WINDOWS),
        Target("macos-x86-64-v2", 2, "x86_64", "x86-64-v2", system=MACOS),
        Target("macos-x86-64-v3", 3, "x86_64", "x86-64-v3", system=MACOS),
        Target("macos-armv8", 0, "aarch64", "generic", "+neon", MACOS),
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
