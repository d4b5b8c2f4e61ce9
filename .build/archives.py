"""Wheels and source distributions whose bytes follow from what is in them, whoever builds them and when.

Their description is README.md, whose links are made for a checkout. On the page of an index they lead to the
project's `Source` of `[project.urls]`; while it has none, their text stays and no link leads nowhere.
"""

import base64
import gzip
import hashlib
import io
import re
import tarfile
import tomllib
import zipfile
from pathlib import Path

DATE = (1980, 1, 1, 0, 0, 0)  # the earliest that a ZIP archive can tell
SECONDS = 315_532_800  # the same since 1970
FILE, FOLDER = 0o644, 0o755


def rewrite_wheel(path: Path) -> None:
    """Write a wheel anew, in place: files in their order by name, its own description last."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    (record,) = (name for name in files if name.endswith(".dist-info/RECORD"))
    info = record.removesuffix("RECORD")
    del files[record]
    files[f"{info}METADATA"] = described(files[f"{info}METADATA"])
    names = sorted(files, key=lambda name: (name.startswith(info), name))
    rows = [f"{name},sha256={_digest(files[name])},{len(files[name])}\n" for name in names]
    files[record] = "".join([*rows, f"{record},,\n"]).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in [*names, record]:
            entry = zipfile.ZipInfo(name, DATE)
            entry.external_attr, entry.compress_type = (0o100000 | FILE) << 16, zipfile.ZIP_DEFLATED
            entry.create_system = 3  # of Unix, whose access rights these are
            archive.writestr(entry, files[name])


def rewrite_sdist(path: Path) -> None:
    """Write a source distribution anew, in place: members by name, without owners and times."""
    with tarfile.open(path) as archive:
        members = {
            member.name: (member, found.read() if (found := archive.extractfile(member)) else b"")
            for member in archive.getmembers()
        }
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, (member, data) in sorted(members.items()):
            if name.rpartition("/")[2] == "PKG-INFO":  # wheels with kernels inside require less
                data = described(data).replace(b"\nName: ", b"\nDynamic: Requires-Dist\nName: ", 1)
            plain = tarfile.TarInfo(name)
            plain.type, plain.size, plain.mtime = member.type, len(data), SECONDS
            plain.mode = FOLDER if member.isdir() or member.mode & 0o100 else FILE
            archive.addfile(plain, io.BytesIO(data))
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(raw.getvalue())


def described(metadata: bytes) -> bytes:
    """Core metadata with the description that an index shows."""
    head, _, text = metadata.decode().partition("\n\n")
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    source = project.get("urls", {}).get("Source")
    (version,) = re.findall(r"^Version: (.+)$", head, re.M)
    return f"{head}\n\n{for_index(text, f'{source}/blob/v{version}' if source else None)}".encode()


def for_index(text: str, home: str | None) -> str:
    """Markdown whose relative links lead to `home`, or are text where there is none."""

    def link(found: re.Match[str]) -> str:
        shown, target = found.groups()
        if "://" in target or target.startswith(("#", "mailto:")):
            return found[0]
        return f"[{shown}]({home}/{target})" if home else shown

    parts = re.split(r"(^```.*?^```)", text, flags=re.M | re.S)  # blocks of code are at odd places
    return "".join(
        part if k % 2 else re.sub(r"\[([^]]+)\]\(([^)\s]+)\)", link, part) for k, part in enumerate(parts)
    )


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
