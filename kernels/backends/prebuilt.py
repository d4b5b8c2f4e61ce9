"""Libraries of kernels that were compiled beforehand."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Library(NamedTuple):
    """One that this processor can run, of these sources."""

    path: Path
    level: str
    digest: str

    def entry(self, name: str, otherwise: Callable[..., Any]) -> Callable[..., Any]:
        """The function of that name; `otherwise` is called with types that the library lacks."""
        raise NotImplementedError


def find(level: str | None = None) -> Library | None:
    """The library for the highest level that the processor has, or for `level`; None where there is none."""
    return None
