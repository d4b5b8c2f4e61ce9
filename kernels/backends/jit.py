"""The one place where functions become kernels, and where Numba options are chosen.

Compiled functions are decorated with `@jit` (`@jit(reassociate=True)` if the order of a sum may change,
which lets LLVM use vector registers for it), kernels that Python calls with `@jit(entry=True)`. Without
compilation the same functions run in Python; a function that would loop over values has a second body of
NumPy's functions, `@jit(plain=...)`, with the same arguments and results. Numba itself is imported
with the first kernel file, never by `import lite.kernels`, and only if it runs the kernels.
"""

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, overload

import numpy as np

from lite.kernels.backends.choice import choice
from lite.kernels.backends.compiler import import_numba

R = TypeVar("R")

# Imported here because `vectors` imports it from here, too: this file comes first.
numba: Any = import_numba("lite.kernels") if choice().backend == "numba" else None


@overload
def jit(function: Callable[..., R], /) -> Callable[..., R]: ...
@overload
def jit(
    *,
    reassociate: bool = False,
    fuse: bool = True,
    entry: bool = False,
    plain: Callable[..., Any] | None = None,
) -> Callable[[Callable[..., R]], Callable[..., R]]: ...
def jit(
    function: Callable[..., R] | None = None,
    /,
    *,
    reassociate: bool = False,
    fuse: bool = True,
    entry: bool = False,
    plain: Callable[..., Any] | None = None,
) -> Callable[..., R] | Callable[[Callable[..., R]], Callable[..., R]]:
    """Compile `function` on first call, without holding the GIL, cached on disk.

    Multiplications and additions may fuse unless `fuse` is False: LLVM may fuse in a loop's vectors, not in
    its scalar remainder, so the last bits depend on the count. With `reassociate` sums may also be
    reordered. NaN and infinity always keep their meaning. Python may only call an `entry`: others lack the
    wrapper that unpacks Python's objects, a fifth of the compile time (Numba does not check this, and
    crashes).
    Without compilation, `plain` is called in its place.
    """
    if function is None:
        return functools.partial(_compile, reassociate=reassociate, fuse=fuse, entry=entry, plain=plain)
    return _compile(function, reassociate=False, fuse=True, entry=False, plain=plain)


def _compile(
    function: Callable[..., R],
    *,
    reassociate: bool,
    fuse: bool,
    entry: bool,
    plain: Callable[..., Any] | None,
) -> Callable[..., R]:
    """A function compiled by Numba, from a library, or in Python, by the chosen backend; see `jit`."""
    chosen = choice()
    if chosen.backend != "numba":
        in_python = function if plain is None else plain
        if not entry:
            return in_python
        if chosen.library is not None:
            name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
            return chosen.library.entry(name, otherwise=_quiet(in_python))
        if chosen.warning:
            _warn_slow(chosen.warning)
        return _quiet(in_python)
    from lite.kernels.backends.cache import KernelCache

    flags = ({"contract"} if fuse else set()) | ({"reassoc", "nsz"} if reassociate else set())
    # No wrapper for callers in C: there are none, and it would be compiled with each kernel.
    compiled: Any = numba.njit(
        function,
        error_model="numpy",
        nogil=True,
        fastmath=flags,
        no_cfunc_wrapper=True,
        no_cpython_wrapper=not entry,
    )
    compiled._cache = KernelCache(function)
    return compiled


@functools.cache
def _warn_slow(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=2)


def _quiet(function: Callable[..., R]) -> Callable[..., R]:
    """Suppress NumPy's warnings of overflow and NaN, which compiled code does not give."""

    @functools.wraps(function)
    def quiet(*args: Any) -> R:
        with np.errstate(all="ignore"):
            return function(*args)

    return quiet
