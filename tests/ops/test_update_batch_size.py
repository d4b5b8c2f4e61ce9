"""`update(update_batch_size=True)`: which nodes take another batch size, what is refused, what stays."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.trees import unchanged

from lite import LazyStackedTensorDict, TensorDict, lazy_stack
from lite.nn import TensorDictParams


def _td(n: int) -> TensorDict:
    return TensorDict({"x": np.full((n, 2), float(n)), "n": {"y": np.arange(float(n))}}, [n])


def _rows(count: int, n: int = 2) -> LazyStackedTensorDict:
    return lazy_stack([TensorDict({"x": np.full((n, 2), float(i + 1))}, [n]) for i in range(count)])


@each_case("path", [("z",), ("n", "z")])
def test_keys_that_the_source_lacks_are_refused_at_any_depth(path: tuple[str, ...]) -> None:
    td = _td(2).set(path, np.zeros(2))
    with unchanged(td), pytest.raises(RuntimeError, match=r"not present in the source \(\['z'\]\)"):
        td.update(_td(3), update_batch_size=True)
    outer = TensorDict({"m": td})
    with unchanged(outer), pytest.raises(RuntimeError, match="'z'"):
        outer.update({"m": _td(3)}, update_batch_size=True)


@each_case("options", [{"inplace": True}, {"keys_to_update": ["x", ("n", "x")]}])
def test_in_place_and_some_keys_only_are_refused(options: dict[str, Any]) -> None:
    for td, source in (
        (_td(2), _td(3)),
        (TensorDict({"n": _td(2)}), TensorDict({"n": _td(3)})),
        (TensorDict(batch_size=[2]), _td(3)),
        (_rows(2), _rows(3)),
        (_rows(2), _rows(2, 3)),
        (TensorDict({"n": _rows(2)}), TensorDict({"n": _rows(3)})),
    ):
        with unchanged(td), pytest.raises(RuntimeError, match=f"{next(iter(options))}"):
            td.update(source, update_batch_size=True, **options)
    td = _td(2)
    td.update(_td(2), update_batch_size=True, **options)
    assert td["x"].shape == (2, 2)


def test_keys_to_update_may_be_whole_nodes() -> None:
    td, source = TensorDict({"n": _td(2), "m": _td(2)}), TensorDict({"n": _td(3), "m": _td(3)})
    td.update(source, update_batch_size=True, keys_to_update=["n"])
    assert td["n"].batch_size == (3,)
    assert td["m"].batch_size == (2,)
    with unchanged(td), pytest.raises(RuntimeError, match=r"at key 'm'.*keys_to_update"):
        td.update(source, update_batch_size=True, keys_to_update=[("m", "x")])


@each_case("count", [1, 2, 3])
@each_case("n", [2, 3])
@each_case("dense", [False, True])
@each_case("clone", [False, True])
def test_lazy_stacks_of_other_lengths(count: int, n: int, dense: bool, clone: bool) -> None:
    td, source = _rows(2), _rows(count, n)
    first = td[0]
    td.update(source.contiguous() if dense else source, update_batch_size=True, clone=clone)
    assert isinstance(td, LazyStackedTensorDict)
    assert td.batch_size == (count, n)
    assert td[0] is first
    np.testing.assert_array_equal(td["x"], source["x"])
    source[-1]["new"] = np.zeros(n)
    assert "new" not in td[-1]
    nested = TensorDict({"m": _rows(2)})
    nested.update({"m": source}, update_batch_size=True)
    np.testing.assert_array_equal(nested["m", "x"], source["x"])


def test_what_a_lazy_stack_cannot_take_leaves_it_as_it_was() -> None:
    td = _rows(2)
    td[1]["z"] = np.zeros(2)
    parts = list(td.tensordicts)
    with unchanged(td), pytest.raises(RuntimeError, match="'z'"):
        td.update(_rows(2, 3), update_batch_size=True)
    with pytest.raises(RuntimeError, match="stack dim"):
        lazy_stack(parts, 1).update(TensorDict({"x": np.zeros((3, 2))}, [3]), update_batch_size=True)
    td[1].del_("z")
    with unchanged(td), pytest.raises(RuntimeError, match="'b'"):
        td.update(_rows(3), update_batch_size=True, b=np.zeros(9))
    assert all(part is other for part, other in zip(td.tensordicts, parts, strict=True))


def test_locked_ones() -> None:
    for td, source in ((_td(2), _td(3)), (_rows(2), _rows(3)), (_rows(2), _rows(2, 3))):
        td.lock_()
        with unchanged(td), pytest.raises(RuntimeError, match="locked"):
            td.update(source, update_batch_size=True)
        with unchanged(td), pytest.raises(RuntimeError, match="locked"):
            td.update(source, update_batch_size=True, ignore_lock=True)
    flat = TensorDict({"x": np.zeros(2)}, [2], lock=True)
    flat.update(TensorDict({"x": np.ones(3)}, [3]), update_batch_size=True, ignore_lock=True)
    assert flat.batch_size == (3,)
    assert flat.is_locked


def test_objects_and_parameters() -> None:
    td = TensorDict({"s": "old", "x": np.zeros(2)}, [2])
    td.update(TensorDict({"s": "new", "x": np.ones(3)}, [3]), update_batch_size=True)
    assert td["s"] == "new"
    assert td.get("s").batch_size == (3,)
    params = TensorDictParams(TensorDict({"w": np.zeros((2, 3)), "n": {"b": np.zeros(2)}}, [2]))
    with params.unlock_():
        params.update(TensorDict({"w": np.ones((4, 3)), "n": {"b": np.ones(4)}}, [4]), update_batch_size=True)
    assert params.batch_size == params["n"].batch_size == (4,)
    np.testing.assert_array_equal(params["w"].data, np.ones((4, 3)))
