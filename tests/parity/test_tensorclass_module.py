"""Modules from one tensorclass to another beside tensordict's: keys, results, state dicts, errors."""

from typing import Any

import numpy as np
import pytest
import tensordict
import torch
from parity.outcomes import MENDED, outcome
from tensordict import nn as reference

import lite
from lite import nn

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


class Mine:
    """lite's classes."""

    lib, nn, layers, array = lite, nn, nn, staticmethod(np.array)

    class Inner(lite.TensorClass):
        b: Any

    class Output(lite.TensorClass):
        c: Any
        d: Any


class Theirs:
    """tensordict's classes."""

    lib, nn, layers = tensordict, reference, torch.nn

    class Inner(tensordict.TensorClass):
        b: Any

    class Output(tensordict.TensorClass):
        c: Any
        d: Any

    @staticmethod
    def array(value):
        return torch.tensor(value)


def nested(side):
    """A module whose input has a field that is a tensorclass."""
    inner = side.Inner
    outer = type("Outer", (side.lib.TensorClass,), {"__annotations__": {"a": Any, "inner": inner}})

    class Module(side.nn.TensorClassModuleBase[outer, side.Output]):
        def __init__(self):
            super().__init__()
            self.layer = side.layers.Identity()

        def forward(self, x):
            b = x.inner.get("b")
            return side.Output(c=x.a + b, d=x.a - b, batch_size=x.batch_size)

    return Module(), outer


def td(side, **more):
    a, b = side.array([1.0, 2.0]), side.array([3.0, 5.0])
    return side.lib.TensorDict({"a": a, "inner": {"b": b}, **more}, batch_size=[2])


def described(out):
    return {str(key): value.tolist() for key, value in sorted(out.items(True, True))}, tuple(out.batch_size)


def test_keys_and_results():
    results = []
    for side in (Mine, Theirs):
        module = nested(side)[0].as_td_module()
        given = td(side)
        out = module(given)
        results.append(
            (
                module.in_keys, module.out_keys, described(out), type(out).__name__,
                sorted(map(str, given.keys(True, True))), [name for name, _ in module.named_modules()],
                repr(module),
            )
        )  # fmt: skip
    assert results[0] == results[1]


def test_other_entries_do_not_matter_here():
    theirs = outcome(lambda: nested(Theirs)[0].as_td_module()(td(Theirs, other=torch.zeros(2))))
    assert (theirs is ValueError) is not MENDED
    out = nested(Mine)[0].as_td_module()(td(Mine, other=np.zeros(2)))
    assert described(out) == described(nested(Mine)[0].as_td_module()(td(Mine)))
