"""`pack` and `PackLayout`; what is expected was measured on tensordict 0.15.3."""

from typing import Any

import numpy as np
from helpers.cases import each_case, raises
from helpers.tensorclasses import Point
from helpers.trees import unchanged

import lite
from lite import NonTensorData, PackLayout, TensorDict, UnbatchedTensor, lazy_stack, nn


def sample() -> Any:
    entries = {"p": np.arange(2.0), "v": np.arange(6.0).reshape(2, 3), "z": {}}
    return TensorDict({**entries, "n": {"s": np.arange(8.0).reshape(2, 2, 2)}}, [2])


COLUMNS = [[0, 1, 2, 3, 0, 0, 1, 2], [4, 5, 6, 7, 1, 3, 4, 5]]


@each_case("dim", [-1, 1, 0, -2])
def test_there_and_back(dim: int) -> None:
    td = sample().lock_()
    with unchanged(td):
        flat, layout = td.pack(dim)
    first = dim in (0, -2)
    np.testing.assert_array_equal(flat, np.transpose(COLUMNS) if first else COLUMNS)
    assert flat.flags.c_contiguous
    assert layout == PackLayout(
        (("n", "s"), "p", "v"), ((2, 2), (), (3,)), -2 if first else -1, (("n", (), None), ("z", (), None))
    )
    assert (layout.offsets, layout.numel, len({layout, td.pack(dim)[1]})) == ((0, 4, 5), 8, 1)
    found = layout.unpack(flat)
    assert (found == td).all()
    assert list(found.keys(True)) == [("n", "s"), "n", "z", "p", "v"]
    assert found["z"].batch_size == (2,)
    assert np.shares_memory(found["p"], flat)


def test_other_batches() -> None:
    flat, layout = sample().pack()
    sizes = {(): flat[0], (1,): flat[:1], (3, 2): np.stack([flat] * 3)}
    for size, array in sizes.items():
        assert layout.unpack(array).batch_size == layout.unpack(array)["n"].batch_size == size
    assert layout.unpack([0.0] * 8)["p"] == 0
    raises(ValueError, "8 columns, got 3", layout.unpack, flat[:, :3])
    raises(IndexError, "", layout.unpack, np.array(1.0))
    assert PackLayout(("a",), ([2],), 1).unpack(np.zeros((3, 2)))["a"].shape == (3, 2)  # type: ignore[arg-type]


def test_the_order_of_a_layout() -> None:
    td = TensorDict({"b": np.arange(2), "a": np.zeros(2, int)}, [2])
    flat, layout = td.pack(layout=PackLayout(("b", "a"), ((), ()), 1))
    assert (flat.tolist(), layout.keys) == ([[0, 0], [1, 0]], ("b", "a"))
    assert td.pack()[1].keys == ("a", "b")
    raises(ValueError, "dim must be that of layout", td.pack, 0, layout=layout)
    raises(KeyError, "those of layout", td.exclude("a").pack, layout=layout)
    wide = TensorDict({"b": np.zeros((2, 3)), "a": np.zeros(2)}, [2])
    raises(ValueError, "shapes behind the batch", wide.pack, layout=layout)


def test_classes_and_devices() -> None:
    point = Point(
        xy=np.ones((2, 3)), tags=None, inner=TensorDict(q=np.zeros((2, 4)), batch_size=[2, 4]), batch_size=[2]
    )
    flat, layout = point.pack()
    assert (layout.cls, layout.nested) == (Point, (("inner", (4,), None),))
    assert (layout.unpack(flat) == point).all()
    flat, layout = TensorDict(point=point, batch_size=[2], device="cpu").pack()
    assert (layout.cls, layout.nested[0], layout.device) == (None, ("point", (), Point), "cpu")
    found = layout.unpack(flat)
    assert (type(found["point"]), found.device, found["point"].inner.batch_size) == (Point, "cpu", (2, 4))


def test_lazy_stacks_and_nothing() -> None:
    rows = lazy_stack([TensorDict(a=np.arange(2) + i) for i in range(2)])
    flat, layout = rows.pack()
    assert (flat.tolist(), layout.shapes) == ([[0, 1], [1, 2]], ((2,),))
    for size in ((), (2,)):
        flat, layout = TensorDict({"e": {}}, size).pack()
        assert (flat.shape, layout.numel, list(layout.unpack(flat).keys())) == ((*size, 0), 0, ["e"])


@each_case(
    ("td", "error"),
    [
        (TensorDict(a=np.ones(2), b=np.ones(2, int)), TypeError),
        (TensorDict(a=np.ones(2), s=NonTensorData("x")), TypeError),
        (TensorDict(u=UnbatchedTensor([1.0]), batch_size=[2]), TypeError),
        (lazy_stack([TensorDict(a=1), TensorDict(b=1)]), RuntimeError),
        (TensorDict(n=lazy_stack([TensorDict(a=1), TensorDict(b=1)])), RuntimeError),
        (lazy_stack([TensorDict(a=np.ones(n)) for n in (1, 2)]), RuntimeError),
    ],
)
def test_what_cannot_be_packed(td: Any, error: type[Exception]) -> None:
    raises(error, "", td.pack)


@each_case("dim", [-3, 2])
def test_dims_that_are_not_there(dim: int) -> None:
    raises(IndexError, "dim must be within -2 and 1", sample().pack, dim)


def test_gradients() -> None:
    td = TensorDict({"a": np.ones(2), "n": {"b": np.ones((2, 2))}})
    layout = td.pack()[1]
    for dim in (-1, 0):
        assert lite.grad(lambda x, dim=dim: (x.pack(dim)[0] ** 2).sum())(td)["n", "b"].tolist() == [
            [2, 2],
            [2, 2],
        ]
    of_flat = lite.grad(lambda flat: (layout.unpack(flat)["n", "b"] ** 2).sum())(np.arange(6.0))
    assert of_flat.tolist() == [0, 0, 4, 6, 8, 10]
    params = TensorDict.from_module(nn.Linear(2, 1))
    with lite.enable_grad():
        params.pack()[0].sum().backward()
    np.testing.assert_array_equal(params["weight"].grad, np.ones((1, 2)))
