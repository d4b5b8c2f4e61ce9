"""The notebook as it is when all of its cells have run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from documents import ROOT

NOTEBOOK = ROOT / "tests" / "examples" / "first_steps.ipynb"


def as_kept() -> dict[str, Any]:
    """The notebook without outputs, as it is in the repository."""
    kept: dict[str, Any] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    return kept


def execute(folder: Path) -> dict[str, Any]:
    """Run the notebook in a kernel of its own; the error of a cell is raised."""
    import nbformat
    from nbclient import NotebookClient

    for name in (
        "IPYTHONDIR",
        "JUPYTER_CONFIG_DIR",
        "JUPYTER_DATA_DIR",
        "JUPYTER_RUNTIME_DIR",
        "MPLCONFIGDIR",
    ):
        os.environ[name] = str(folder / name.lower())  # else they would write at home
    os.environ["JUPYTER_PLATFORM_DIRS"] = "1"
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    where = {"metadata": {"path": str(folder)}}
    quiet = ["--IPKernelApp.log_level=ERROR"]  # it warns of no encryption, within this machine
    client = NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources=where, extra_arguments=quiet
    )
    client.execute()
    executed: dict[str, Any] = json.loads(nbformat.writes(notebook))
    return executed
