"""Import Numba; ImportError with the command to install it."""

import importlib
from collections.abc import Callable
from typing import Any

from lite.kernels._install import PREBUILT, install

listeners: list[Callable[[str], None]] = []  # called with the name of a kernel before it is compiled

_ENOUGH = 1 << 30  # bytes of address space


class CompilerMissing(ImportError):
    """Numba cannot be imported; the message has the pip command, or the reason."""


def import_numba(purpose: str, extra: str | None = None) -> Any:
    """The package.

    Args:
        purpose: what needs it, as the message begins.
        extra: the extra of lite that brings what is needed; None for Numba alone.

    Raises:
        CompilerMissing: it is not installed, or does not load.
    """
    try:
        return importlib.import_module("numba")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("numba", "llvmlite"):
            command = "`pip install numba`" if extra is None else install(extra)
            raise CompilerMissing(f"{purpose} needs Numba: {command}") from error
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
        f"{purpose} needs Numba. {reason}, or do without it: {PREBUILT} "
        "makes kernels where Numba loads, and LITE_KERNELS=numpy in the environment runs them in plain NumPy"
    ) from cause


def _address_space() -> int | None:
    """Its limit in bytes; None if there is no limit."""
    try:
        import resource
    except ImportError:  # no Unix
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit
