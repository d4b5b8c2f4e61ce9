"""A TensorDict of all that files hold, and how what was loaded compares with it."""

from __future__ import annotations

import numpy as np

import lite
from lite import LazyStackedTensorDict, TensorClass, TensorDict, lazy_stack


class Pair(TensorClass):
    x: np.ndarray
    y: str = "y"


def sample() -> TensorDict:
    return TensorDict(
        {
            "a": np.arange(6, dtype=np.int16).reshape(3, 2),
            "shape": np.ones((3, 0)),
            "n.b": {"x y": np.array([True, False, True]), "t": (1, {2})},
            "n": {"b": {"x y": np.zeros(3)}},
            "lazy": lazy_stack([TensorDict(q=np.arange(i + 1)) for i in range(3)]),
            "r": [["a", "b"], ["c", "d"], ["e", None]],
            "z": np.arange(3) * (1 + 2j),
            "pair": Pair(x=np.arange(3), batch_size=[3]),
        },
        [3],
        names=["t"],
    )


def check(found: TensorDict, expected: TensorDict, order: bool = True) -> None:
    assert (list if order else sorted)(found.keys()) == (list if order else sorted)(expected.keys())
    assert found.batch_size == expected.batch_size
    assert found.names == expected.names
    for key in expected.keys():  # noqa: SIM118
        mine, other = found.get(key), expected.get(key)
        assert type(mine) is type(other)
        if isinstance(other, np.ndarray):
            assert mine.dtype == other.dtype
            np.testing.assert_array_equal(mine, other)
        elif isinstance(other, LazyStackedTensorDict):
            for part, it in zip(mine.tensordicts, other.tensordicts, strict=True):
                check(part, it)
        elif lite.is_non_tensor(other):
            assert mine.tolist() == other.tolist()
            assert mine.batch_size == other.batch_size
        else:
            check(getattr(mine, "_tensordict", mine), getattr(other, "_tensordict", other), order)
