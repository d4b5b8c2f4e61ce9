"""The wheel `tensordict-lite-kernels`: libraries and their manifest, and no code that Python runs."""

import base64
import hashlib
import importlib.metadata
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path

from lite.kernels.prebuild.targets import Target

PROJECT, PACKAGE = "tensordict-lite-kernels", "tensordict_lite_kernels"
_CHECKOUT = Path(__file__).resolve().parents[2]
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same files make the same wheel
_FILE = 0o100644 << 16


def version() -> str:
    """That of the lite whose kernels these are: of the checkout, or as installed."""
    package = _CHECKOUT / "lite" / "__init__.py"
    if package.is_file():
        (found,) = re.findall(r'^__version__ = "(.+)"$', package.read_text(encoding="utf-8"), re.M)
        return str(found)
    return importlib.metadata.version("tensordict-lite")


def tag(targets: Sequence[Target]) -> str:
    """For any CPython 3, and for any C library, as none is linked.

    Raises:
        ValueError: targets of several architectures.

    Example:
        >>> from lite.kernels.prebuild.targets import chosen
        >>> from lite.kernels.prebuild.wheel import tag
        >>> tag(chosen("armv8"))
        'py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.musllinux_1_1_aarch64'
    """
    machines = {target.machine for target in targets}
    if len(machines) != 1:
        raise ValueError(f"a wheel is for one architecture, got targets for {', '.join(sorted(machines))}")
    (machine,) = machines
    systems = ("manylinux2014", "manylinux_2_17", "musllinux_1_1")
    return "py3-none-" + ".".join(f"{system}_{machine}" for system in systems)


def pack(libraries: Path, targets: Sequence[Target], folder: Path) -> Path:
    """Write the wheel of the libraries and the manifest in a folder; returns its path.

    Args:
        libraries: what `library.build_all` wrote.
        targets: for which.
        folder: for the wheel; made if it is missing.
    """
    number, tags = version(), tag(targets)
    info = f"{PACKAGE}-{number}.dist-info"
    python, abi, platforms = tags.split("-")
    every = "".join(f"Tag: {python}-{abi}-{platform}\n" for platform in platforms.split("."))
    names = ["manifest.json", *(f"{target.name}.so" for target in targets)]
    files = {f"{PACKAGE}/__init__.py": b""}
    files |= {f"{PACKAGE}/{name}": (libraries / name).read_bytes() for name in names}
    licence = _CHECKOUT / "LICENSE"
    if licence.is_file():
        files[f"{info}/licenses/LICENSE"] = licence.read_bytes()
    files[f"{info}/METADATA"] = _metadata(number, licence.is_file()).encode()
    files[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: lite.kernels.prebuild\nRoot-Is-Purelib: false\n{every}"
    ).encode()
    record = "".join(f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{PACKAGE}-{number}-{tags}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr, entry.compress_type = _FILE, zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return wheel


def _metadata(number: str, licensed: bool) -> str:
    return (
        f"Metadata-Version: 2.4\nName: {PROJECT}\nVersion: {number}\n"
        "Summary: Compiled kernels of tensordict-lite, which then needs no compiler\n"
        + ("License-Expression: MIT\nLicense-File: LICENSE\n" if licensed else "")
        + "Requires-Python: >=3.11\nDescription-Content-Type: text/markdown\n\n"
        f"The kernels of `tensordict-lite` {number}, compiled: with this package they run without Numba and\n"
        "LLVM. It is used by that version alone.\n"
    )


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
