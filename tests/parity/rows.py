"""A case is written once and run with both libraries; what it returns, or the class of what it raises, must
be equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensordict
import tensordict.nn as reference
import torch
from helpers.compared import on_both

import lite
import lite.nn

# What the reference warns of is not what these tests are about.
QUIET = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


class Lib:
    """One of the two libraries under common names."""

    def __init__(self, base: Any, layers: Any, modules: Any, array: Any) -> None:
        self.base, self.layers, self.modules, self.array = base, layers, modules, array
        self.TD = base.TensorDict
        self.Mod, self.Seq = modules.TensorDictModule, modules.TensorDictSequential

    def zeros(self, *shape: int) -> Any:
        return self.array(np.zeros(shape, np.float32))

    def ones(self, *shape: int) -> Any:
        return self.array(np.ones(shape, np.float32))

    def arange(self, size: int) -> Any:
        return self.array(np.arange(size, dtype=np.float32))

    def raw(self, parameter: Any) -> np.ndarray:
        return np.array(parameter.detach() if self is TORCH else parameter)


LITE = Lib(lite, lite.nn, lite.nn, lambda array: array)
TORCH = Lib(tensordict, torch.nn, reference, torch.from_numpy)


def plain(value: Any) -> Any:
    """Arrays, tensors, TensorDicts and modules' keys as comparable Python values."""
    if isinstance(value, tuple | list):
        return (list if isinstance(value, list) else tuple)(plain(item) for item in value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if hasattr(value, "batch_size"):
        keys = sorted(value.keys(True, True), key=str)
        return tuple(value.batch_size), {str(key): plain(value.get(key)) for key in keys}
    if isinstance(value, np.ndarray | np.generic | torch.Tensor):
        array = np.asarray(value.detach() if isinstance(value, torch.Tensor) else value)
        return str(array.dtype), array.shape, np.round(array.astype(float), 4).tolist()
    return value


def agree(case: Any) -> None:
    results = []
    for lib in (LITE, TORCH):
        try:
            results.append(plain(case(lib)))
        except Exception as error:
            results.append(type(error))
    assert results[0] == results[1]


def layers(lib: Any) -> Any:
    return lib.Seq(
        {
            "layer0": lib.Mod(lambda x: x + 1, ["x"], ["y"]),
            "layer1": lib.Mod(lambda x: x * 2, ["y"], ["z"]),
            "layer2": lib.Mod(lambda x: x - 3, ["x"], ["w"]),
        }
    )


compared = on_both(agree)
