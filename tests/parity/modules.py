"""One case, run with the modules of both libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from helpers.compared import on_both

from lite import nn


class Lib:
    """The names that differ between the two libraries."""

    def __init__(self, module: Any, array: Callable[..., Any], of: Callable[[Any], Any]) -> None:
        self.nn = module
        self.array = array  # zeros of a shape
        self.of = of  # a NumPy array as the library's
        self.parameter = module.Parameter


LITE = Lib(nn, lambda *shape: np.zeros(shape, dtype=np.float32), lambda a: a)
TORCH = Lib(torch.nn, lambda *shape: torch.zeros(shape), torch.from_numpy)
LIBS = (LITE, TORCH)


def outcome(case: Callable[..., Any], lib: Lib, *args: Any) -> Any:
    """What a case returns, or the class of what it raises."""
    try:
        return case(lib, *args)
    except Exception as err:
        return type(err)


def agree(case: Callable[..., Any], *args: Any) -> None:
    """Compare the outcomes of a case."""
    mine, theirs = (outcome(case, lib, *args) for lib in LIBS)
    assert mine == theirs


compared = on_both(agree)
