"""Names of dimensions on their way between a TensorDict and what is nested in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case

from lite import TensorDict, lazy_stack, tensorclass

Store = Callable[[TensorDict, Any], TensorDict]


def node(names: Sequence[str | None] | None, size: Sequence[int] = (2, 3)) -> TensorDict:
    return TensorDict({"a": np.zeros((*size, 1)), "m": {"b": np.ones(size)}}, size, names=names)


def _update(td: TensorDict, value: Any) -> TensorDict:
    return td.update({"n": value})


def _set(td: TensorDict, value: Any) -> TensorDict:
    return td.set("n", value)


def _construct(td: TensorDict, value: Any) -> TensorDict:
    return TensorDict({"n": value}, td.batch_size, names=td.names)


STORES = [_set, _update, _construct]


@each_case("store", STORES)
@each_case("names", [None, ["t", None], [None, "s"]])
def test_a_node_with_fewer_names_is_stored_as_a_copy_with_those_of_its_parent(
    store: Store, names: list[str | None] | None
) -> None:
    given = node(names)
    td = store(TensorDict(batch_size=[2, 3], names=["t", "s"]), given)
    assert td["n"].names == td["n", "m"].names == ["t", "s"]
    assert td["n", "a"] is given["a"]
    assert given.names == given["m"].names == (names or [None, None])  # inputs are left as they were


@each_case("store", STORES)
def test_a_node_that_has_the_names_is_stored_itself(store: Store) -> None:
    given = node(["t", "s"])
    assert store(TensorDict(batch_size=[2, 3], names=["t", "s"]), given)["n"] is given
    assert store(TensorDict(batch_size=[2], names=["t"]), given)["n"] is given


@each_case("store", STORES)
@each_case("names", [["x", None], ["t", "y"], ["s", "t"]])
def test_a_node_with_other_names_is_refused(store: Store, names: list[str | None]) -> None:
    given = node(names)
    td = TensorDict(batch_size=[2, 3], names=["t", "s"])
    with pytest.raises(RuntimeError, match="refine_names: cannot coerce"):
        store(td, given)
    assert td.is_empty()
    assert given.names == names


def test_deeper_names_stay_unless_they_would_be_there_twice() -> None:
    td = TensorDict(batch_size=[2], names=["t"])
    assert td.set("n", node([None, "s"]))["n"].names == ["t", "s"]
    with pytest.raises(ValueError, match="non-unique"):
        td.set("n", node([None, "t"]))


def test_a_lazy_stack_gets_names_without_its_parts_being_renamed() -> None:
    stack = lazy_stack([node(["u"], [2]), node(["u"], [2])])
    td = TensorDict({"n": stack}, [2, 2], names=["t", "u"])
    assert td["n"].names == ["t", "u"]
    assert stack.names == [None, "u"]
    with pytest.raises(RuntimeError, match="refine_names"):
        TensorDict({"n": stack}, [2, 2], names=["t", "v"])


def test_a_tensorclass_stays_one_when_it_gets_names() -> None:
    @tensorclass
    class Rows:
        a: Any

    rows = Rows(a=np.zeros(2), batch_size=[2])
    td = TensorDict({"rows": rows}, [2], names=["t"])
    assert type(td["rows"]) is Rows
    assert (td["rows"].names, rows.names) == (["t"], [None])


def test_a_named_node_names_its_parent() -> None:
    td = TensorDict({"first": node(None)}, [2])
    td["n"] = node(["u", "v"])
    assert td.names == ["u"]
    assert td["first"].names == ["u", None]
    with pytest.raises(RuntimeError, match="refine_names"):
        td["other"] = node(["x", None])
