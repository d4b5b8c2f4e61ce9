"""The names that lite leaves out on purpose."""

from __future__ import annotations

import inspect

import numpy as np
from helpers.cases import each_case, raises
from helpers.trees import tree

import lite
from lite import TensorDict, lazy_stack
from lite._ops.not_in_lite import _INSTEAD


@each_case("name", _INSTEAD)
def test_what_is_left_out_says_what_to_use(name):
    for td in (tree(), lazy_stack([TensorDict(a=1)])):
        raises(NotImplementedError, f"^{name} is not available: ", getattr(td, name))
    assert inspect.getdoc(getattr(TensorDict, name)).startswith("Raises NotImplementedError")


def test_tensorclasses_refuse_too():
    @lite.tensorclass
    class Point:
        xy: np.ndarray

    raises(NotImplementedError, "pin_memory", Point(xy=np.zeros(2)).pin_memory)
