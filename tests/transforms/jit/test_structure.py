"""Values taken apart and put together again; structures are equal where one graph serves both."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np
from helpers.cases import raises

import lite
from lite import TensorDict
from lite._transforms.jit.structure import Builder, Flattener, leaf_count


def apart(value: Any) -> tuple[Any, list[Any]]:
    flat = Flattener()
    return flat.structure(value, "x"), flat.leaves


def td(n: int, text: str = "a", key: str = "x") -> TensorDict:
    inner = TensorDict({key: np.ones((n, 2)), "text": text}, batch_size=[n])
    return TensorDict(inner=inner, y=np.zeros((n, 1)), batch_size=[n], names=["time"])


VALUES = [
    np.ones(3), 2.5, (1, "text", None), [np.ones(2), {"a": np.ones(1)}], td(3).lock_(), TensorDict(),
    lite.lazy_stack([td(2), td(2)], 1), TensorDict({}, batch_size=[4]), np.float32(3),
]  # fmt: skip


def test_round_trip() -> None:
    for value in VALUES:
        structure, leaves = apart(value)
        assert leaf_count(structure) == len(leaves)
        again = Builder(iter(leaves)).build(structure)
        assert type(again) is type(value)
        if isinstance(value, lite.TensorDictBase):
            assert again.batch_size == value.batch_size
            assert again.names == value.names
            assert again.is_locked == value.is_locked
            assert set(again.keys(True)) == set(value.keys(True))
        else:
            np.testing.assert_equal(again, value)


@dataclasses.dataclass
class Batch:
    x: Any
    count: int = 2


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: Any


def test_dataclasses() -> None:
    step = lite.jit(lambda batch, frozen: Batch(batch.x * batch.count + frozen.x))
    for n, count in ((2, 2), (3, 2), (3, 3)):
        batch = Batch(np.ones(n), count)
        for _ in range(2):
            out = step(batch, Frozen(np.ones(n)))
            assert type(out) is Batch
            assert out.count == 2
            np.testing.assert_array_equal(out.x, batch.x * count + 1)
            batch.x = batch.x * 3
    assert len(step._kept) == 2
    assert lite.jit(lambda x, frozen: x * frozen.x)(np.ones(2), Frozen(2))[0] == 2  # a value of its own


def test_what_is_no_ndarray_is_told() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy advises against matrices
        others = np.ma.masked_array(np.ones(2), [True, False]), np.matrix(np.ones(2))
    for given in others:
        raises(TypeError, "which a graph would take for an ndarray", lite.jit(lambda x: x.sum()), given)


def test_structures_are_compared() -> None:
    for a, b, same in (
        (td(3), td(5), True),
        *((TensorDict(n=td(3), batch_size=[3]), TensorDict(n=td(n), batch_size=[n]), True) for n in (3, 5)),
        (td(3), td(3, "b"), False),
        (td(3), td(3, key="z"), False),
        (td(3), td(3).lock_(), False),
        (TensorDict({}, batch_size=[3]), TensorDict({}, batch_size=[4]), False),
        (1, True, False),
        ([1], (1,), False),
        ({"a": np.ones(2), "b": np.ones(2)}, {"b": np.ones(2), "a": np.ones(2)}, False),
    ):
        one, other = apart(a)[0], apart(b)[0]
        assert (one == other) is same, (a, b)
        if same:
            assert hash(one) == hash(other)


def test_what_cannot_be_part_of_a_graph() -> None:
    raises(TypeError, r"x\['a'\]\[0\] must be made of arrays, .* got a set", apart, {"a": [{1}]})
