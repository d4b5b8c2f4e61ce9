"""Modules of both libraries with the same parameters, and trees of these in a form that compares."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import tensordict
import tensordict.nn as reference
import torch
from helpers.compared import on_both
from hypothesis import strategies as st

import lite
import lite.nn

# What the reference warns of is not what these tests are about.
QUIET = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


class Lib:
    """One of the two libraries under common names."""

    def __init__(self, base: Any, nn: Any, tdnn: Any, array: Any) -> None:
        self.base, self.nn, self.tdnn, self.array = base, nn, tdnn, array
        self.TD, self.Mod, self.Seq = base.TensorDict, tdnn.TensorDictModule, tdnn.TensorDictSequential

    def zeros(self, *shape: int) -> Any:
        return self.ones(*shape) * 0

    def arange(self, size: int) -> Any:
        return self.array(np.arange(size, dtype=np.float32))

    def ones(self, *shape: int, dtype: Any = np.float32) -> Any:
        return self.array(np.ones(shape, dtype))

    def is_param(self, value: Any) -> bool:
        return isinstance(value, self.nn.Parameter)


LITE = Lib(lite, lite.nn, lite.nn, lambda a: a)
TORCH = Lib(tensordict, torch.nn, reference, torch.from_numpy)
LIBS = (LITE, TORCH)
SIZES = st.lists(st.integers(1, 4), min_size=2, max_size=4)


def net(lib: Lib, sizes: list[int], bias: bool = True, shared: bool = False) -> Any:
    """A stack of Linear layers with the same weights in both libraries."""
    layers = [lib.nn.Linear(n, m, bias=bias) for n, m in itertools.pairwise(sizes)]
    fill(lib, layers)
    modules: list[Any] = []
    for layer in layers:
        modules += [layer, lib.nn.ReLU()]
    if shared:
        modules += [layers[0]]
    return lib.nn.Sequential(*modules)


def fill(lib: Lib, modules: list[Any], seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    for module in modules:
        for _, param in module.named_parameters():
            values = rng.normal(size=tuple(param.shape)).astype(np.float32)
            if lib is LITE:
                param.data[...] = values
            else:
                param.data.copy_(torch.from_numpy(values))


def raw(value: Any) -> np.ndarray[Any, Any]:
    return np.asarray(value.detach() if isinstance(value, torch.Tensor) else getattr(value, "data", value))


def kind(lib: Lib, value: Any) -> str:
    return "param" if lib.is_param(value) else "array"


def tree(lib: Lib, td: Any) -> Any:
    """Keys in order, with kinds, shapes, dtypes and values."""
    found = []
    for key, leaf in td.items(True, True):
        array = raw(leaf)
        found.append((key, kind(lib, leaf), array.shape, str(array.dtype), array.tolist()))
    return tuple(td.batch_size), td.is_locked, found


def outcome(function: Any, lib: Lib) -> Any:
    try:
        return function(lib)
    except Exception as err:
        # NumPy and torch differ in the class for a shape that does not fit; lite's container errors do not.
        return type(err).__name__


def same(function: Any) -> Any:
    mine, theirs = (outcome(function, lib) for lib in LIBS)
    assert mine == theirs
    return mine


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


def agree(function: Any) -> None:
    """The same results, or errors of one class; numbers are rounded."""
    results = []
    for lib in LIBS:
        try:
            results.append(plain(function(lib)))
        except Exception as error:
            results.append(type(error))
    assert results[0] == results[1]


compared, agreed = on_both(same), on_both(agree)


def layers(lib: Lib) -> Any:
    return lib.Seq(
        {
            "layer0": lib.Mod(lambda x: x + 1, ["x"], ["y"]),
            "layer1": lib.Mod(lambda x: x * 2, ["y"], ["z"]),
            "layer2": lib.Mod(lambda x: x - 3, ["x"], ["w"]),
        }
    )
