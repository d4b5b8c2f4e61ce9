"""One case, run with the modules of both libraries."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from helpers.compared import on_both
from parity.outcomes import assert_agree, outcome

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


def agree(case: Callable[..., Any], *args: Any) -> None:
    """Compare the outcomes of a case."""
    mine, theirs = (outcome(case, lib, *args) for lib in LIBS)
    assert_agree(mine, theirs)


compared = on_both(agree)
