"""What `vmap` promises beyond its rules: arguments, results, errors, loops."""

from collections import namedtuple
from typing import Any

import numpy as np
from helpers.cases import raises
from helpers.vmap_cases import rows

from lite import TensorDict, UnbatchedTensor, nn, vmap

Pair = namedtuple("Pair", ["x", "y"])


# -- in_dims and out_dims ---------------------------------------------------------------------------


def test_in_dims_and_out_dims_move_the_dimension() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    out = vmap(lambda v: v * 2, in_dims=1, out_dims=-1)(x)
    np.testing.assert_array_equal(out, np.moveaxis(x, 1, -1) * 2)
    np.testing.assert_array_equal(vmap(np.sum, in_dims=-1)(x), x.sum((0, 1)))


def test_arguments_are_trees() -> None:
    x, y = rows(), rows() + 1

    def total(pair: Any, scale: Any, more: Any) -> Any:
        return {"sum": (pair["x"] + pair["y"][0]) * scale + more.x, "pair": Pair(pair["x"], more.y)}

    args = ({"x": x, "y": [y]}, 2.0, Pair(x, np.ones(2)))
    out = vmap(total, ({"x": 0, "y": [0]}, None, (0, None)))(*args)
    np.testing.assert_array_equal(out["sum"], (x + y) * 2 + x)
    assert type(out["pair"]) is Pair
    np.testing.assert_array_equal(out["pair"].y, np.ones((3, 2)))
    assert out["pair"].y.strides[0] == 0
    np.testing.assert_array_equal(vmap(total, (0, None, Pair(0, None)))(*args)["sum"], out["sum"])


def test_results_have_dimensions_each() -> None:
    out = vmap(lambda v: (v, [v.sum(), v[0]]), out_dims=(1, 0))(rows())
    np.testing.assert_array_equal(out[0], rows().T)
    np.testing.assert_array_equal(out[1][0], rows().sum(1))
    first, second = vmap(lambda v: (v, "label"), out_dims=(0, None))(rows())
    assert second == "label"
    np.testing.assert_array_equal(first, rows())
    np.testing.assert_array_equal(vmap(lambda v: v, out_dims=(1,))(rows()), rows().T)


def test_keyword_arguments_are_shared() -> None:
    out = vmap(lambda v, table: table[v])(np.array([2, 0]), table=np.array([5.0, 6.0, 7.0]))
    np.testing.assert_array_equal(out, [7, 5])


def test_scalars_and_empty_maps() -> None:
    np.testing.assert_array_equal(vmap(lambda v: v + 1)(np.arange(3)), [1, 2, 3])
    assert vmap(lambda v: v.sum())(np.zeros((0, 3))).shape == (0,)
    assert vmap(lambda v: (v @ v.T).reshape(-1))(np.zeros((0, 3, 2))).shape == (0, 9)


def test_nested_maps_make_all_pairs() -> None:
    x, y = rows(4), rows(3)
    pairs = vmap(vmap(np.dot, (None, 0)), (0, None))(x, y)
    np.testing.assert_allclose(pairs, x @ y.T)
    three = vmap(vmap(vmap(lambda a, b, c: a * b + c, (None, None, 0)), (None, 0, None)), (0, None, None))
    a, b, c = np.arange(2.0), np.arange(3.0), np.arange(4.0)
    np.testing.assert_array_equal(three(a, b, c), a[:, None, None] * b[:, None] + c)


def test_closures_of_an_outer_map() -> None:
    x, y = rows(4), rows(3)
    out = vmap(lambda a: vmap(lambda b: (a * b).sum() + a[0])(y))(x)
    np.testing.assert_allclose(out, x @ y.T + x[:, :1])


def test_chunks_give_the_same() -> None:
    for chunk_size in [1, 2, 3, 7]:

        def fn(v: Any, td: Any, shared: Any) -> Any:
            assert shared.batch_size == (3,)
            return v * 2, td["a"].sum(), TensorDict(b=td["a"] + shared.data, batch_size=[2]), np.ones(1)

        td = TensorDict(a=rows(5), batch_size=[5])
        unbatched = UnbatchedTensor(np.ones(2), batch_size=(3, 5))
        options: Any = {"in_dims": (0, 0, 1), "out_dims": (1, 0, 1, 0)}
        expected = vmap(fn, **options)(rows(5), td, unbatched)
        got = vmap(fn, **options, chunk_size=chunk_size)(rows(5), td, unbatched)
        for g, e in zip(got, expected, strict=True):
            if isinstance(e, TensorDict):
                assert g.batch_size == e.batch_size == (2, 5)
                np.testing.assert_array_equal(g["b"], e["b"])
            else:
                np.testing.assert_array_equal(g, e)


def test_function_keeps_its_name() -> None:
    def area(v: Any) -> Any:
        """Of a square."""
        return v * v

    assert vmap(area).__name__ == "area"
    assert vmap(area).__doc__ == "Of a square."
    np.testing.assert_array_equal(vmap(nn.ReLU())(rows() - 2), np.maximum(rows() - 2, 0))


def test_bad_in_dims() -> None:
    for in_dims, args, match in [
        ([0], (rows(),), "in_dims must be an int, or a tuple"),
        (None, (rows(),), "in_dims must be an int, or a tuple"),
        (0, (), "no positional arguments"),
        ((0, 0), (rows(),), "not the structure of the arguments"),
        (({"a": 0},), ({"b": rows()},), "not the structure"),
        (("x",), (rows(),), "in_dims must hold ints and None, got 'x'"),
        ((True,), (rows(),), "in_dims must hold ints and None, got True"),
        ((0, 0), (rows(), 3.0), "maps over a float"),
        ((2,), (rows(),), r"in_dims has 2 for an argument of shape \(3, 2\)"),
        ((-3,), (rows(),), "in_dims has -3"),
        ((1,), (TensorDict(a=rows(), batch_size=[3]),), r"in_dims has 1 for an argument of shape \(3,\)"),
        ((0,), (np.ones(()),), r"in_dims has 0 for an argument of shape \(\), which has no dimension"),
        ((None,), (rows(),), "maps over no argument"),
        (0, (rows(3), rows(4)), r"one size, got \[3, 4\]"),
    ]:
        raises(ValueError, match, vmap(lambda *a: a[0], in_dims), *args)


def test_bad_results() -> None:
    for out_dims, fn, match in [
        (0, lambda v: 3, "must return arrays or TensorDicts, got int"),
        (0, lambda v: None, "must return arrays or TensorDicts, got NoneType"),
        (0, lambda v: (v, "x"), "got str"),
        (2, lambda v: v, "out_dims has 2 for a result that will have 2 dimensions"),
        ((0, 0), lambda v: v, "not the structure of the results"),
        ((0, 0), lambda v: (v,), "not the structure of the results"),
        (None, lambda v: v, "out_dims=None must not depend"),
        ("0", lambda v: v, "must hold ints and None, got '0'"),
    ]:
        raises(ValueError, match, vmap(fn, out_dims=out_dims), rows())


def test_bad_options() -> None:
    raises(ValueError, "randomness must be one of", vmap, np.sum, randomness="some")
    raises(ValueError, "chunk_size must be None or a positive int, got 0", vmap, np.sum, chunk_size=0)
