"""Modules of both libraries with the same values, and what is compared of them."""

from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

# What the reference warns of is not what these tests are about.
QUIET = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*"),
    pytest.mark.filterwarnings("ignore:Complex modules:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*has no data:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*is a no-op:UserWarning"),
]


def dtype_name(value: Any) -> str:
    return str(value.dtype).removeprefix("torch.")


def described(module: Any) -> dict[str, Any]:
    """Dtypes and shapes of all parameters and buffers, by name."""
    entries = (*module.named_parameters(), *module.named_buffers())
    return {name: (dtype_name(value), tuple(value.shape)) for name, value in entries}


def small(lib: Any) -> Any:
    """A layer, a float buffer, an integer buffer."""
    module = lib.nn.Sequential(OrderedDict(layer=lib.nn.Linear(2, 3)))
    module.register_buffer("mean", lib.array(2))
    module.register_buffer("steps", lib.of(np.zeros(1, np.int64)))
    return module


def values(module: Any) -> dict[str, Any]:
    return {name: np.asarray(value).tolist() for name, value in module.state_dict().items()}


def filled(lib: Any) -> Any:
    """`small` with the numbers 0, 1, 2, ..."""
    module = small(lib)
    for i, (name, value) in enumerate(module.state_dict().items()):
        size = int(np.prod(tuple(value.shape)))
        new = np.arange(size, dtype=dtype_name(value)).reshape(tuple(value.shape)) + i
        module.load_state_dict({name: lib.of(new.astype(dtype_name(value)))}, strict=False)
    return module
