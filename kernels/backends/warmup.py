"""Compile everything ahead of time."""

from collections.abc import Callable, Iterator
from functools import partial

from lite.kernels.backends.choice import choice
from lite.kernels.backends.compiler import import_numba


def warmup(progress: Callable[[str, int, int], None] | None = None) -> None:
    """Compile every kernel for the types it is usually called with, into Numba's cache.

    Worth a call where the first request must not wait, and while an image with read-only code is built. Where
    a library compiled beforehand runs the kernels, there is nothing to do.

    Args:
        progress: called before each kernel with its name, how many are done, and of how many.

    Raises:
        ImportError: Numba is not installed.

    Example:
        >>> import lite.kernels
        >>> lite.kernels.warmup()  # doctest: +SKIP
    """
    if choice().backend != "numba":
        if choice().warning:  # plain NumPy for want of it
            import_numba("lite.kernels.warmup")
        return
    work = list(_calls())
    for done, (name, call) in enumerate(work):
        if progress is not None:
            progress(name, done, len(work))
        call()


def _calls() -> Iterator[tuple[str, Callable[[], object]]]:
    """(name, function) pairs; each function compiles one kernel for one of its signatures."""
    # Names and types of all kernels, which a millisecond of each import of lite.kernels went to.
    from lite.kernels.prebuild.signatures import SIGNATURES, kernel_of, numba_types, parsed

    for name, signatures in SIGNATURES.items():
        kernel = kernel_of(name)
        for number, signature in enumerate(signatures, 1):
            of = f", {number} of {len(signatures)}" if len(signatures) > 1 else ""
            yield f"{name}{of}", partial(kernel.compile, numba_types(parsed(signature)))
