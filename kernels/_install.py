"""The command to install missing packages, for errors: from a checkout.

`tensordict-lite` and `tensordict-lite-kernels` are on no index before a release. A command that asks an index
for them could install another project's packages under these names.
"""

import importlib
from typing import Any

PREBUILT = "`python -m lite.kernels.prebuild --wheel dist && pip install --no-deps dist/*.whl` in a checkout"


def install(extras: str) -> str:
    """The command that brings optional packages.

    Args:
        extras: names of `[project.optional-dependencies]`, with commas between them.

    Example:
        >>> install("llm,cuda")
        'pip install -e ".[llm,cuda]" in a checkout of lite'
    """
    return f'pip install -e ".[{extras}]" in a checkout of lite'


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
