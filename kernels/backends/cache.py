"""The cache of compiled kernels on disk, shared by processes.

Numba's own cache needs a folder that it may write to, even to read compiled code. This one reads
from every folder that it may read, so code that was compiled into an image is used on a read-only
system. The folders, in their order: that of the environment variable NUMBA_CACHE_DIR, `__pycache__` beside
the package `lite`, and the user's cache folder. New code is written to the first that is writable.

The key of code is the digest of all kernels' sources (Numba would reuse a kernel whose helper in another
file has changed), Numba's version, and the processor that it was compiled for: this
one, or a level that it has (see `portable`).
"""

import functools
import importlib
import os
import stat
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from llvmlite import binding  # type: ignore[import-untyped]

from lite.kernels._install import PREBUILT
from lite.kernels.backends import portable, sources
from lite.kernels.backends.compiler import listeners

caching: Any = importlib.import_module("numba.core.caching")
compiler: Any = importlib.import_module("numba.core.compiler")
config: Any = importlib.import_module("numba.core.config")
appdirs: Any = importlib.import_module("numba.misc.appdirs")

# The package, or the checkout, where this folder lies at the top.
_TOP = Path(__file__).parents[2]
# Not in the package: pip would not remove it, and Python would import the rest as an empty package.
_BESIDE = (_TOP.parent if (_TOP / "__init__.py").is_file() else _TOP) / "__pycache__"


class KernelCache(caching.FunctionCache):  # type: ignore[misc]
    """The cache of one function."""

    def __init__(self, function: Any) -> None:
        self._name = repr(function)
        self._py_func = function
        self._impl = None  # finds the one folder that Numba would use
        code = function.__code__
        module = Path(code.co_filename).stem
        self._kernel = f"{module}.{function.__name__}"
        python = f"py{sys.version_info[0]}{sys.version_info[1]}{getattr(sys, 'abiflags', '')}"
        base = f"{self._kernel}-{code.co_firstlineno}.{python}"
        self._files = [caching.IndexDataCacheFile(str(f), base, sources.digest()) for f in folders()]
        self._cache_path = str(folders()[0])
        self.enable()

    def flush(self) -> None:
        """Clear the index of cached code in all folders."""
        for file in self._files:
            file.flush()

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        if self._enabled:
            for key in self._keys(sig, target_context.codegen()):
                for file in self._files:
                    found = None
                    with suppress(OSError):  # may not be read
                        found = file.load(key)
                    if found is None:
                        continue
                    if config.CACHE_DIR and file is not self._files[0]:
                        with suppress(OSError):  # may not be written
                            self._files[0].save(key, found)  # so that the folder is whole where it is taken
                    return compiler.CompileResult._rebuild(target_context, *found)
        for tell in listeners:
            tell(self._kernel)
        return None

    def _keys(self, sig: Any, codegen: Any) -> Iterator[Any]:
        """The keys of code for these types: first that for this processor, then that for the level."""
        signature, (triple, processor, features), code = self._index_key(sig, codegen)
        yield signature, (triple, processor, features), code
        level = _level()
        if level is not None and (level, portable.FEATURES) != (processor, features):
            yield signature, (triple, level, portable.FEATURES), code

    def _save_overload(self, sig: Any, data: Any) -> None:
        if not self._enabled:
            return
        key, reduced = self._index_key(sig, data.codegen), data._reduce()
        for file in self._files:
            try:
                os.makedirs(file._cache_path, exist_ok=True)
                file.save(key, reduced)
            except OSError:
                continue
            return
        _warn_no_cache()


@functools.cache
def folders() -> tuple[Path, ...]:
    """The folders of compiled kernels of these sources, without those that any user may write to."""
    roots = [Path(config.CACHE_DIR).absolute()] if config.CACHE_DIR else []
    roots.append(_BESIDE)
    of_the_user = Path(appdirs.AppDirs(appname="numba", appauthor=False).user_cache_dir)
    if of_the_user.is_absolute():  # not without a home
        roots.append(of_the_user)
    found = {root: root / f"lite_kernels_{sources.digest()}" for root in roots}
    return tuple(folder for root, folder in found.items() if root == _BESIDE or _trusted(folder))


def _trusted(folder: Path) -> bool:
    """Whether only this user can have written to a folder, whose code would be run.

    The folder beside the package is trusted as the package is.
    """
    try:
        status = folder.stat()
    except OSError:  # is not there yet, or may not be read
        return True
    if os.name != "posix":  # where the modes of folders say nothing
        return True
    owners = {0, os.geteuid(), _TOP.stat().st_uid}
    anybody = status.st_mode | (0 if status.st_uid in owners else folder.parent.stat().st_mode)
    if anybody & stat.S_IWOTH:
        warnings.warn(
            f"the cache of kernels {folder} is not used, because any user may have written what it holds: "
            "give NUMBA_CACHE_DIR a folder of your own",
            RuntimeWarning,
            stacklevel=3,
        )
        return False
    return True


@functools.cache
def _level() -> str | None:
    """The portable level, if this processor has it; None if Numba is set to compile for another one."""
    if config.CPU_NAME or not portable.fits(binding.get_host_cpu_features()):
        return None
    return portable.level()


@functools.cache
def _warn_no_cache() -> None:
    warnings.warn(
        "lite.kernels are compiled again in every process, because no cache folder is writable; "
        "set the environment variable NUMBA_CACHE_DIR to a writable folder, or to one that "
        f"`lite warmup --output DIR` has filled; kernels made by {PREBUILT} need none",
        RuntimeWarning,
        stacklevel=2,
    )
