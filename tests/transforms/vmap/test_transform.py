"""What `vmap` promises beyond its rules: arguments, results, errors, loops."""

from __future__ import annotations

import warnings
from collections import namedtuple
from typing import Any

import numpy as np
import pytest
from vmap_cases import rows

from lite import TensorDict, nn, vmap
from lite._transforms.vmap.rules import _warned

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


def test_what_does_not_depend_on_the_argument_is_expanded() -> None:
    out = vmap(lambda v: np.ones(4))(rows())
    assert out.shape == (3, 4)
    assert out.strides[0] == 0
    shared = np.ones(5)
    same = vmap(lambda v, s: s * 2, (0, None))(rows(), shared)
    assert type(same) is np.ndarray
    np.testing.assert_array_equal(same, np.full((3, 5), 2))


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


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 7])
def test_chunks_give_the_same(chunk_size: int) -> None:
    def fn(v: Any, td: Any) -> Any:
        return v * 2, td["a"].sum(), TensorDict(b=td["a"], batch_size=[2]), np.ones(1)

    td = TensorDict(a=rows(5), batch_size=[5])
    expected = vmap(fn, out_dims=(1, 0, 1, 0))(rows(5), td)
    got = vmap(fn, out_dims=(1, 0, 1, 0), chunk_size=chunk_size)(rows(5), td)
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


@pytest.mark.parametrize(
    ("in_dims", "args", "match"),
    [
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
    ],
)
def test_bad_in_dims(in_dims: Any, args: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        vmap(lambda *a: a[0], in_dims)(*args)


@pytest.mark.parametrize(
    ("out_dims", "fn", "match"),
    [
        (0, lambda v: 3, "must return arrays or TensorDicts, got int"),
        (0, lambda v: None, "must return arrays or TensorDicts, got NoneType"),
        (0, lambda v: (v, "x"), "got str"),
        (2, lambda v: v, "out_dims has 2 for a result that will have 2 dimensions"),
        ((0, 0), lambda v: v, "not the structure of the results"),
        ((0, 0), lambda v: (v,), "not the structure of the results"),
        (None, lambda v: v, "out_dims=None must not depend"),
        ("0", lambda v: v, "must hold ints and None, got '0'"),
    ],
)
def test_bad_results(out_dims: Any, fn: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        vmap(fn, out_dims=out_dims)(rows())


def test_bad_options() -> None:
    with pytest.raises(ValueError, match="randomness must be one of"):
        vmap(np.sum, randomness="some")
    with pytest.raises(ValueError, match="chunk_size must be None or a positive int, got 0"):
        vmap(np.sum, chunk_size=0)


# -- what mapped arrays refuse ----------------------------------------------------------------------


def branch(v: Any) -> Any:
    return v if v.sum() > 1 else -v


@pytest.mark.parametrize(
    ("fn", "error", "match"),
    [
        (branch, RuntimeError, "neither true nor false"),
        (lambda v: float(v[0]), RuntimeError, "no one float"),
        (lambda v: int(v[0]), RuntimeError, "no one int"),
        (lambda v: complex(v[0]), RuntimeError, "no one complex"),
        (lambda v: v[0].item(), RuntimeError, "item"),
        (lambda v: v.tolist(), RuntimeError, "tolist"),
        (lambda v: [1, 2][v[0].astype(int)], RuntimeError, "no one integer"),
        (lambda v: np.asarray(v), TypeError, "cannot become an ndarray"),
        (lambda v: np.zeros(2).dot(v), TypeError, r"np\.dot\(a, x\) for a\.dot\(x\)"),
        (lambda v: len(v[0]), TypeError, "unsized"),
        (
            lambda v: v.sum(axis=1),
            np.exceptions.AxisError,
            "axis 1 is out of bounds",
        ),
        (lambda v: v.reshape(3), ValueError, "cannot reshape array of size 2 into shape"),
        (lambda v: v[5], IndexError, "out of bounds"),
        (lambda v: v[:, 0], IndexError, "too many indices"),
        (lambda v: v @ np.ones(3), ValueError, "matmul"),
    ],
)
def test_errors_of_mapped_arrays(fn: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        vmap(fn)(rows())


def add_to_shared(v: Any, s: Any) -> Any:
    s += v
    return s


def write_to_shared(v: Any, s: Any) -> Any:
    s[0] = v[0]
    return s


@pytest.mark.parametrize("fn", [add_to_shared, write_to_shared])
def test_shared_arrays_take_no_mapped_values(fn: Any) -> None:
    shared = np.zeros(2)
    with pytest.raises(RuntimeError, match="all elements along the mapped dimension share"):
        vmap(fn, (0, None))(rows(), shared)
    np.testing.assert_array_equal(shared, 0)


def test_attributes_are_those_of_an_element() -> None:
    seen: dict[str, Any] = {}

    def look(v: Any) -> Any:
        seen.update(shape=v.shape, ndim=v.ndim, size=v.size, dtype=v.dtype, nbytes=v.nbytes, length=len(v))
        seen["text"] = repr(v)
        assert isinstance(v.flags.writeable, bool)
        assert [np.shape(item) for item in v] == [()] * 2
        return v

    vmap(look)(rows().astype(np.float32))
    assert seen.pop("text").startswith("BatchedArray(shape=(2,), dtype=float32, size=3, level=")
    assert seen == {
        "shape": (2,),
        "ndim": 1,
        "size": 2,
        "dtype": np.dtype(np.float32),
        "nbytes": 8,
        "length": 2,
    }


def test_writes_into_a_mapped_argument_reach_it_as_in_a_loop() -> None:
    x = rows()

    def fn(v: Any) -> Any:
        v[0] = 9
        return v

    np.testing.assert_array_equal(vmap(fn)(x)[:, 0], 9)
    np.testing.assert_array_equal(x[:, 0], 9)


def test_mapped_arrays_are_shown_and_not_saved(tmp_path: Any) -> None:
    seen: list[str] = []

    def fn(v: Any) -> Any:
        seen.extend([np.array_repr(v), f"{v}"])
        np.save(tmp_path / "x.npy", v)
        return v

    with pytest.raises(TypeError, match="save the result"):
        vmap(fn)(rows())
    assert all(text.startswith("BatchedArray(shape=(2,)") for text in seen)
    assert not list(tmp_path.iterdir())


# -- functions without a rule -----------------------------------------------------------------------


def test_loops_warn_once_and_name_the_function() -> None:
    _warned.discard("numpy.apply_over_axes")
    x = np.arange(12.0).reshape(2, 3, 2)
    with pytest.warns(UserWarning, match=r"no batching rule for this call of numpy\.apply_over_axes"):
        out = vmap(lambda v: np.apply_over_axes(np.sum, v, [0]))(x)
    np.testing.assert_array_equal(out, x.sum(1, keepdims=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(vmap(lambda v: np.apply_over_axes(np.sum, v, [0]))(x), out)


def test_loops_need_results_of_one_shape() -> None:
    _warned.add("numpy.unique")
    with pytest.raises(ValueError, match=r"numpy\.unique gives arrays of different shapes"):
        vmap(np.unique)(np.array([[1, 1], [1, 2]]))
    np.testing.assert_array_equal(vmap(np.unique)(np.array([[2, 1], [1, 2]])), [[1, 2], [1, 2]])
    with pytest.raises(ValueError, match="size 0"):
        vmap(np.unique)(np.zeros((0, 2)))


def test_loops_write_in_place() -> None:
    _warned.add("assignment through a mask")

    def fn(v: Any, new: Any) -> Any:
        v[v > 2] = new
        return v

    out = vmap(fn)(np.array([[1.0, 3.0], [4.0, 2.0]]), np.array([[7.0], [8.0]]))
    np.testing.assert_array_equal(out, [[1, 7], [8, 2]])


def test_masks_need_as_many_elements() -> None:
    with pytest.raises(ValueError, match="it is at 1 to 2"):
        vmap(lambda v: v[v > 0])(np.array([[1.0, 2.0], [0.0, 1.0]]))


def test_masks_in_nested_maps() -> None:
    _warned.update({"indexing with a mask", "numpy.nonzero"})
    x = np.random.default_rng(0).standard_normal((2, 3, 5))
    out = vmap(vmap(lambda v: v[v > np.median(v)]))(x)
    expected = [[v[v > np.median(v)] for v in part] for part in x]
    np.testing.assert_array_equal(out, expected)
