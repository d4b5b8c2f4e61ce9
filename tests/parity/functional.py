"""Modules of both libraries with the same parameters, and trees of these in a form that compares."""

import itertools
from typing import Any

import numpy as np
import pytest
import tensordict
import tensordict.nn as reference
import torch
from helpers.compared import on_both
from hypothesis import strategies as st
from parity.outcomes import assert_agree, outcome

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
        self.parameter = nn.Parameter

    def zeros(self, *shape: int) -> Any:
        return self.array(np.zeros(shape, np.float32))

    def arange(self, size: int) -> Any:
        return self.array(np.arange(size, dtype=np.float32))

    def ones(self, *shape: int, dtype: Any = np.float32) -> Any:
        return self.array(np.ones(shape, dtype))

    def is_param(self, value: Any) -> bool:
        return isinstance(value, self.parameter)


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


def agree(function: Any, *args: Any) -> Any:
    """What lite gives, which is what the reference does, or an error of the same class."""
    mine, theirs = (outcome(function, lib, *args) for lib in LIBS)
    assert_agree(mine, theirs)
    return mine


compared = on_both(agree)


def layers(lib: Lib) -> Any:
    return lib.Seq(
        {
            "layer0": lib.Mod(lambda x: x + 1, ["x"], ["y"]),
            "layer1": lib.Mod(lambda x: x * 2, ["y"], ["z"]),
            "layer2": lib.Mod(lambda x: x - 3, ["x"], ["w"]),
        }
    )
