"""Shared libraries of kernels, and the manifest that describes them."""

import importlib.metadata
import itertools
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lite.kernels.backends import sources
from lite.kernels.prebuild.signatures import SIGNATURES
from lite.kernels.prebuild.targets import LINUX, Target

_ENTRIES = Path(__file__).with_name("entries.c")
_COMPILE = (
    "-std=c11", "-O2", "-ffreestanding", "-fPIC", "-fvisibility=hidden", "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables", "-Wall", "-Wextra", "-Werror",
)  # fmt: skip
# No library is linked, not even C's, so that a missing symbol is an error here and not in a process later.
_LINK = {
    "linux": (
        "-shared", "-nostdlib", "-Wl,--no-undefined", "-Wl,--gc-sections", "-Wl,-s", "-Wl,-z,noexecstack",
        "-Wl,-z,relro", "-Wl,--build-id=none",
    ),
    "win32": ("-shared", "-nostdlib", "-Wl,--gc-sections", "-Wl,-s"),
    "darwin": ("-shared", "-nostdlib", "-Wl,-dead_strip", "-Wl,-s", "-Wl,-install_name,@rpath/kernels"),
}  # fmt: skip


LICENCE = "LICENSE.numba"
Tell = Callable[[str], None]


def _tell_nobody(line: str) -> None:
    pass


class BuildError(RuntimeError):
    """Raised if a library cannot be compiled; the text has the reason."""


def compiler_for(target: Target, asked: str | None) -> list[str]:
    """The command of the C compiler: `asked`, or the variable CC, or the usual one for the target.

    Raises:
        BuildError: there is none.
    """
    if asked or (target.native and os.environ.get("CC")):
        said = asked or os.environ["CC"]  # on Windows a backslash is part of a path, not an escape
        command = shlex.split(said.replace("\\", "\\\\") if os.name == "nt" else said)
    else:
        usual: tuple[str, ...] = ()
        if target.system is LINUX:
            usual = ("cc", "gcc", "clang") if target.native else (f"{target.machine}-linux-gnu-gcc",)
        found = next(filter(None, map(shutil.which, usual)), None)
        command = [found] if found else [sys.executable, "-m", "ziglang", "cc"]
    if "ziglang" in command or Path(command[0]).stem == "zig":
        command += ["-target", f"{target.machine}-{target.system.zig}", "-fno-sanitize=undefined"]
    return command


def _run(
    command: Sequence[str], what: str, environment: dict[str, str] | None = None, tell: Tell = _tell_nobody
) -> None:
    """Run a command, and report each line of its output."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        try:
            process = subprocess.Popen(
                command,
                env=os.environ | (environment or {}),
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        except FileNotFoundError as error:
            raise BuildError(f"{what}: {command[0]} was not found") from error
        with process:
            assert process.stdout is not None
            for line in process.stdout:
                tell(line.strip())
        if process.returncode:
            errors.seek(0)
            raise BuildError(f"{what} failed: {shlex.join(command)}\n{errors.read()[-2000:]}")


def build(
    target: Target,
    folder: Path,
    compiler: str | None = None,
    names: Sequence[str] = (),
    tell: Tell = _tell_nobody,
) -> dict[str, str | int]:
    """Compile the library of a target into `folder`, and return its entry of the manifest.

    Args:
        compiler: the command of the C compiler; None chooses.
        names: names of kernels; all by default.
        tell: called with a line of progress at the start of each kernel.

    Raises:
        BuildError: a compiler failed, or is not installed.
    """
    command = compiler_for(target, compiler)
    file = folder / target.file
    with tempfile.TemporaryDirectory() as scratch:
        kernels, entries = f"{scratch}/kernels.o", f"{scratch}/entries.o"
        _run((*command, *_COMPILE, "-c", str(_ENTRIES), "-o", entries), "the C compiler")
        environment = target.environment | {"LITE_KERNELS": "numba", "NUMBA_DISABLE_JIT": "0"}
        environment["NUMBA_CACHE_DIR"] = f"{scratch}/numba"  # its code is of no use to other processes
        numbers = itertools.count(1)
        _run(
            (sys.executable, "-m", "lite.kernels.prebuild.kernel_object", target.name, kernels, *names),
            f"Numba, for {target.name},",
            environment,
            lambda name: tell(f"{target.name}: {name}, {next(numbers)} of {len(names or SIGNATURES)}"),
        )
        linked = f"{scratch}/{target.file}"  # some linkers write more beside it
        # Files for Windows have a time in them; 0 makes builds reproducible.
        epoch = {"SOURCE_DATE_EPOCH": "0"}
        _run((*command, *_LINK[target.system.platform], kernels, entries, "-o", linked), "the linker", epoch)
        shutil.copyfile(linked, file)
    return {"file": file.name, "target": target.name, "level": target.level, "size": file.stat().st_size}


def build_all(
    targets: Sequence[Target],
    folder: Path,
    compiler: str | None = None,
    names: Sequence[str] = (),
    tell: Tell = _tell_nobody,
) -> Path:
    """Libraries for all targets, their manifest and Numba's licence, in `folder`, which is made.

    Numba compiles parts of its own code into them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # each waits for a process
        libraries = list(pool.map(lambda target: build(target, folder, compiler, names, tell), targets))
    manifest = folder / "manifest.json"
    compilers = {name: importlib.metadata.version(name) for name in ("numba", "llvmlite")}
    text = {"format": 1, "digest": sources.digest(), "compilers": compilers, "libraries": libraries}
    (folder / LICENCE).write_bytes(_licence_of_numba())
    manifest.write_text(json.dumps(text, indent=2) + "\n", encoding="utf-8")
    return manifest


def _licence_of_numba() -> bytes:
    files = importlib.metadata.files("numba") or []
    found = sorted((file for file in files if file.name == "LICENSE"), key=lambda file: len(file.parts))
    if not found:
        raise BuildError("Numba is installed without its licence, which goes with what it compiles")
    return Path(str(found[0].locate())).read_bytes()
