"""Rotations, tiles, uneven splits, broadcasting, and the `inplace=` forms."""

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.trees import tree, unchanged

from lite import TensorDict, lazy_stack


@each_case("k", range(-1, 5))
def test_rot90(k):
    td = tree()
    out = td.rot90(k)
    np.testing.assert_array_equal(out["a"], np.rot90(td["a"], k))
    assert out["n", "b"].shape[2:] == (5,)
    np.testing.assert_array_equal(td.rot90(k, (1, 0))["i"], np.rot90(td["i"], k, (1, 0)))


def test_flips():
    td = tree()
    np.testing.assert_array_equal(td.fliplr()["a"], np.fliplr(td["a"]))
    np.testing.assert_array_equal(td.flipud()["a"], np.flipud(td["a"]))
    flat = td[0]
    for action in (flat.fliplr, flat.rot90, flat[0].flipud):
        raises(RuntimeError, "requires at least", action)


@each_case("dims", [(2,), (2, 3), (2, 1, 3), ()])
def test_tile_acts_on_the_batch(dims):
    td = tree()
    out = td.tile(*dims) if dims else td.tile(())
    np.testing.assert_array_equal(out["i"], np.tile(td["i"], dims))
    assert out["a"].shape == (*out.batch_size, 2)
    assert out["n"].batch_size == (*out.batch_size, 5)


@each_case("pieces", [1, 2, 3, 5, [1, 2], [2, 9], [-1], [2, 1], np.array([3])])
def test_tensor_split(pieces):
    td = tree(lock=True)
    got = td.tensor_split(pieces, 0)
    expected = np.array_split(td["a"], pieces)
    assert len(got) == len(expected)
    for piece, array in zip(got, expected, strict=True):
        np.testing.assert_array_equal(piece["a"], array)
        assert piece.batch_size == array.shape[:2]
        assert piece.is_locked
    raises(ValueError, "greater than 0", lambda: td.tensor_split(0))
    raises(TypeError, "ints", lambda: td.tensor_split([0.5]))


def test_atleast():
    td = TensorDict({"a": np.zeros((3, 2))}, batch_size=[3], names=["t"])
    assert td.atleast_1d() is np.atleast_1d(td) is td
    out = td.atleast_3d()
    assert (out.batch_size, out["a"].shape, out.names) == ((1, 1, 3), (1, 1, 3, 2), [None, None, "t"])
    assert TensorDict(a=1).atleast_2d().batch_size == (1, 1)


def test_expand_as():
    td = TensorDict({"a": np.zeros((3, 1)), "s": "x", "l": ["u", "v", "w"]}, batch_size=[3], names=["t"])
    out = td.expand_as(np.zeros((2, 3)))
    assert (out.batch_size, out["a"].shape, out.names) == ((2, 3), (2, 3, 1), [None, "t"])
    other = TensorDict({"a": np.zeros((2, 3, 4))}, batch_size=[2, 3])
    assert td.expand_as(other)["a"].shape == (2, 3, 4)
    assert td.expand_as(other)["l"] == [["u", "v", "w"]] * 2
    raises(KeyError, "", lambda: td.expand_as(TensorDict({}, [2, 3])))
    with pytest.raises(RuntimeError, match="does not expand"):
        TensorDict({"a": np.zeros((3, 2))}, [3]).expand_as(TensorDict({"a": np.zeros((3, 5))}, [3]))


IN_PLACE = {
    "reshape": lambda td, **kw: td.reshape(-1, **kw),
    "flatten": lambda td, **kw: td.flatten(**kw),
    "unflatten": lambda td, **kw: td.unflatten(0, (2, -1), **kw),
    "repeat": lambda td, **kw: td.repeat(2, 1, **kw),
    "repeat_interleave": lambda td, **kw: td.repeat_interleave(2, 1, **kw),
    "gather": lambda td, **kw: td.gather(0, np.zeros((2, 3), int), **kw),
    "contiguous": lambda td, **kw: td.contiguous(**kw),
}
ALSO_LAZY = {
    "roll": lambda td, **kw: td.roll(1, 0, **kw),
    "expand": lambda td, **kw: td.expand(2, 4, 3, **kw),
}


@each_case("change", [*IN_PLACE.values(), *ALSO_LAZY.values()], ids=[*IN_PLACE, *ALSO_LAZY])
def test_in_place_forms_keep_identity(change):
    td = tree()
    nodes, expected = (td["n"], td["n", "m"]), change(tree())
    assert change(td, inplace=True) is td
    assert (td["n"] is nodes[0], td["n", "m"] is nodes[1]) == (True, True)
    assert td.batch_size == expected.batch_size
    assert td["n"].batch_size == expected["n"].batch_size
    np.testing.assert_array_equal(td["a"], expected["a"])
    np.testing.assert_array_equal(td["n", "m", "c"], expected["n", "m", "c"])
    assert td["r"] == expected["r"]
    inner = tree()
    inner["n"].lock_()
    for locked in (tree(lock=True), inner):
        with unchanged(locked), pytest.raises(RuntimeError, match="locked"):
            change(locked, inplace=True)


@each_case("name", IN_PLACE)
def test_in_place_forms_refuse_lazy_stacks(name):
    stack = lazy_stack([TensorDict({"a": np.ones(3)}, batch_size=[3]) for _ in range(4)])
    raises(NotImplementedError, "inplace=True", lambda: IN_PLACE[name](stack, inplace=True))


def test_gather_takes_either_out_or_inplace() -> None:
    td = TensorDict({"a": np.arange(2)}, [2])
    out, index = td.clone(), np.array([1, 0])
    for options in ({"inplace": True}, {"out": out}):
        assert td.gather(0, index, **options)["a"].tolist() == [1, 0]
        td["a"] = np.arange(2)
    for both in (td, out):
        raises(ValueError, "either", td.gather, 0, index, out=both, inplace=True)
    np.testing.assert_array_equal(td["a"], [0, 1])
    wide = TensorDict({"a": np.arange(6).reshape(2, 3)}, [2, 3])
    assert wide.gather(-2, np.array([[1, 0, 1]] * 4))["a"].tolist() == [[3, 1, 5]] * 4
    for wrong in (np.zeros((1, 4), int), np.zeros((1, 2), int), np.zeros((0, 3), int), np.zeros((1, 3))):
        raises(RuntimeError, r"fits batch size \(2, 3\)", wide.gather, 0, wrong)
    for dim in (2, -3):
        raises(RuntimeError, f"Cannot gather .* along dim {dim}", wide.gather, dim, np.zeros((1, 1), int))


@each_case("make", [lambda td: td, lambda td: lazy_stack([td[:, i] for i in range(3)], 1)])
def test_gather_repeats_an_index_that_has_fewer_dims(make):
    rows = np.arange(6).reshape(2, 3)
    td = make(TensorDict({"a": rows}, [2, 3]))
    for index in ([1, 0, 1], [[1], [0], [1]]):
        np.testing.assert_array_equal(td.gather(0, np.array(index))["a"], rows[[1, 0, 1]])
    np.testing.assert_array_equal(td.gather(1, np.array([[2, 0]]))["a"], rows[:, [2, 0]])
    np.testing.assert_array_equal(td.gather(1, np.array([2, 0]))["a"], [[2], [3]])  # one for each row


def test_gather_keeps_the_names_of_nested_stacks():
    parts = [TensorDict({"n": {"a": np.zeros((2, 2))}}, [2, 2])]
    td = TensorDict(n=lazy_stack(parts), batch_size=[1, 2, 2], names=["p", "q", "t"])
    out = td.gather(2, np.zeros((1, 2, 1), int))
    assert out.names == out["n"].names == out["n", "n"].names == ["p", "q", "t"]
