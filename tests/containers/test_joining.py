"""How the entries of one key become one, by their kinds."""

from __future__ import annotations

from typing import Any

import numpy as np
from helpers.cases import each_case, raises

import lite
from lite import LazyStackedTensorDict, NonTensorData, NonTensorStack, TensorDict, lazy_stack, tensorclass
from lite._containers.joining import CAT, MAYBE_DENSE, STACK, JoinFunctions, join, join_column, stacked


@tensorclass
class Point:
    x: Any


@tensorclass
class Pixel:
    x: Any


def td(n: int = 2, /, **entries: Any) -> TensorDict:
    return TensorDict({"a": np.arange(n), **entries}, batch_size=[n])


@each_case("how", [STACK, MAYBE_DENSE, CAT], ids=lambda how: how.name)
def test_each_kind_becomes_one_of_its_kind(how: JoinFunctions) -> None:
    joined = (2, 2) if how is not CAT else (4,)
    arrays = join_column([np.arange(2), np.arange(2.0)], how, 0)
    np.testing.assert_array_equal(arrays.ravel(), [0, 1, 0, 1])
    assert (arrays.shape, arrays.dtype) == (joined, np.float64)
    objects = join_column([NonTensorStack("a", "b"), NonTensorStack("c", "d")], how, 0)
    assert (type(objects), objects.batch_size) == (NonTensorStack, joined)
    nodes = join_column([td(), td()], how, 0)
    assert (type(nodes), nodes.batch_size) == (TensorDict, joined)
    points = join_column([Point(x=np.zeros(2), batch_size=[2])] * 2, how, 0)
    assert (type(points), points.batch_size) == (Point, joined)
    mixed = join_column([Point(x=np.zeros(2), batch_size=[2]), Pixel(x=np.zeros(2), batch_size=[2])], how, 0)
    assert type(mixed) is Point
    lazy = lazy_stack([TensorDict(a=1), TensorDict(a=2)])
    assert type(join_column([lazy, lazy], how, 0)) is LazyStackedTensorDict


@each_case("how", [STACK, MAYBE_DENSE, CAT], ids=lambda how: how.name)
def test_kinds_do_not_mix(how: JoinFunctions) -> None:
    for other in (td(), NonTensorData("x", (2,))):
        raises(RuntimeError, "of different kinds", join_column, [np.zeros(2), other], how, 0)
    raises(TypeError, f"{how.name} expects tensordicts, got items of type", join, [td(), np.zeros(2)], how, 0)
    raises(TypeError, "NonTensorData", lambda: join([td(), NonTensorData("x", (2,))], how, 0))


def test_stacks_stay_dense_as_far_as_they_can() -> None:
    ragged = [td(n={"b": np.zeros((2, n)), "c": np.zeros(2)}) for n in (1, 2)]
    out = join(ragged, MAYBE_DENSE, 0)
    assert type(out) is TensorDict
    assert type(out["n"]) is LazyStackedTensorDict
    raises(RuntimeError, r"\('n', 'b'\): \(2, 2\) vs \(2, 1\)", lambda: join(ragged, STACK, 0))
    for rows in ([td(2), td(3)], [td(b=np.zeros(2)), td()]):
        assert type(join(rows, MAYBE_DENSE, 0)) is LazyStackedTensorDict


def test_equal_objects_stay_one_when_they_are_concatenated_only() -> None:
    objects = [NonTensorData("x", (2,)), NonTensorData("x", (3,))]
    assert type(join_column(objects, CAT, 0)) is NonTensorData
    assert type(join_column(objects[:1] * 2, STACK, 0)) is NonTensorStack
    assert join_column([NonTensorData("x", (2, 3))] * 2, CAT, 1).batch_size == (2, 6)


def test_dims_count_from_the_end() -> None:
    rows = [TensorDict({"a": np.zeros((2, 3))}, batch_size=[2]) for _ in range(4)]
    assert join(rows, STACK, -1)["a"].shape == (2, 4, 3)
    assert join(rows, CAT, -1)["a"].shape == (8, 3)
    for how, error in ((STACK, IndexError), (CAT, RuntimeError)):
        raises(error, "dim", join, rows, how, 2)


# -- arrays of one shape in one array ------------------------------------------------------------


@each_case("host", [True, False])
@each_case("shape", [(), (3,), (2, 3), (0, 3), (2, 0)])
def test_as_stack(shape: tuple[int, ...], host: bool) -> None:
    arrays = [np.full(shape, i, dtype) for i, dtype in enumerate(("int8", "int32", "float32"))]
    for dim in range(len(shape) + 1):
        expected = np.stack(arrays, dim)
        out = stacked(arrays, dim, host)
        assert out is not None
        assert out.dtype == expected.dtype
        np.testing.assert_array_equal(out, expected)
        assert not any(np.shares_memory(out, array) for array in arrays)


@each_case("host", [True, False])
@each_case(
    "shapes", [((2,), (3,)), ((), (1,)), ((0, 3), (0, 4)), ((2, 3), (3, 2)), ((2, 3), (2,)), ((0,), (0, 2))]
)
def test_different_shapes_give_none(shapes: tuple[tuple[int, ...], ...], host: bool) -> None:
    assert stacked([np.zeros(shape) for shape in shapes], 0, host) is None


def test_stacks_along_other_dimensions_stay_stacks() -> None:
    one = lazy_stack([TensorDict(x=np.arange(2.0) + i, batch_size=[2]) for i in range(2)], 0)
    other = lazy_stack([TensorDict(x=np.arange(2.0) + i, batch_size=[2]) for i in range(2)], 1)
    out = lite.stack([one, other], 0)
    assert isinstance(out, LazyStackedTensorDict)
    np.testing.assert_array_equal(out["x"], np.stack([one["x"], other["x"]]))
