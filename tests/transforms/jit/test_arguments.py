"""Arguments that are given up are recognised while their containers hold the same entries."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lite
from lite import TensorDict, vmap
from lite._transforms.jit.arguments import Argument, remember


def nested(n: int = 3, **more: Any) -> TensorDict:
    inner = TensorDict(y=np.ones((n, 2)), batch_size=[n])
    return TensorDict(x=np.ones((n, 1)), inner=inner, **more, batch_size=[n])


def test_values_that_are_like_those_before() -> None:
    like = [
        (nested(), nested()), (np.ones((2, 3)), np.zeros((2, 3))), (1.5, 2.5), (3, 3), ("a", "a"),
        (None, None), (TensorDict(), TensorDict()),
    ]  # fmt: skip
    turned = TensorDict(inner=nested()["inner"], x=nested()["x"], batch_size=[3])
    named = TensorDict(nested().to_dict(), batch_size=[3], names=["time"])
    other = [
        *[(nested(), x) for x in (nested(4), nested(z=np.ones(3)), nested().lock_(), nested().float())],
        *[(nested(), x) for x in (nested().to_dict(), turned, named, np.ones(3))],
        *[(np.ones(2), x) for x in (np.ones(3), np.ones(2, np.float32), [1, 1])],
        (nested(z="a"), nested(z="a")), (3, 4), (1, True), (1.5, np.float64(1.5)), ([1.5], [1.5]),
    ]  # fmt: skip
    for pairs, expected in ((like, True), (other, False)):
        for before, value in pairs:
            argument = Argument(before, "x", donated=False)
            assert not argument.is_like(before, [], [])  # before it is noted
            argument.note()
            leaves: list[Any] = []
            nodes: list[Any] = []
            assert argument.is_like(value, leaves, nodes) is expected, (before, value)
            if expected:
                again = Argument(value, "x", donated=False)
                assert [id(x) for x in leaves] == [id(x) for x in again.leaves]
                assert [id(x) for x in nodes] == [id(x) for x in again.containers]
    argument = Argument(td := nested(), "x", donated=False)
    argument.note()
    td["z"] = np.ones(3)  # as a function would
    assert argument.is_like(nested(), [], [])
    assert not argument.is_like(td, [], [])


def test_static_arguments_are_compared() -> None:
    for value, other in ((1.5, 2.5), ("a", "b")):
        argument = Argument(value, "x", donated=False, static=True)
        argument.note()
        assert argument.is_like(value, [], [])
        assert not argument.is_like(other, [], [])
    argument = Argument((1, 2), "x", donated=False, static=True)
    argument.note()
    assert not argument.is_like(argument.value, [], [])


def test_changes_are_noticed() -> None:
    td = TensorDict({"a": np.ones(2), "inner": {"b": np.ones(3)}})
    argument = Argument(td, "td", donated=True)
    assert argument.is_unchanged()
    td["inner", "b"] += 1  # the same array
    assert argument.is_unchanged()
    td["inner", "b"] = np.zeros(3)
    assert not argument.is_unchanged()
    argument.leaves[:] = argument.present_leaves()
    argument.settle()
    assert argument.is_unchanged()
    assert argument.leaves[1] is td["inner", "b"]
    assert not Argument(np.ones(2), "x", donated=True).is_unchanged()
    assert not Argument(td, "td", donated=False).is_unchanged()


def test_forms() -> None:
    def form(value: Any, donated: bool = False) -> Any:
        return Argument(value, "x", donated).form()

    assert form(np.ones(2)) == form(np.ones(3))
    assert form(np.ones(2), True) != form(np.ones(3), True)
    assert form(np.ones(2)) != form(np.ones((2, 1)))
    assert form(np.ones(2)) != form(np.ones(2, np.float32))
    assert form(1.5) == form(2.5)
    assert form(1) != form(2)


def test_arrays_of_other_transforms_are_found() -> None:
    found = []
    vmap(lambda x: found.append(Argument({"a": x}, "x", donated=False).inside) or x)(np.ones(2))
    assert found == [True]
    assert not Argument({"a": np.ones(2)}, "x", donated=False).inside


def test_few_are_kept() -> None:
    seen: OrderedDict[int, Argument] = OrderedDict()
    arguments = [Argument(TensorDict(), "x", donated=True) for _ in range(40)]
    for argument in arguments:
        remember(seen, argument)
    assert list(seen.values()) == arguments[-16:]


def test_entries_that_are_no_longer_the_same_are_seen() -> None:
    def given() -> TensorDict:
        return TensorDict(a=np.ones(2), b=np.ones(2), inner=TensorDict(c=np.ones(1)), last=np.zeros(2))

    changes: list[Callable[[Any], Any]] = [
        lambda td: td.set("a", td["a"].copy()),
        lambda td: td["inner"].set("c", np.ones(1)),
        lambda td: td.rename_key_("last", "end"),
        lambda td: td.update({"a": td["b"], "b": td["a"]}),
        lambda td: td.set("more", np.ones(2)),
        lambda td: td.pop("last"),
        lambda td: td.set("inner", TensorDict(c=td["inner", "c"])),
    ]
    for number, change in enumerate(changes):
        td = given()
        argument = Argument(td, "td", donated=True)
        td["a"][0] = 5.0  # the same array
        assert argument.is_unchanged()
        change(td)
        assert not argument.is_unchanged(), number
    parts = [given(), given()]
    stack = Argument(lite.lazy_stack(parts), "td", donated=True)
    assert stack.is_unchanged()
    stack.value.append(given())
    assert not stack.is_unchanged()


def test_static_arguments_have_a_hash() -> None:
    step = lite.jit(lambda x, options: x * options["k"], static_argnames="options", threads=1)
    with pytest.raises(
        TypeError, match=r"options is in static_argnames, .* must have a hash: got dict \{'k': 2\}"
    ):
        step(np.ones(2), {"k": 2})
