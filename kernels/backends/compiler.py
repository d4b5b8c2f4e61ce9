"""Numba, imported, or an error that says what to do."""

import importlib
from collections.abc import Callable
from typing import Any

listeners: list[Callable[[str], None]] = []  # called with the name of a kernel before it is compiled

_ENOUGH = 1 << 30  # bytes of address space


class CompilerMissing(ImportError):
    """Numba cannot be imported; the message has the pip command, or the reason."""


def import_numba(purpose: str, package: str = "numba") -> Any:
    """The package.

    Args:
        purpose: what needs it, as the message begins.
        package: what to install for that.

    Raises:
        CompilerMissing: it is not installed, or does not load.
    """
    quoted = f'"{package}"' if "[" in package else package
    try:
        return importlib.import_module("numba")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("numba", "llvmlite"):
            raise CompilerMissing(f"{purpose} needs Numba: `pip install {quoted}`") from error
        cause: Exception = error
    except (ImportError, OSError, MemoryError) as error:
        cause = error
    reason = f"Numba is installed but does not load ({str(cause) or type(cause).__name__})"
    limit = _address_space()
    if limit is not None and limit < _ENOUGH:
        reason += (
            f": this process may use {limit >> 20} MB of address space (RLIMIT_AS, `ulimit -v`), "
            f"and Numba's compiler may need {_ENOUGH >> 20}. Raise the limit"
        )
    else:
        reason += ". Install one that fits, with `pip install --upgrade numba`"
    raise CompilerMissing(
        f"{purpose} needs Numba. {reason}, or do without it: `pip install tensordict-lite-kernels` brings "
        "kernels compiled beforehand, and LITE_KERNELS=numpy in the environment runs them in plain NumPy"
    ) from cause


def _address_space() -> int | None:
    """Its limit in bytes; None where there is none."""
    try:
        import resource
    except ImportError:  # no Unix
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit
