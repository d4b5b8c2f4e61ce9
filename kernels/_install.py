"""The command to install missing packages, for errors: from a checkout, or from what lite was installed from.

`tensordict-lite` and `tensordict-lite-kernels` are on no index before a release. A command that asks an index
for them could install another project's packages under these names.
"""

import importlib
from pathlib import Path
from typing import Any

_CHECKOUT = (Path(__file__).resolve().parents[1] / "pyproject.toml").is_file()
PREBUILT = "`python -m lite.kernels.prebuild --wheel dist && pip install --no-deps dist/*.whl` in a checkout"


def install(extras: str) -> str:
    """The command that brings optional packages.

    Args:
        extras: names of `[project.optional-dependencies]`, with commas between them.

    Example:
        >>> install("llm,cuda").partition("[")[2].partition("]")[0]
        'llm,cuda'
    """
    if _CHECKOUT:
        return f'pip install -e ".[{extras}]" in a checkout of lite'
    return f'pip install "PLACE[{extras}]", where PLACE is the wheel or checkout that lite came from'


def needed(module: str, purpose: str, command: str) -> Any:
    """An optional module, imported.

    Args:
        module: its name, with dots.
        purpose: the beginning of the error, such as "videos need imageio".
        command: that installs it, such as `install("video")`.

    Raises:
        ImportError: it cannot be imported.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{purpose}: {command}") from error
