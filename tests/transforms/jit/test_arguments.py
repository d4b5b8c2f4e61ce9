"""Arguments that are given up are recognised while their containers hold the same entries."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np

from lite import TensorDict, vmap
from lite._transforms.jit.arguments import Argument, remember


def test_changes_are_noticed() -> None:
    td = TensorDict({"a": np.ones(2), "inner": {"b": np.ones(3)}})
    argument = Argument(td, "td", donated=True)
    assert argument.is_unchanged()
    td["inner", "b"] += 1  # the same array
    assert argument.is_unchanged()
    td["inner", "b"] = np.zeros(3)
    assert not argument.is_unchanged()
    argument.leaves[:] = argument.present_leaves()
    argument.settle()
    assert argument.is_unchanged()
    assert argument.leaves[1] is td["inner", "b"]
    assert not Argument(np.ones(2), "x", donated=True).is_unchanged()
    assert not Argument(td, "td", donated=False).is_unchanged()


def test_forms() -> None:
    def form(value: Any, donated: bool = False) -> Any:
        return Argument(value, "x", donated).form()

    assert form(np.ones(2)) == form(np.ones(3))
    assert form(np.ones(2), True) != form(np.ones(3), True)
    assert form(np.ones(2)) != form(np.ones((2, 1)))
    assert form(np.ones(2)) != form(np.ones(2, np.float32))
    assert form(1.5) == form(2.5)
    assert form(1) != form(2)


def test_arrays_of_other_transforms_are_found() -> None:
    found = []
    vmap(lambda x: found.append(Argument({"a": x}, "x", donated=False).inside) or x)(np.ones(2))
    assert found == [True]
    assert not Argument({"a": np.ones(2)}, "x", donated=False).inside


def test_few_are_kept() -> None:
    seen: OrderedDict[int, Argument] = OrderedDict()
    arguments = [Argument(TensorDict(), "x", donated=True) for _ in range(40)]
    for argument in arguments:
        remember(seen, argument)
    assert list(seen.values()) == arguments[-16:]
