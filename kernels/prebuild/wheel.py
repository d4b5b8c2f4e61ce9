"""Wheels with libraries: `tensordict-lite-kernels`, which holds nothing else, and lite for one platform.

Beside lite for one platform stands `tensordict-lite-tiny-chat`, a wheel with the embedded model: four of its
ten megabytes, which a machine without language models does not need.
"""

import base64
import hashlib
import importlib.metadata
import json
import re
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from lite.kernels.backends import sources
from lite.kernels.prebuild import audit
from lite.kernels.prebuild.library import LICENCE
from lite.kernels.prebuild.targets import Target

PROJECT, PACKAGE = "tensordict-lite-kernels", "tensordict_lite_kernels"
INSIDE = "lite/kernels/libraries"  # where backends/prebuilt.py looks, too
MODEL_PROJECT, MODEL_PACKAGE = "tensordict-lite-tiny-chat", "tensordict_lite_tiny_chat"
_MODEL = "lite/models/tiny_chat/assets/"  # in the pure wheel; models/tiny_chat/embedded.py finds both
_WITH_MODEL = ("llm", "llm-cpu", "llm-numpy")  # extras
_LICENSED = "License-Expression: MIT\nLicense-File: LICENSE\n"
_CHECKOUT = Path(__file__).resolve().parents[2]
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same files make the same wheel
_FILE = 0o100644 << 16


def version() -> str:
    """The version of the lite whose kernels these are: of the checkout, or as installed."""
    package = _CHECKOUT / "lite" / "__init__.py"
    if package.is_file():
        (found,) = re.findall(r'^__version__ = "(.+)"$', package.read_text(encoding="utf-8"), re.M)
        return str(found)
    return importlib.metadata.version("tensordict-lite")


def tag(targets: Sequence[Target]) -> str:
    """For any CPython 3, and on Linux for any C library, as none is linked.

    Raises:
        ValueError: targets of several architectures or systems.

    Example:
        >>> from lite.kernels.prebuild.targets import chosen
        >>> from lite.kernels.prebuild.wheel import tag
        >>> tag(chosen("armv8"))
        'py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.musllinux_1_1_aarch64'
    """
    triples = {target.triple for target in targets}
    if len(triples) != 1:
        raise ValueError(
            f"a wheel is for one architecture and system, got targets for {', '.join(sorted(triples))}"
        )
    return "py3-none-" + ".".join(targets[0].platform_tags)


def pack(libraries: Path, targets: Sequence[Target], folder: Path) -> Path:
    """Write the wheel of the libraries and the manifest in a folder; returns its path.

    Args:
        libraries: the folder that `library.build_all` wrote.
        targets: for which.
        folder: for the wheel; made if it is missing.

    Raises:
        ValueError: a library needs something of the process, or is for another architecture.
    """
    number, tags = version(), tag(targets)
    info = f"{PACKAGE}-{number}.dist-info"
    files = {f"{PACKAGE}/__init__.py": b""} | _libraries(libraries, targets, PACKAGE)
    files |= _licences(libraries, info)
    licence = _CHECKOUT / "LICENSE"
    if licence.is_file():
        files[f"{info}/licenses/LICENSE"] = licence.read_bytes()
    files[f"{info}/METADATA"] = _metadata(
        PROJECT,
        number,
        "Compiled kernels of tensordict-lite, which then needs no compiler",
        _licensed(_LICENSED) if licence.is_file() else "",
        f"The kernels of `tensordict-lite` {number}, compiled: with this package they run without Numba\n"
        "and LLVM. It is used by that version alone.\n",
    )
    files[f"{info}/WHEEL"] = _wheel(tags)
    return _write(folder / f"{PACKAGE}-{number}-{tags}.whl", files, info)


def insert(libraries: Path, targets: Sequence[Target], pure: Path, folder: Path) -> Path:
    """Write the wheel of lite for one platform: the pure one with libraries inside, which needs no Numba.

    The embedded model is in a wheel of its own beside it, which the extras for language models require.

    Args:
        libraries: the folder that `library.build_all` wrote.
        targets: for which.
        pure: the wheel `tensordict_lite-VERSION-py3-none-any.whl`.
        folder: for the wheels; made if it is missing.

    Returns:
        The path of lite's wheel.

    Raises:
        ValueError: the wheel is not pure, or of other sources than the libraries; or as for `pack`.
    """
    name, *kind = pure.stem.split("-")
    if name != PACKAGE.removesuffix("_kernels") or kind[1:] != ["py3", "none", "any"]:
        raise ValueError(f"expected tensordict_lite-VERSION-py3-none-any.whl, got {pure.name}")
    with zipfile.ZipFile(pure) as archive, tempfile.TemporaryDirectory() as scratch:
        files = {each: archive.read(each) for each in archive.namelist()}
        archive.extractall(scratch, [each for each in files if each.startswith("lite/kernels/")])
        digest = sources.digest_of(Path(scratch, "lite", "kernels"))
    compiled = json.loads((libraries / "manifest.json").read_text(encoding="utf-8"))["digest"]
    if digest != compiled:
        raise ValueError(f"{pure.name} has kernels {digest}, the libraries are of {compiled}")
    number, tags = kind[0], tag(targets)
    info = f"{name}-{number}.dist-info"
    files |= _libraries(libraries, targets, INSIDE) | _licences(libraries, info)
    head, _, text = files[f"{info}/METADATA"].decode().partition("\n\n")
    lines = head.split("\n")
    needed = [line for line in lines if line.startswith("Requires-Dist: numba") and "extra ==" not in line]
    if len(needed) != 1:
        raise ValueError(f"{pure.name} requires Numba {len(needed)} times, expected once")
    lines.remove(needed[0])
    lines += [
        f'Requires-Dist: {MODEL_PROJECT}=={number}; extra == "{extra}"'
        for extra in _WITH_MODEL
        if f"Provides-Extra: {extra}" in lines
    ]
    model = {name: files.pop(name) for name in list(files) if name.startswith(_MODEL)}
    _pack_model(model, number, files[f"{info}/licenses/LICENSE"], folder)
    files[f"{info}/METADATA"] = (_licensed("\n".join([*lines, ""])) + f"\n{text}").encode()
    files[f"{info}/WHEEL"] = _wheel(tags)
    return _write(folder / f"{name}-{number}-{tags}.whl", files, info)


def _pack_model(model: dict[str, bytes], number: str, licence: bytes, folder: Path) -> None:
    """Write the wheel of the embedded model."""
    info = f"{MODEL_PACKAGE}-{number}.dist-info"
    files = {f"{MODEL_PACKAGE}/{name.removeprefix(_MODEL)}": data for name, data in model.items()}
    files |= {f"{MODEL_PACKAGE}/__init__.py": b"", f"{info}/licenses/LICENSE": licence}
    text = "The chat model of `lite demo`, which `lite.models.embedded_model_path()` names.\n"
    summary = "Embedded chat model of tensordict-lite"
    files[f"{info}/METADATA"] = _metadata(MODEL_PROJECT, number, summary, _LICENSED, text)
    files[f"{info}/WHEEL"] = _wheel("py3-none-any")
    _write(folder / f"{MODEL_PACKAGE}-{number}-py3-none-any.whl", files, info)


def _libraries(libraries: Path, targets: Sequence[Target], place: str) -> dict[str, bytes]:
    """The files of libraries, which must need no other and nothing of the process."""
    for target in targets:
        file = libraries / target.file
        system, machine, others, symbols = audit.demands(file)
        needed = [name for name in (*others, *symbols) if name not in target.system.always_there]
        if (system, machine) != (target.system.platform, target.machine) or needed:
            raise ValueError(
                f"{file.name} must be for {target.machine} on {target.system.platform} and need nothing, got "
                f"{machine} on {system}, which needs "
                f"{', '.join(needed) or 'nothing'}"
            )
    names = ["manifest.json", *(target.file for target in targets)]
    return {f"{place}/{name}": (libraries / name).read_bytes() for name in names}


def _licences(libraries: Path, info: str) -> dict[str, bytes]:
    return {f"{info}/licenses/{LICENCE}": (libraries / LICENCE).read_bytes()}


def _licensed(metadata: str) -> str:
    """Metadata with the licence of what Numba compiled of its own."""
    metadata = metadata.replace("License-Expression: MIT\n", "License-Expression: MIT AND BSD-2-Clause\n", 1)
    return metadata.replace("License-File: LICENSE\n", f"License-File: LICENSE\nLicense-File: {LICENCE}\n", 1)


def _wheel(tags: str) -> bytes:
    python, abi, platforms = tags.split("-")
    every = "".join(f"Tag: {python}-{abi}-{platform}\n" for platform in platforms.split("."))
    pure = str(platforms == "any").lower()
    return f"Wheel-Version: 1.0\nGenerator: lite.kernels.prebuild\nRoot-Is-Purelib: {pure}\n{every}".encode()


def _write(wheel: Path, files: dict[str, bytes], info: str) -> Path:
    """A wheel of these files, with their record."""
    files.pop(f"{info}/RECORD", None)
    names = sorted(files, key=lambda name: (name.startswith(info), name))
    record = "".join(f"{name},sha256={_digest(files[name])},{len(files[name])}\n" for name in names)
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    wheel.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in [*names, f"{info}/RECORD"]:
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr, entry.compress_type = _FILE, zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name])
    return wheel


def _metadata(project: str, number: str, summary: str, licensed: str, text: str) -> bytes:
    head = f"Metadata-Version: 2.4\nName: {project}\nVersion: {number}\nSummary: {summary}\n{licensed}"
    return f"{head}Requires-Python: >=3.11\nDescription-Content-Type: text/markdown\n\n{text}".encode()


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
