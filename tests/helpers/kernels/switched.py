"""Kernels that run in NumPy in the same process in which Numba compiles them for other tests.

The backend of a process is decided once, when the compiled halves of the kernels are first imported.
`use_numpy` puts the halves of the other backend in their place. Whoever holds a function of them keeps it,
so only tests of kernels import one by name.
"""

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

_CPU, _JIT = "lite.kernels.cpu", "lite.kernels.backends.jit"
# What has asked for the backend once and for all.
_CACHED = {
    "lite.kernels.backends.choice": ("choice",), "lite.kernels.returns": ("compiled",),
    "lite.kernels._optimizers": ("_compiled",), "lite.kernels.multistep_return": ("_compiled",),
    "lite.kernels.sum_tree": ("_compiled",), "lite.nn.layers.large_arrays": ("_is_ready", "_kernels"),
}  # fmt: skip
_set_aside: dict[bool, dict[str, ModuleType]] = {False: {}, True: {}}
_GIVEN = os.environ.get("LITE_KERNELS")
_in_numpy = False


def use_numpy(wanted: bool) -> None:
    """Run kernels in NumPy from now on, in child processes too; or in what the environment asked for."""
    global _in_numpy
    if wanted == _in_numpy or _GIVEN is not None:
        return
    names = [name for name in sys.modules if name in (_CPU, _JIT) or name.startswith(f"{_CPU}.")]
    _set_aside[_in_numpy] = {name: sys.modules.pop(name) for name in names}
    sys.modules.update(_set_aside[wanted])
    for name in (_CPU, _JIT):
        package, _, attribute = name.rpartition(".")
        if package in sys.modules:
            vars(sys.modules[package]).pop(attribute, None)
            if name in sys.modules:
                setattr(sys.modules[package], attribute, sys.modules[name])
    if wanted:
        os.environ["LITE_KERNELS"] = "numpy"
    else:
        del os.environ["LITE_KERNELS"]
    for module, functions in _CACHED.items():
        for function in functions if module in sys.modules else ():
            getattr(sys.modules[module], function).cache_clear()
    _in_numpy = wanted


_TESTS = Path(__file__).parents[2]
_COMPILED = (str(_TESTS / "kernels"), str(_TESTS / "cuda"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """By default tests of kernels, and those marked `compiled`, run what Numba compiles, all others NumPy.

    Most call a kernel or two on small arrays, and compiling takes longer than all else that they do.
    """
    default = item.config.option.markexpr.startswith("not ")
    compiled = str(item.path).startswith(_COMPILED) or item.get_closest_marker("compiled") is not None
    use_numpy(default and not compiled)
