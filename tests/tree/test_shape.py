"""Operations on the batch dimensions."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.trees import tree, unchanged

from lite import TensorDict, lazy_stack

# (operation on a TensorDict, the same on an array of the batch's shape, names of the result)
OPERATIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], list[str | None]]] = {
    "reshape": (lambda td: td.reshape(2, 6), lambda x: x.reshape(2, 6), [None, None]),
    "reshape infers": (lambda td: td.reshape(-1), lambda x: x.reshape(-1), [None]),
    "reshape takes a list": (lambda td: td.reshape([3, 4]), lambda x: x.reshape(3, 4), [None, None]),
    "view": (lambda td: td.view(3, 4), lambda x: x.reshape(3, 4), [None, None]),
    "view of size": (lambda td: td.view(size=(12,)), lambda x: x.reshape(12), [None]),
    "flatten": (lambda td: td.flatten(), lambda x: x.reshape(12), [None]),
    "unflatten": (lambda td: td.unflatten(0, (-1, 2)), lambda x: x.reshape(2, 2, 3), [None, "x", "y"]),
    "unsqueeze": (lambda td: td.unsqueeze(1), lambda x: x[:, None], ["x", None, "y"]),
    "unsqueeze last": (lambda td: td.unsqueeze(-1), lambda x: x[..., None], ["x", "y", None]),
    "squeeze": (lambda td: td.unsqueeze(0).squeeze(0), lambda x: x, ["x", "y"]),
    "permute": (lambda td: td.permute(1, 0), lambda x: x.T, ["y", "x"]),
    "permute of dims": (lambda td: td.permute(dims=(-1, 0)), lambda x: x.T, ["y", "x"]),
    "transpose": (lambda td: td.transpose(0, 1), lambda x: x.T, ["y", "x"]),
    "swapaxes": (lambda td: td.swapaxes(0, -1), lambda x: x.T, ["y", "x"]),
    "swapdims": (lambda td: td.swapdims(0, -1), lambda x: x.T, ["y", "x"]),
    "movedim": (lambda td: td.movedim(0, 1), lambda x: x.T, ["y", "x"]),
    "moveaxis": (lambda td: td.moveaxis([0, 1], [1, 0]), lambda x: x.T, ["y", "x"]),
    "expand": (lambda td: td.expand(2, 4, 3), lambda x: np.broadcast_to(x, (2, 4, 3)), [None, "x", "y"]),
    "expand keeps": (
        lambda td: td.expand(2, -1, 3),
        lambda x: np.broadcast_to(x, (2, 4, 3)),
        [None, "x", "y"],
    ),
    "narrow": (lambda td: td.narrow(0, 1, 2), lambda x: x[1:3], ["x", "y"]),
    "split": (lambda td: td.split(3)[1], lambda x: x[3:], ["x", "y"]),
    "split sizes": (lambda td: td.split([1, 2], 1)[1], lambda x: x[:, 1:], ["x", "y"]),
    "split counts": (lambda td: td.split(np.array([3, 1]))[0], lambda x: x[:3], ["x", "y"]),
    "split count": (lambda td: td.split(np.int64(3))[1], lambda x: x[3:], ["x", "y"]),
    "chunk": (lambda td: td.chunk(3)[1], lambda x: x[2:4], ["x", "y"]),
    "unbind": (lambda td: td.unbind(1)[2], lambda x: x[:, 2], ["x"]),
    "repeat": (lambda td: td.repeat(2, 1), lambda x: np.tile(x, (2, 1)), ["x", "y"]),
    "repeat_interleave": (lambda td: td.repeat_interleave(2, 1), lambda x: x.repeat(2, 1), ["x", "y"]),
    "repeat_interleave flat": (lambda td: td.repeat_interleave(2), lambda x: x.reshape(-1).repeat(2), [None]),
    "roll": (lambda td: td.roll(1, 0), lambda x: np.roll(x, 1, 0), ["x", "y"]),
    "roll two": (lambda td: td.roll((1, 2), (0, 1)), lambda x: np.roll(x, (1, 2), (0, 1)), ["x", "y"]),
    "roll flat": (lambda td: td.roll(5), lambda x: np.roll(x, 5), [None, None]),
    "flip": (lambda td: td.flip(0, 1), lambda x: x[::-1, ::-1], ["x", "y"]),
}
VIEWS = [
    "view", "flatten", "unsqueeze", "permute", "transpose", "expand", "narrow", "split", "chunk", "unbind",
]  # fmt: skip


@each_case("name", OPERATIONS)
def test_every_entry_moves_alike(name: str) -> None:
    operation, reference, names = OPERATIONS[name]
    td = tree()
    td.names = ["x", "y"]
    with unchanged(td):
        got = operation(td)
    rows = reference(np.arange(12).reshape(4, 3))
    assert got.batch_size == rows.shape
    assert got.names == names
    for key in ("a", "i", ("n", "b"), ("n", "m", "c")):
        leaf = td[key]
        np.testing.assert_array_equal(got[key], leaf.reshape(12, *leaf.shape[2:])[rows])
    assert got["n"].batch_size == (*rows.shape, 5)
    assert got.get("s").batch_size == rows.shape
    objects = np.array([f"{i}{j}" for i in range(4) for j in range(3)], object)
    assert got.get("r").tolist() == objects[rows].tolist()


@each_case("name", VIEWS)
def test_views(name: str) -> None:
    td = tree()
    assert np.shares_memory(OPERATIONS[name][0](td)["a"], td["a"])


def test_nothing_to_do_gives_self() -> None:
    td = tree()
    found = td.reshape(4, 3), td.view(4, -1), td.permute(0, 1), td.squeeze(), td.squeeze(0), td.flatten(1, 1)
    assert [out is td for out in found] == [True] * 6


@each_case(
    ("operation", "error", "message"),
    [
        (lambda td: td.reshape(5, 2), RuntimeError, "invalid for a batch of 12"),
        (lambda td: td.reshape(-1, -1), RuntimeError, "only one dimension"),
        (lambda td: td.reshape("a"), TypeError, "integers"),
        (lambda td: td.transpose(0, 1).view(12), ValueError, None),
        (lambda td: td.flatten(1, 0), ValueError, "greater or equal"),
        (lambda td: td.flatten(0, 2), IndexError, "Incompatible dim 2"),
        (lambda td: td.unflatten(0, (3, 2)), RuntimeError, "invalid"),
        (lambda td: td.unsqueeze(3), RuntimeError, "Got dim=3"),
        (lambda td: td.unsqueeze(-4), RuntimeError, "Got dim=-4"),
        (lambda td: td.squeeze(2), IndexError, "Incompatible dim 2"),
        (lambda td: td.permute(0), ValueError, "incompatible with the tensordict shape"),
        (lambda td: td.permute(0, 0), ValueError, "expected a permutation"),
        (lambda td: td.transpose(0, 2), ValueError, "dim0 and dim1"),
        (lambda td: td.movedim([0], [0, 1]), ValueError, "as many dims"),
        (lambda td: td.movedim([0, 0], [0, 1]), RuntimeError, "repeated dim"),
        (lambda td: td.expand(3), RuntimeError, "number of sizes provided"),
        (lambda td: td.expand(2, 2, 3), RuntimeError, "Incompatible expanded shape"),
        (lambda td: td.expand(-1, 4, 3), RuntimeError, "Incompatible expanded shape"),
        (lambda td: td.split(0), ValueError, "split_size must be positive"),
        (lambda td: td.split([]), RuntimeError, "Insufficient number"),
        (lambda td: td.split([1, 1]), RuntimeError, "sum exactly to 4"),
        (lambda td: td.split(1.5), TypeError, "int or list of ints"),
        (lambda td: td.split(1, 2), IndexError, "Incompatible dim 2"),
        (lambda td: td.chunk(0), ValueError, "strictly positive"),
        (lambda td: td.unbind(2), IndexError, "Incompatible dim 2"),
        (lambda td: td.narrow(0, 3, 2), IndexError, "leave dim 0"),
        (lambda td: td.repeat(2), ValueError, "one count per batch dim"),
        (lambda td: td.gather(2, np.zeros((1, 1), int)), RuntimeError, "along dim 2"),
        (lambda td: td.gather(0, np.zeros((1, 2), int)), RuntimeError, "index must be"),
    ],
)
def test_errors(operation: Callable[[Any], Any], error: type[Exception], message: str | None) -> None:
    td = tree()
    with unchanged(td), pytest.raises(error, match=message):
        operation(td)


def test_leaves_are_writable_where_expand_repeats_none() -> None:
    source = TensorDict({"a": np.zeros(3), "n": {"b": np.zeros((3, 4, 2))[:, ::2]}}, batch_size=[3])
    for shape in ((3,), (-1,), (1, 3)):
        source.expand(*shape).add_(1)
    np.testing.assert_array_equal(source["a"], [3.0] * 3)
    np.testing.assert_array_equal(source["n", "b"], np.full((3, 2, 2), 3.0))
    source["a"].setflags(write=False)
    assert not source.expand(3)["a"].flags.writeable


def test_expanded_leaves_are_read_only() -> None:
    td = TensorDict({"a": np.zeros(3)}, batch_size=[3]).expand(2, 3)
    with pytest.raises(ValueError, match="read-only"):
        td["a"][0] = 1
    with unchanged(td), pytest.raises(ValueError, match="read-only"):
        td.add_(1)


def test_empty_and_missing_batches() -> None:
    assert TensorDict({"a": np.arange(3)}).flatten().batch_size == (1,)
    empty = TensorDict({"a": np.zeros((0, 3))}, batch_size=[0])
    assert empty.unbind(0) == ()
    assert [piece.batch_size for piece in empty.split(2)] == [(0,)]
    assert empty.reshape(-1).batch_size == (0,)
    assert empty.reshape(0, 4)["a"].shape == (0, 4, 3)


def test_contiguous() -> None:
    td = tree().transpose(0, 1)
    assert not td.is_contiguous()
    dense = td.contiguous()
    assert dense.is_contiguous()
    np.testing.assert_array_equal(dense["a"], td["a"])
    assert dense.contiguous()["a"] is dense["a"]


def test_in_place_forms_keep_the_object() -> None:
    td = TensorDict({"a": np.arange(3), "s": list("xyz")}, [3])
    assert td.roll(1, 0, inplace=True) is td
    assert (td["a"].tolist(), td["s"]) == ([2, 0, 1], ["z", "x", "y"])
    assert td.roll(1, inplace=True) is td
    assert td.expand(2, 3, inplace=True) is td
    assert (td.batch_size, td["a"].shape) == ((2, 3), (2, 3))
    raises(RuntimeError, "locked", lambda: td.lock_().roll(1, 0, inplace=True))


def test_view_of_a_dtype() -> None:
    td = TensorDict({"a": np.array([[1.0, 2.0]]), "s": "x"}, [1])
    bits = td.view(np.dtype("int64"))
    assert np.shares_memory(bits["a"], td["a"])
    assert (bits["a"].dtype, bits["s"], bits.batch_size) == (np.dtype("int64"), "x", (1,))
    assert td.view(np.int32)["a"].shape == (1, 4)
    raises(ValueError, r"itemsize|divisor", lambda: TensorDict(a=np.zeros(3, "int32")).view(np.int64))


SIZES = {
    "reshape": ("size", (6,)), "view": ("size", (6,)), "expand": ("size", (4, 2, 3)),
    "permute": ("dims", (1, 0)), "flip": ("dims", (1,)), "tile": ("dims", (2, 1)),
    "broadcast_to": ("shape", (4, 2, 3)),
}  # fmt: skip


@each_case("lazy", [False, True])
@each_case("name", SIZES)
def test_sizes_and_dims_by_keyword(name: str, lazy: bool) -> None:
    keyword, value = SIZES[name]
    td = TensorDict({"a": np.arange(12).reshape(2, 3, 2), "n": {"b": np.arange(6).reshape(2, 3)}}, [2, 3])
    if lazy:
        td = lazy_stack(list(td.unbind(1)), 1)
    method = getattr(td, name)
    expected = method(*value)
    for given in (tuple(value), list(value), np.array(value)):
        for out in (method(**{keyword: given}), method(given)):
            assert out.batch_size == expected.batch_size
            np.testing.assert_array_equal(out["a"], expected["a"])
            np.testing.assert_array_equal(out["n", "b"], expected["n", "b"])
    for args in (value, (value,)):
        raises(TypeError, keyword, method, *args, **{keyword: value})


def test_sizes_by_their_functions() -> None:
    td = tree()
    assert (td.dim(), td.ndimension(), td.size(), td.size(1), td.size(-2)) == (2, 2, (4, 3), 3, 4)
    for sizes, message in (((-1, -1), "only one dimension"), ((5, -1), "is invalid"), ((-2, -6), "only one")):
        raises(RuntimeError, message, td.reshape, *sizes)
