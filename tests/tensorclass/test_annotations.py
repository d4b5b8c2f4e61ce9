"""What options of tensorclasses make of annotations, postponed ones too: this module's are all text."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, List, Optional, Union  # noqa: UP035

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import NonTensorData, TensorClass, TensorDict, tensorclass


class Node(TensorClass["autocast"]):
    """Fields of the class itself, of a later class, of unions."""

    x: np.ndarray = None
    child: Node = None
    later: Later = None
    maybe: Optional[Node] = None  # noqa: UP045
    either: Node | None = None
    both: Union[int, str] = None  # noqa: UP007
    many: List[int] = None  # noqa: UP006
    anything: Any = None
    text: str = None
    number: int = None
    flag: bool = None
    data: NonTensorData = None
    td: TensorDict = None
    mapping: dict[str, Any] = None
    unknown: Missing = None  # noqa: F821


class Later(TensorClass):
    y: Any = None


MAPPING = {"x": [1.0, 2.0]}


def test_classes_that_were_unknown_when_the_class_was_made() -> None:
    made = Node(
        x=[1, 2], child={"x": [3, 4], "child": {"number": 5.5}}, later={"y": np.ones(2)}, batch_size=[2]
    )
    assert type(made.child) is type(made.child.child) is Node
    assert (made.child.batch_size, made.child.child.number) == ((2,), 5)
    np.testing.assert_array_equal(made.child.x, [3, 4])
    assert type(made.later) is Later
    assert type(made[0].child) is Node
    made.child = TensorDict(x=np.zeros(2), batch_size=[2])
    assert type(made.child) is Node
    raises(ValueError, r"Got the keys \['z'\]", lambda: Node(child={"z": 1}))
    for value in ("text", 3, np.ones(2)):
        raises(ValueError, "to the annotated Node", Node, child=value)


def test_classes_of_a_function() -> None:
    @tensorclass
    class Inner:
        y: Any

    @tensorclass(autocast=True)
    class Outer:
        inner: Inner = None
        own: Outer = None
        quoted: "list[Inner]" = None  # noqa: UP037

    made = Outer(inner={"y": 1}, own={"inner": {"y": 2}})
    assert (type(made.inner), type(made.own), type(made.own.inner)) == (Inner, Outer, Inner)

    class Derived(Outer):
        more: Derived = None

    made = Derived(inner={"y": 1}, more={"own": {}})
    assert (type(made.inner), type(made.more), type(made.more.own)) == (Inner, Derived, Outer)


@each_case(
    "field",
    ["maybe", "either", "both", "many", "anything", "text", "number", "flag", "data", "mapping", "unknown"],
)
@each_case("kind", [dict, OrderedDict])
def test_mappings_stay_mappings(field: str, kind: Any) -> None:
    value = kind(MAPPING)
    got = Node(**{field: value}).get(field)
    assert got is value
    made = Node()
    setattr(made, field, value)
    assert made.get(field) is value


def test_mappings_become_tensordicts_where_they_are_annotated_so() -> None:
    assert type(Node(td=MAPPING).td) is TensorDict
    raises(ValueError, "cannot convert a str to the annotated TensorDict", lambda: Node(td="text"))


@each_case("field", ["maybe", "either", "both", "many", "anything", "unknown"])
def test_unions_and_the_like_convert_nothing(field: str) -> None:
    for value in ("text", [1, 2], ["a"], (1, 2), {1}):
        assert Node(**{field: value}).get(field) is value
    for number in (2.5, np.ones(2)):
        got = Node(**{field: number}).get(field)
        assert isinstance(got, np.ndarray)
    child = Node(x=np.ones(2))
    assert Node(**{field: child}).get(field) is child


def test_arrays() -> None:
    array = np.ones(2)
    assert Node(x=array).x is array
    assert Node(x=2.5).x.shape == ()
    np.testing.assert_array_equal(Node(x=(1, 2)).x, [1, 2])
    for value in ("text", {1}, b"bytes", TensorDict(), NonTensorData(1)):
        raises(TypeError, "to the annotated ndarray", Node, x=value)
    for value in (["a", "b"], [[1], [2, 3]], [None]):
        raises(ValueError, "cannot convert a list to the annotated ndarray", Node, x=value)
    made = Node(x=array)
    with pytest.raises(TypeError, match="cannot convert a str to the annotated ndarray"):
        made.x = "text"
    assert made.x is array


def test_objects() -> None:
    made = Node(text=3, number="7", flag=1, data=np.ones(2))
    assert (made.text, made.number, made.flag) == ("3", 7, True)
    assert type(Node(number=True).number) is int
    assert Node(number=NonTensorData(3)).number == 3
    np.testing.assert_array_equal(made.data, [1, 1])
    assert isinstance(made._tensordict.get("data"), NonTensorData)
    raises(
        ValueError, "cannot convert a str to the annotated int at key 'number'", lambda: Node(number="seven")
    )
    raises(TypeError, "cannot convert a list to the annotated int", lambda: Node(number=[1]))


def tensor_only(annotation: Any) -> Any:
    return tensorclass(tensor_only=True)(type("Made", (), {"__annotations__": {"a": annotation}, "a": None}))


@each_case(
    "annotation",
    ["np.ndarray", np.ndarray, np.ndarray | None, Optional[np.ndarray], TensorDict, Later, Later | None,  # noqa: UP045
     "np.ndarray | TensorDict", "Missing", np.ndarray[Any, Any], Node | np.ndarray],
)  # fmt: skip
def test_annotations_of_tensors(annotation: Any) -> None:
    made = tensor_only(annotation)(a=[1, 2])
    np.testing.assert_array_equal(made.a, [1, 2])


@each_case(
    "annotation",
    [str, "str", int, Any, object, list, "np.ndarray | int", Union[np.ndarray, str], list[np.ndarray]],  # noqa: UP007
)
def test_other_annotations_are_refused_by_tensor_only(annotation: Any) -> None:
    raises(TypeError, "tensor_only requires fields to be annotated as arrays", tensor_only, annotation)


def test_values_of_tensor_only() -> None:
    class Made(TensorClass["tensor_only"]):
        a: np.ndarray
        td: TensorDict | None = None

    made = Made(a=(1, 2), td={"b": [1.0, 2.0]}, batch_size=[2])
    np.testing.assert_array_equal(made.a, [1, 2])
    assert (type(made.td), made.td.batch_size) == (TensorDict, (2,))
    assert isinstance(Made(a=True).a, np.ndarray)
    made.td = None
    assert made.td is None
    made.td = {"c": [1, 2]}
    np.testing.assert_array_equal(made.td["c"], [1, 2])
    with pytest.raises(TypeError, match="tensor_only requires"):

        class Wrong(Made):
            b: str
