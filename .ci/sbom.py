"""`python .ci/sbom.py WHEEL...` writes a bill of materials beside each wheel: CycloneDX 1.6, as JSON.

It lists the wheel, what it holds beyond Python's files (compiled kernels, the embedded model, its tokenizer)
with digests and licences, the compiler whose code is part of the kernels, and what the wheel requires. It is
made of the wheel alone, without a time or a random number: the same wheel has the same bill.
"""

from __future__ import annotations

import email
import hashlib
import json
import re
import sys
import uuid
import zipfile
from pathlib import Path
from typing import Any

MODEL = ("lite/models/tiny_chat/assets/tiny_chat/", "tensordict_lite_tiny_chat/tiny_chat/")
LIBRARIES = ("lite/kernels/libraries/", "tensordict_lite_kernels/")


def digest(data: bytes) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": hashlib.sha256(data).hexdigest()}]


def licensed(expression: str) -> list[dict[str, str]]:
    return [{"expression": expression}]


def file(kind: str, name: str, data: bytes, expression: str, text: str) -> dict[str, Any]:
    """A part of the wheel, which it holds as a file."""
    return {
        "bom-ref": name, "type": kind, "name": name.rpartition("/")[2], "description": text,
        "hashes": digest(data), "licenses": licensed(expression),
        "properties": [{"name": "path", "value": name}],
    }  # fmt: skip


def required(line: str) -> dict[str, Any]:
    """A package that pip installs with the wheel; optional where an extra asks for it."""
    name, wanted = re.match(r"([\w.-]+)(?:\[[^]]*\])?\s*([^;]*)", line).groups()  # type: ignore[union-attr]
    extra = re.search(r'extra == "([^"]+)"', line)
    properties = [{"name": "requirement", "value": line}]
    return {
        "bom-ref": f"requirement:{line}", "type": "library", "name": name,
        "scope": "optional" if extra else "required", "purl": f"pkg:pypi/{name.lower().replace('_', '-')}",
        "properties": properties + ([{"name": "versions", "value": wanted}] if wanted else []),
    }  # fmt: skip


def bill(wheel: Path) -> dict[str, Any]:
    """The bill of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    (named,) = (name for name in files if name.endswith(".dist-info/METADATA"))
    told = email.message_from_bytes(files[named])
    name, version = str(told["Name"]), str(told["Version"])
    whole = wheel.read_bytes()
    parts = []
    for path, data in sorted(files.items()):
        if path.startswith(MODEL) and path.endswith("/model.onnx"):
            about = "a chat model of a million parameters, made by the recipe beside it from text of its own"
            parts.append(file("machine-learning-model", path, data, "MIT", about))
        elif path.startswith(MODEL) and path.endswith("/tokenizer.json"):
            parts.append(file("data", path, data, "MIT", "its tokenizer, trained by the same recipe"))
        elif path.startswith(LIBRARIES) and path.endswith(".so"):
            about = f"kernels compiled for {path.rpartition('/')[2].removesuffix('.so')}"
            parts.append(file("library", path, data, "MIT AND BSD-2-Clause", about))
        elif path.startswith(LIBRARIES) and path.endswith("manifest.json"):
            numba = json.loads(data)["compilers"]["numba"]
            about = "the compiler of the kernels, parts of which are compiled into them"
            parts.append(
                {
                    "bom-ref": "numba",
                    "type": "library",
                    "name": "numba",
                    "version": numba,
                    "description": about,
                    "purl": f"pkg:pypi/numba@{numba}",
                    "licenses": licensed("BSD-2-Clause"),
                }
            )
    needs = [required(line) for line in told.get_all("Requires-Dist", [])]
    main = {
        "bom-ref": "wheel", "type": "library", "name": name, "version": version,
        "description": str(told["Summary"]), "purl": f"pkg:pypi/{name}@{version}?file_name={wheel.name}",
        "hashes": digest(whole), "licenses": licensed(str(told["License-Expression"])),
    }  # fmt: skip
    needed = [each["bom-ref"] for each in needs if each["scope"] == "required"]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.UUID(bytes=hashlib.sha256(whole).digest()[:16], version=4)}",
        "version": 1,
        "metadata": {"component": main},
        "components": [*parts, *needs],
        "dependencies": [{"ref": "wheel", "dependsOn": [*(part["bom-ref"] for part in parts), *needed]}],
    }


if __name__ == "__main__":
    for each in map(Path, sys.argv[1:]):
        beside = each.with_name(f"{each.name}.cdx.json")
        beside.write_text(json.dumps(bill(each), indent=1) + "\n", encoding="utf-8")
        print(f"wrote {beside}")
