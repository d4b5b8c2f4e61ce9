"""Names of dimensions on their way between a TensorDict and what is nested in it."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import TensorDict, lazy_stack

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
def test_a_node_that_has_the_names_is_stored_itself(store: Store) -> None:
    given = node(["t", "s"])
    assert store(TensorDict(batch_size=[2, 3], names=["t", "s"]), given)["n"] is given
    assert store(TensorDict(batch_size=[2], names=["t"]), given)["n"] is given


@each_case("store", STORES)
@each_case("names", [["x", None], ["t", "y"], ["s", "t"]])
def test_a_node_with_other_names_is_refused(store: Store, names: list[str | None]) -> None:
    given = node(names)
    td = TensorDict(batch_size=[2, 3], names=["t", "s"])
    raises(RuntimeError, "refine_names: cannot coerce", lambda: store(td, given))
    assert td.is_empty()
    assert given.names == names


def test_deeper_names_stay_unless_they_would_be_there_twice() -> None:
    td = TensorDict(batch_size=[2], names=["t"])
    assert td.set("n", node([None, "s"]))["n"].names == ["t", "s"]
    raises(ValueError, "non-unique", lambda: td.set("n", node([None, "t"])))


def test_a_lazy_stack_gets_names_without_its_parts_being_renamed() -> None:
    stack = lazy_stack([node(["u"], [2]), node(["u"], [2])])
    td = TensorDict({"n": stack}, [2, 2], names=["t", "u"])
    assert td["n"].names == ["t", "u"]
    assert stack.names == [None, "u"]
    raises(RuntimeError, "refine_names", lambda: TensorDict({"n": stack}, [2, 2], names=["t", "v"]))


def test_a_named_node_names_its_parent() -> None:
    td = TensorDict({"first": node(None)}, [2])
    td["n"] = node(["u", "v"])
    assert td.names == ["u"]
    assert td["first"].names == ["u", None]
    with pytest.raises(RuntimeError, match="refine_names"):
        td["other"] = node(["x", None])
