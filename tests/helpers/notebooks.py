"""Notebooks executed by nbclient in a process of their own, which leave nothing behind.

Run as a script, this file is that process: `notebooks.py NOTEBOOK EXECUTED FOLDER`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def execute(notebook: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The notebook with its outputs, those of a cell that failed included.

    Args:
        notebook: what is in the file.
        folder: where it runs; Jupyter, IPython and matplotlib keep there what they else write at home.
    """
    source, target = folder / "source.ipynb", folder / "executed.ipynb"
    source.write_text(json.dumps(notebook), encoding="utf-8")
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    homes = {
        name: str(folder / name.lower())
        for name in (
            "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR",
        )
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, __file__, str(source), str(target), str(folder)],
        env={**os.environ, **homes, "PYTHONPATH": path, "JUPYTER_PLATFORM_DIRS": "1"}, capture_output=True,
        text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    executed: dict[str, Any] = json.loads(target.read_text(encoding="utf-8"))
    return executed


def outputs(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """All outputs of all cells, in order."""
    return [output for cell in notebook["cells"] for output in cell.get("outputs", [])]


def main(source: str, target: str, folder: str) -> None:
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(source, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        allow_errors=True,  # the cells after it tell more
        resources={"metadata": {"path": folder}},
    )
    client.execute()
    nbformat.write(notebook, target)


if __name__ == "__main__":
    main(*sys.argv[1:])
