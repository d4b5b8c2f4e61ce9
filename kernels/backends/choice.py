"""The backend of the kernels in this process."""

import functools
import importlib.util
import os
import sys
from typing import Literal, NamedTuple, TypeAlias

from lite.kernels._install import PREBUILT
from lite.kernels.backends import prebuilt

Backend: TypeAlias = Literal["prebuilt", "numba", "numpy"]

_REMEDIES = (
    f"{PREBUILT} compiles them beforehand, also for machines without a compiler, and `pip install numba` "
    "brings the compiler that makes them on this one"
)


class Choice(NamedTuple):
    """The chosen backend."""

    backend: Backend
    library: prebuilt.Library | None = None
    warning: str | None = None  # to give when the first kernel runs


def backend() -> Backend:
    """The backend of this process: "prebuilt", "numba" or "numpy".

    A library compiled beforehand for this processor and version (the package `tensordict-lite-kernels`, or
    a folder named by LITE_KERNELS_PATH); else Numba; else plain NumPy, which is slower. It is decided once.
    The environment variable LITE_KERNELS, set to one of the three names, decides instead;
    "prebuilt:x86-64-v3" also picks one of the libraries.

    Raises:
        ImportError: what LITE_KERNELS asks for is not here.
        ValueError: LITE_KERNELS is none of the names.

    Example:
        >>> import lite.kernels
        >>> lite.kernels.backend() in ("prebuilt", "numba", "numpy")
        True
    """
    return choice().backend


@functools.cache
def choice() -> Choice:
    """The backend, with what belongs to it."""
    asked, _, level = os.environ.get("LITE_KERNELS", "").partition(":")
    if asked not in ("", "prebuilt", "numba", "numpy") or (level and asked != "prebuilt"):
        raise ValueError(
            'the environment variable LITE_KERNELS must be "prebuilt", "prebuilt:LEVEL", "numba" or "numpy", '
            f"got {os.environ['LITE_KERNELS']!r}"
        )
    switched_off = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
    refused: list[str] = []
    if asked == "prebuilt":
        library = prebuilt.find(level or None, refused)
        if library is None:
            raise ImportError(
                f"LITE_KERNELS={os.environ['LITE_KERNELS']}, but no library of kernels for this processor "
                f"and this version of lite was found: {PREBUILT} makes some, or set "
                "LITE_KERNELS_PATH to the folder that holds one" + _said(refused)
            )
        return Choice("prebuilt", library)
    if asked == "numba":
        if switched_off:
            raise ImportError("LITE_KERNELS=numba, but NUMBA_DISABLE_JIT switches Numba's compiler off")
        if not _numba_is_here():
            raise ImportError("LITE_KERNELS=numba, but Numba is not installed: `pip install numba`")
        return Choice("numba")
    if asked == "numpy" or switched_off:
        return Choice("numpy")
    library = prebuilt.find(None, refused)
    if library is not None:
        return Choice("prebuilt", library)
    if _numba_is_here():
        return Choice("numba")
    if sys.platform == "emscripten":  # neither remedy exists in a browser
        return Choice("numpy")
    return Choice(
        "numpy", warning=f"lite.kernels run in plain NumPy: correct, but slower. {_REMEDIES}{_said(refused)}"
    )


def _said(refused: list[str]) -> str:
    """Why libraries that are here are not used."""
    return "".join(f"\nnot used: {reason}" for reason in refused)


def _numba_is_here() -> bool:
    """Numba and its compiler; neither is imported to find out."""
    try:
        return all(importlib.util.find_spec(name) is not None for name in ("numba", "llvmlite"))
    except (ImportError, ValueError):
        return False
