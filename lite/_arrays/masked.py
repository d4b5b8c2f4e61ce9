"""NumPy's masked arrays: leaves have no mask, so that one would be lost without a word."""

from __future__ import annotations

import sys
from typing import Any

from lite._arrays.types import Path


class MaskedArrayError(TypeError):
    """A masked array was to be stored or written; `path` is the key that it was given under, if known."""

    def __init__(self, path: Path = ()) -> None:
        key = path[0] if len(path) == 1 else path
        what = f"the value of {key!r} is a masked array" if path else "the value is a masked array"
        super().__init__(
            f"{what}, whose mask would be lost; store its filled(...), and its mask as an entry of its own."
        )
        self.path = path

    def below(self, key: str) -> MaskedArrayError:
        """The same error, seen from the container that has the value below `key`."""
        return MaskedArrayError((key, *self.path))


def refuse_masked(value: Any) -> None:
    """Raise TypeError for a masked array, of numbers or of objects."""
    masked = sys.modules.get("numpy.ma")  # which NumPy imports for the first one
    if masked is not None and isinstance(value, masked.MaskedArray):
        raise MaskedArrayError()
