"""A digest of the sources of the kernels, which identifies the code that was compiled from them."""

import functools
import hashlib
from pathlib import Path

_KERNELS = Path(__file__).parents[1]


@functools.cache
def digest() -> str:
    """The digest of the files here that are compiled, and of the compiler options.

    Raises:
        FileNotFoundError: this package is in a zip archive, or was frozen without its files.
    """
    try:
        return digest_of(_KERNELS)
    except OSError as error:
        raise FileNotFoundError(
            f"compiled kernels need lite as files, but {error.filename!r} cannot be read ({error.strerror}): "
            "unpack the archive, or freeze with `pyinstaller --collect-all lite`; LITE_KERNELS=numpy in the "
            "environment runs them on NumPy"
        ) from None


def digest_of(kernels: Path) -> str:
    """The digest for a folder that has this package's files."""
    found = hashlib.sha256()
    for path in sorted(
        (*kernels.glob("_*.py"), *kernels.glob("cpu/**/*.py"), kernels / "backends" / "jit.py")
    ):
        found.update(path.read_bytes())
    return found.hexdigest()[:12]
