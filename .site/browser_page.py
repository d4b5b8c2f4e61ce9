"""The page whose programs run in a browser: lite's wheel, and where Pyodide is from."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from documents import ROOT

FOLDER = ROOT / ".site" / "browser"
CELLS = FOLDER / "cells"
RUNTIME = "_browser"
"""The folder of the site with what is loaded when a program runs, which its weight is without."""

PYODIDE = json.loads((FOLDER / "pyodide.json").read_text(encoding="utf-8"))
# npm's files, which the sums are of; the packages that were built for them, whose sums are in the lock file.
_CORE = f"https://cdn.jsdelivr.net/npm/pyodide@{PYODIDE['version']}/"
_PACKAGES = f"https://cdn.jsdelivr.net/pyodide/v{PYODIDE['version']}/full/"


def write_runtime(folder: Path, pyodide: Path | None = None) -> str:
    """Build lite's wheel into a folder, and copy Pyodide there if it is given.

    Gives what the page is told of them, as JSON.
    """
    folder.mkdir(parents=True)
    build = f"""import sys; sys.path.insert(0, ".build"); import backend
print(backend.build_wheel({str(folder)!r}))"""
    done = subprocess.run([sys.executable, "-c", build], cwd=ROOT, check=True, capture_output=True, text=True)
    wheel = folder / done.stdout.splitlines()[-1]
    core, packages = _CORE, _PACKAGES
    if pyodide is not None:
        (folder / "pyodide").mkdir()
        for file in [*(pyodide / name for name in PYODIDE["sums"]), *pyodide.glob("numpy-*.whl")]:
            shutil.copy(file, folder / "pyodide")
        core = packages = f"{RUNTIME}/pyodide/"
    digest = base64.b64encode(hashlib.sha384(wheel.read_bytes()).digest()).decode()
    modules = {
        file.name: file.read_text(encoding="utf-8")
        for file in (FOLDER / "run_cell.py", ROOT / ".site" / "svg.py")
    }
    return json.dumps(
        {
            "core": core,
            "packages": packages,
            "sums": PYODIDE["sums"],
            "wheel": f"{RUNTIME}/{wheel.name}",
            "wheel_sum": f"sha384-{digest}",
            "modules": modules,
        }
    )


def with_cells(text: str, runtime: str) -> str:
    """The page with fields for its programs in place of the links to them."""
    text = re.sub(r"^\[\w+\.py\]\(cells/(\w+)\.py\)$", lambda link: _cell(link[1]), text, flags=re.M)
    told = runtime.replace("</", "<\\/")  # what would end the script
    setup = 'type="application/json" id="browser-setup" data-worker="_static/browser_worker.js"'
    script = f"<script {setup}>{told}</script>"
    return f'{text}\n```{{raw}} html\n{script}\n<script src="_static/browser.js"></script>\n```\n'


def _cell(name: str) -> str:
    source = (CELLS / f"{name}.py").read_text(encoding="utf-8").rstrip()
    field = 'spellcheck="false" autocapitalize="off" autocomplete="off" wrap="off"'
    lines = [
        "```{raw} html",
        f'<div class="cell" id="cell-{name}">',
        f'<textarea {field} rows="{source.count(chr(10)) + 1}" aria-label="program {name}.py">',
        html.escape(source) + "</textarea>",
        '<p><button type="button" class="run">Run</button>',
        '<button type="button" class="reset">Reset</button>',
        '<span class="state" role="status"></span></p>',
        '<div class="output"></div>',
        "</div>",
        "```",
    ]
    return "\n".join(lines)
