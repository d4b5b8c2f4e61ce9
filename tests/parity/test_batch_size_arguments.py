"""Batch sizes that are given, found or both, in every function that makes a TensorDict of something else."""

from collections import namedtuple
from dataclasses import make_dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas
import pytest
from parity.compare import LITE, TORCH

pytestmark = pytest.mark.filterwarnings("ignore")

Pair = namedtuple("Pair", "a b")
Two = make_dataclass("Two", [("a", Any), ("b", Any)])


def _pair(side):
    return side.leaf(np.zeros((3, 4, 5))), side.leaf(np.zeros((3, 4)))


VALUES = {
    "from_dict": lambda s: dict(zip("ab", _pair(s), strict=True)),
    "from_tuple": _pair,
    "from_namedtuple": lambda s: Pair(*_pair(s)),
    "from_dataclass": lambda s: Two(*_pair(s)),
    "from_pandas": lambda s: pandas.DataFrame({"a": [1.0, 2, 3], "b": [4, 5, 6]}),
}
SIZES = [None, [], [3], [3, 4], [7]]


@pytest.mark.parametrize("through", ["itself", "from_any"])
@pytest.mark.parametrize("name", VALUES)
def test_batch_sizes(name, through):
    for size, auto, dims in product(SIZES, [False, True], [None, 0, 1]):
        if (
            dims is not None
            and size is None
            and (not auto or (name, through) == ("from_dataclass", "from_any"))
        ):
            continue  # a row of the differences
        if size == [7] and auto:
            continue  # wrong in two ways
        if name == "from_pandas" and size == [3, 4]:
            continue  # columns have one dimension: both refuse, tensordict with an error of its own making

        def outcome(side, size=size, auto=auto, dims=dims):
            make = getattr(side.lib.TensorDict, name if through == "itself" else "from_any")
            try:
                return tuple(
                    make(
                        VALUES[name](side), batch_size=size, auto_batch_size=auto, batch_dims=dims
                    ).batch_size
                )
            except (TypeError, ValueError, RuntimeError) as error:
                return type(error)

        assert outcome(LITE) == outcome(TORCH), (size, auto, dims)
