"""TensorClassModuleBase: modules from one tensorclass to another, and their form for TensorDicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case

from lite import TensorClass, TensorDict, nn
from lite.nn import TensorClassModuleBase

F32 = np.float32


class Point(TensorClass):
    x: Any
    y: Any
    label: str | None = None


class Pair(TensorClass):
    first: Point
    weight: Any


class Result(TensorClass):
    total: Any
    point: Point


class Add(TensorClassModuleBase[Point, Result]):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(np.full((), 2.0, F32))

    def forward(self, point: Any) -> Any:
        return Result(total=self.scale * (point.x + point.y), point=point, batch_size=point.batch_size)


class OfPair(TensorClassModuleBase[Pair, Point]):
    def forward(self, pair: Any) -> Any:
        assert type(pair) is Pair
        assert type(pair.first) is Point
        return Point(x=pair.first.x * pair.weight, y=pair.first.y, batch_size=pair.batch_size)


class Child(Add):
    """Inherits the types."""


class ToArray(TensorClassModuleBase[Point, np.ndarray]):
    def forward(self, point: Any) -> Any:
        return point.x


class Untyped(TensorClassModuleBase):
    pass


def data(**more: Any) -> TensorDict:
    return TensorDict({"x": np.arange(3, dtype=F32), "y": np.ones(3, F32), **more}, [3])


def test_on_instances() -> None:
    out = Add()(Point(x=np.ones(3, F32), y=np.ones(3, F32), batch_size=[3]))
    assert type(out) is Result
    assert out.batch_size == (3,)
    np.testing.assert_array_equal(out.total, np.full(3, 4, F32))


def test_types_and_keys() -> None:
    assert (Add.input_type, Add.output_type) == (Child.input_type, Child.output_type) == (Point, Result)
    module = Child().as_td_module()
    assert module.in_keys == ["x", "y", "label"]
    assert module.out_keys == ["total", ("point", "x"), ("point", "y"), ("point", "label")]
    assert OfPair().as_td_module().in_keys == [("first", "x"), ("first", "y"), ("first", "label"), "weight"]
    assert list(module.state_dict()) == ["tc_module.scale"]


def test_on_tensordicts() -> None:
    td = data(other=np.zeros(3))
    out = Add().as_td_module()(td)
    assert type(out) is TensorDict
    assert out.batch_size == (3,)
    assert set(out.keys(True, True)) == {"total", ("point", "x"), ("point", "y")}
    np.testing.assert_array_equal(out["total"], 2 * (td["x"] + td["y"]))
    assert list(td.keys()) == ["x", "y", "other"]


def test_nested_fields_are_of_their_class() -> None:
    td = TensorDict({"first": data(label="a"), "weight": np.full(3, 3.0, F32)}, [3])
    out = OfPair().as_td_module()(td)
    np.testing.assert_array_equal(out["x"], 3 * td["first", "x"])
    assert type(td["first"]) is TensorDict


def test_arrays() -> None:
    class Sum(TensorClassModuleBase[Plain, Plain]):
        def forward(self, plain: Any) -> Any:
            return Plain(a=plain.a + plain.b, b=plain.b, batch_size=plain.batch_size)

    total, b = Sum().as_td_module()(a=np.ones(2), b=np.ones(2))
    np.testing.assert_array_equal(total, [2, 2])
    np.testing.assert_array_equal(b, [1, 1])


class Plain(TensorClass):
    a: Any
    b: Any


@each_case(
    ("module", "match"),
    [
        (ToArray(), "output_type of ToArray .* got <class 'numpy.ndarray'>"),
        (Untyped(), "input_type of Untyped"),
    ],
)
def test_types_that_are_no_tensorclasses(module: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        module.as_td_module()
