"""Constructors as functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from helpers.cases import each_case

import lite
from lite import TensorDict, lazy_stack, make_tensordict, tensorclass

X = np.arange(6.0).reshape(3, 2)


@tensorclass
class Pair:
    a: Any
    b: Any = None


def test_make_tensordict() -> None:
    td = make_tensordict({"a": X, ("n", "b"): X}, c=X, auto_batch_size=True)
    assert td.batch_size == td["n"].batch_size == (3, 2)
    assert make_tensordict(a=X, batch_size=[3])["a"] is X
    assert make_tensordict().is_empty()


NAMES = [
    "any", "dataclass", "dict", "dlpack", "modules", "namedtuple", "pytree", "struct_array", "torch",
    "tuple",
]  # fmt: skip


@each_case("name", NAMES)
def test_constructors_are_functions_too(name: str) -> None:
    assert callable(getattr(lite, f"from_{name}"))
    if name not in ("dlpack", "dataclass"):  # that of a dataclass gives a tensorclass
        assert getattr(lite, f"from_{name}") == getattr(TensorDict, f"from_{name}")


@each_case("kind", ["dense", "lazy", "tensorclass"])
def test_make_tensordict_takes_collections(kind: str) -> None:
    td = TensorDict({"a": np.ones((3, 2)), "n": TensorDict({"b": np.ones((3, 2))}, [3])}, [3])
    source = {
        "dense": td,
        "lazy": lazy_stack(list(td.unbind(0))),
        "tensorclass": Pair(a=td["a"], batch_size=[3]),
    }[kind]
    before = source.batch_size
    out = make_tensordict(source, auto_batch_size=True)
    assert out.batch_size == ((3,) if kind == "lazy" else (3, 2))  # that of a nested stack is given
    assert make_tensordict(source).batch_size == ()
    assert make_tensordict(source, batch_size=[3]).batch_size == (3,)
    assert source.batch_size == before
    np.testing.assert_array_equal(out["a"], td["a"])
