"""Constructors as functions."""

from __future__ import annotations

import numpy as np
import pytest

import lite
from lite import TensorDict, make_tensordict

X = np.arange(6.0).reshape(3, 2)


def test_make_tensordict() -> None:
    td = make_tensordict({"a": X, ("n", "b"): X}, c=X, auto_batch_size=True)
    assert td.batch_size == td["n"].batch_size == (3, 2)
    assert make_tensordict(a=X, batch_size=[3])["a"] is X
    assert make_tensordict().is_empty()


@pytest.mark.parametrize(
    "name", ["any", "dataclass", "dict", "dlpack", "namedtuple", "pytree", "struct_array", "torch", "tuple"]
)
def test_constructors_are_functions_too(name: str) -> None:
    assert callable(getattr(lite, f"from_{name}"))
    if name != "dlpack":
        assert getattr(lite, f"from_{name}") == getattr(TensorDict, f"from_{name}")
