"""A digest of the sources of the kernels, which identifies the code that was compiled from them."""

import functools
import hashlib
from pathlib import Path

_KERNELS = Path(__file__).parents[1]


@functools.cache
def digest() -> str:
    """The digest of the files that are compiled, and of the compiler options."""
    found = hashlib.sha256()
    for path in sorted(
        (*_KERNELS.glob("_*.py"), *_KERNELS.glob("cpu/**/*.py"), Path(__file__).with_name("jit.py"))
    ):
        found.update(path.read_bytes())
    return found.hexdigest()[:12]
