"""NumPy's functions called on TensorDicts give what they give on every entry."""

from functools import partial

import numpy as np
from helpers.cases import each_case, raises
from helpers.trees import unchanged

from lite import TensorDict, lazy_stack


def source() -> TensorDict:
    rng = np.random.default_rng(0)
    td = TensorDict({"a": rng.normal(size=(4, 3)), "n": {"b": rng.normal(size=(4, 3))}}, batch_size=[4, 3])
    td["n", "b"].setflags(write=False)
    return td


OF_THE_BATCH = {
    **{
        f"{fn.__name__} axis={axis}": partial(fn, axis=axis)
        for fn in (np.sum, np.prod, np.mean, np.nansum, np.nanmean, np.max, np.min, np.std, np.var)
        for axis in (None, 0, -1, (0, 1))
    },
    **{
        f"{fn.__name__} axis={axis}": partial(fn, axis=axis)
        for fn in (np.argmax, np.argmin, np.cumsum, np.cumprod, np.sort, np.argsort)
        for axis in (0, 1, -1)
    },
    "all": partial(np.all, axis=0),
    "any keepdims": partial(np.any, axis=0, keepdims=True),
    "var ddof": partial(np.var, axis=0, ddof=1),
    "sum dtype": partial(np.sum, axis=0, dtype=np.float32, keepdims=True),
    "sort flat": partial(np.sort, axis=None),
    "cumsum flat": partial(np.cumsum),
    "quantile": partial(np.quantile, q=[0.1, 0.7], axis=1),
    "clip": lambda x: np.clip(x, 0, 1),
    "round": lambda x: np.round(x),
    "nan_to_num": np.nan_to_num,
    "squeeze": lambda x: np.squeeze(np.expand_dims(x, (0, 2)), 0),
    "squeeze all": lambda x: np.squeeze(np.expand_dims(x, (0, -1))),
    "expand_dims": lambda x: np.expand_dims(x, (0, 2)),
    "transpose": np.transpose,
    "transpose axes": lambda x: np.transpose(x, (1, 0)),
    "reshape": lambda x: np.reshape(x, (2, -1)),
    "reshape view": lambda x: np.reshape(x, (2, -1), copy=False),
    "ravel": np.ravel,
    "moveaxis": lambda x: np.moveaxis(x, 0, 1),
    "swapaxes": lambda x: np.swapaxes(x, 0, 1),
    "flip": np.flip,
    "flip axis": lambda x: np.flip(x, 1),
    "rot90": np.rot90,
    "roll": lambda x: np.roll(x, 1, 0),
    "roll flat": lambda x: np.roll(x, 5),
    "repeat": lambda x: np.repeat(x, 2, 1),
    "tile": lambda x: np.tile(x, (2, 1)),
    "take": lambda x: np.take(x, [2, 0], 0),
    "take flat": lambda x: np.take(x, [7, 0]),
    "take_along_axis": lambda x: np.take_along_axis(x, np.array([[2], [0], [1], [1]]), 1),
    "broadcast_to": lambda x: np.broadcast_to(x, (2, 4, 3)),
    "copy": np.copy,
    "stack": lambda x: np.stack([x, x], 1),
    "concatenate": lambda x: np.concatenate([x, x], 1),
    "where": lambda x: np.where(np.arange(4)[:, None] > 1, x, 0),
    "zeros_like": np.zeros_like,
    "isclose": lambda x: np.isclose(x, x),
    "exp": np.exp,
}


@each_case("name", OF_THE_BATCH)
def test_every_entry_gets_what_the_array_gets(name):
    fn, td = OF_THE_BATCH[name], source()
    with unchanged(td):
        out = fn(td)
    for key in ("a", ("n", "b")):
        expected = fn(td[key])
        np.testing.assert_allclose(out[key], expected)
        assert out.batch_size == expected.shape
        assert out[key].dtype == expected.dtype


def test_questions():
    td = source()
    assert (np.shape(td), np.ndim(td), np.size(td), np.size(td, 1)) == ((4, 3), 2, 12, 3)
    assert np.array_equal(td, td.clone())
    assert not np.array_equal(td, td + 1)
    assert not np.array_equal(td, td[:2])
    assert not np.array_equal(td, td.select("a"))
    assert np.allclose(td, td + 1e-12)


@each_case("pieces", [2, [1, 3]])
def test_splits(pieces):
    td = source()
    for fn in (np.split, np.array_split):
        for piece, array in zip(fn(td, pieces), fn(td["a"], pieces), strict=True):
            np.testing.assert_array_equal(piece["a"], array)
    raises(ValueError, "equal", lambda: np.split(td, 3))


def test_reshape_copies_if_asked():
    td = source()
    for copy in (None, False, True):
        assert np.shares_memory(np.reshape(td, (2, -1), copy=copy)["a"], td["a"]) is (copy is not True)


def test_errors():
    td = source()
    for action in (lambda: np.squeeze(td, 0), lambda: np.reshape(td, (3, 4), order="F")):
        raises(ValueError, r"squeeze|order", action)
    assert np.expand_dims(td, (-4, 3)).batch_size == (1, *td.batch_size, 1)
    for axis in (5, 3, -4):
        raises(IndexError, f"axis {axis} is out of bounds for 3 dimensions", np.expand_dims, td, axis)
    raises(TypeError, "no implementation found", lambda: np.interp(td, [0], [0]))


def test_lazy_stacks():
    stack = lazy_stack(list(source().unbind(0)))
    np.testing.assert_allclose(np.mean(stack, axis=0)["a"], stack["a"].mean(0))
    assert np.expand_dims(stack, 0).batch_size == (1, 4, 3)
    assert [type(td).__name__ for td in np.atleast_1d(TensorDict(a=1), stack)] == [
        "TensorDict",
        "LazyStackedTensorDict",
    ]
