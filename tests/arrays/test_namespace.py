"""Arrays that another library computes: with a library made for it, and with JAX."""

import copy
import operator
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

import lite
from lite import TensorDict, cat, lazy_stack, pad, register_pytree, stack
from lite._arrays.device import unwrap, wrap
from lite._arrays.namespace import NamespaceArray
from lite._arrays.types import has_namespace, is_array

# -- a library of its own -------------------------------------------------------------------------------


class Namespace:
    """Functions of `Other` arrays by NumPy's names, and what they were called."""

    __name__ = "other"

    def __init__(self) -> None:
        self.called: list[str] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)

        def function(*args: Any, **kwargs: Any) -> Any:
            self.called.append(name)
            kwargs = {key: bare(value) for key, value in kwargs.items()}
            return other(found(*map(bare, args), **kwargs))

        function.__name__ = name
        function.reduce = lambda x, **options: other(found.reduce(bare(x), **options))  # type: ignore[attr-defined]
        return function


NAMESPACE = Namespace()


class Other:
    """An array that answers none of NumPy's protocols, and cannot be written to."""

    def __init__(self, value: Any) -> None:
        self.value = np.asarray(value)
        self.value.flags.writeable = False

    def __array_namespace__(self) -> Any:
        return NAMESPACE

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.value, name)
        return (
            (lambda *args, **kwargs: other(found(*map(bare, args), **kwargs))) if callable(found) else found
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise TypeError("its values are not known")

    def __getitem__(self, index: Any) -> Any:
        return Other(self.value[bare(index)])


def bare(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(bare, value))
    return value.value if isinstance(value, Other) else value


def other(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(other, value))
    return Other(np.array(value)) if isinstance(value, np.ndarray | np.generic) else value


X = np.arange(6.0).reshape(2, 3)


def held(td: Any, key: str = "x") -> Any:
    assert isinstance(td[key], Other)
    return td[key].value


def test_what_has_a_namespace() -> None:
    assert has_namespace(Other(X))
    assert is_array(Other(X))
    for value in (X, np.float32(1), 1.0, None, [1], TensorDict(a=1), Other):
        assert not has_namespace(value)
    assert wrap(X) is X
    shown = wrap(Other(X))
    assert isinstance(shown, NamespaceArray)
    assert wrap(shown) is shown
    assert isinstance(unwrap(shown), Other)


def test_leaves_are_computed_by_their_own_library() -> None:
    td = TensorDict({"x": Other(X), "n": {"y": Other(X[:, 0])}, "plain": X}, [2])
    assert isinstance(td["x"], Other)
    NAMESPACE.called.clear()
    out = td + 1
    assert NAMESPACE.called == ["add", "add"]
    np.testing.assert_array_equal(held(out), X + 1)
    np.testing.assert_array_equal(out["plain"], X + 1)
    np.testing.assert_array_equal(held(td.sum(0)), X.sum(0))
    np.testing.assert_array_equal(held(td.reshape(2, 1)), X[:, None])
    np.testing.assert_array_equal(held(td[1]), X[1])
    np.testing.assert_array_equal(held(stack([td, td])), np.stack([X, X]))
    np.testing.assert_array_equal(held(td.exp()), np.exp(X))
    np.testing.assert_array_equal(held(td.where(np.array([True, False]), 0)), X * [[1], [0]])
    target = NamespaceArray(Other(X[0]))
    for out in (target, (target,)):
        assert np.max(NamespaceArray(Other(X)), 0, out=out) is target
    np.testing.assert_array_equal(bare(target.leaf), X.max(0))


def test_what_a_library_lacks_and_what_cannot_be_written() -> None:
    shown = NamespaceArray(Other(X))
    raises(TypeError, r"copyto into an array is not available for a Other.*np\.asarray", np.copyto, shown, X)
    with pytest.raises(TypeError, match="an assignment is not available"):
        shown[0] = 1
    raises(TypeError, "a Other cannot be written into a ndarray", lambda: np.add(shown, 1, out=X.copy()))
    with pytest.raises(ValueError, match=r"a result of shape \(2, 3\) does not fit into the shape \(3,\)"):
        np.add(shown, 1, out=NamespaceArray(Other(X[0])))
    raises(TypeError, "erf is not available", lambda: TensorDict(x=Other(X)).erf())
    assert NotImplemented is shown.__array_ufunc__(np.add, "__call__", shown, TensorDict(a=1))


def test_an_operator_in_place_holds_another_array() -> None:
    leaf = Other(X)
    shown = view = NamespaceArray(leaf)
    shown += 1
    assert shown is view
    np.testing.assert_array_equal(unwrap(shown).value, X + 1)
    np.testing.assert_array_equal(leaf.value, np.arange(6.0).reshape(2, 3))
    raises(TypeError, "unsized", lambda: len(NamespaceArray(Other(1.0))))


Operation = Callable[[Any], Any]


# -- JAX --------------------------------------------------------------------------------------------------


def leaves_of(td: Any) -> list[Any]:
    return list(td.values(True, True)) if isinstance(td, lite.TensorDictBase) else [td]


def numbers() -> TensorDict:
    n = np.arange(12, dtype=np.float32).reshape(3, 4) / 8 + 0.25
    return TensorDict(
        {"a": n, "b": n[:, 0].copy(), "n": {"c": n[:, :2].copy()}, "i": np.arange(1, 4, dtype=np.int32)}, [3]
    )


ROWS = np.array([True, False, True])


def assigned(td: Any, index: Any, value: Any) -> Any:
    out = td.clone()
    out[index] = value
    return out


def each(*names: str, **arguments: Any) -> list[Operation]:
    return [operator.methodcaller(name, **arguments) for name in names]


# Each family is one function for JAX, which compiles it at once.
CASES: dict[str, list[Operation]] = {
    "functions": each(
        *("neg", "exp", "rsqrt", "reciprocal", "sigmoid", "relu", "sign", "round", "frac", "erf", "erfc"),
        *("lgamma", "isfinite", "logical_not", "float", "double", "half", "int", "clone", "contiguous"),
    ),
    "everything": [
        *each("sum", "mean", "amax", "std", "var", "prod", "nansum", "norm", "logsumexp"),
        lambda t: t.mean("feature"),
        lambda t: t.exclude("i").sum(reduce=True),
    ],
    "over the batch": [
        *each("sum", "mean", "amax", "argmax", "std", "nanmean", "norm", "cumsum", "softmax", dim=0),
        lambda t: t.quantile(0.5, 0),
        lambda t: t.max(0).values + t.max(0).indices,
        lambda t: t.cummax(0).indices,
        lambda t: t.sort(0)[0],
    ],
    "arithmetic": [
        lambda t: 2 - t * 3 / 2**t,
        lambda t: (t // 2) % 3 + (t.int() & 1),
        lambda t: t * np.array([1, 2, 3], np.float32),
        lambda t: t * t + t.exp(),
        lambda t: (t == t) & (t < 1),
        lambda t: t.lerp(t + 1, 0.5).addcmul(t, t, value=2).clamp(0, 1),
        lambda t: np.sum(np.exp(t), axis=0),
        lambda t: t.select("a") + TensorDict({"a": t["b"]}, [3]),
        lambda t: TensorDict({"a": t["b"]}, [3]) + t.select("a"),
        lambda t: t + numbers(),
        lambda t: numbers() + t,
        lambda t: t.select("a") @ np.ones((4, 2), np.float32),
    ],
    "shapes": [
        lambda t: t.reshape(3, 1).view(1, 3).transpose(0, 1).permute(1, 0),
        lambda t: t.unsqueeze(0).squeeze(0).unsqueeze(-1),
        lambda t: t.expand(2, 3),
        lambda t: t.unflatten(0, (3, 1)).flatten(0, 1),
        lambda t: t.gather(0, np.array([2, 0])),
        lambda t: t.repeat(2).repeat_interleave(2, dim=0),
    ],
    "indices": [
        lambda t: t[1], lambda t: t[1:], lambda t: t[[0, 2]], lambda t: t[ROWS], lambda t: t[:, None],
    ],
    "joins": [
        lambda t: cat([*t.split(2), *t.chunk(3), stack(t.unbind(0))]),
        lambda t: stack([t, t], 1),
        lambda t: cat([t, numbers()]),
        lambda t: t.select("a").cat_from_tensordict(0),
        lambda t: pad(t, [1, 2], 7),
        lambda t: (lazy_stack([t, t]) + 1)[1],
        lambda t: lazy_stack([t, t]).contiguous(),
    ],
    "choices": [
        lambda t: t.where(ROWS, -1),
        lambda t: t.where(t["b"] > 1, t + 1),
        lambda t: t.masked_fill(ROWS, 0),
        lambda t: t.masked_fill(t["b"] > 1, 0),
        lambda t: t.masked_select(ROWS),
    ],
    "copies": [
        lambda t: t.named_apply(lambda key, x: x * 2).apply(lambda x: x + 1),
        lambda t: TensorDict({"a": t["a"], "n": {"b": [t["b"][0], t["b"][1]]}}),
        lambda t: TensorDict.from_dict(t.to_dict()),
        lambda t: t.new_ones(5) + lite.zeros_like(t)[0],
        lambda t: t.copy().set("z", t["a"] + 1).set(("q", "z"), t["b"]).update({"a": t["a"] * 2}),
    ],
    "writes": [
        lambda t: t.clone().set_("a", 0).set_("b", t["b"] * 2).update_({"i": t["i"] + 1}),
        lambda t: t.clone().lock_().set_("a", 0),
        lambda t: operator.iadd(t.exclude("i").clone(), 1).mul_(2).exp_(),
        lambda t: t.clone().zero_(),
        lambda t: t.clone().fill_("n", 2),
        lambda t: t.clone().apply_(lambda x: x * 2),
        lambda t: t.clone().set_at_("a", 5, 1).set_at_(("n", "c"), t["n", "c"][0], 2),
        lambda t: assigned(t, 0, t[2]),
        lambda t: assigned(t, slice(1, None), 7),
        lambda t: assigned(t, ROWS, t[:2]),
        lambda t: assigned(t, [2, 0], numbers()[:2]),
        lambda t: assigned(t, 0, TensorDict({"z": t["a"][0]})),
        lambda t: assigned(lazy_stack([t, t + 1]), 0, t * 2),
        lambda t: lazy_stack([t, t + 1]).set("a", stack([t, t])["a"]),
        lambda t: lazy_stack([t.clone(), t + 1]).set_at_("a", 1.0, 0),
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def jax() -> Any:
    found = pytest.importorskip("jax", reason="pip install jax")
    register_pytree("jax")
    return found


def of_jax(jax: Any, td: TensorDict) -> TensorDict:
    return td.apply(jax.numpy.asarray)


@each_case("family", CASES)
def test_operations_on_arrays_of_jax(jax: Any, family: str) -> None:
    """As they are, and traced: the same numbers, shapes and batch sizes, always in arrays of JAX."""

    def run(td: Any) -> list[Any]:
        return [operation(td) for operation in CASES[family]]

    given, wanted = of_jax(jax, numbers()), run(numbers())
    # Without jit, JAX compiles each step by itself: two families stand for all.
    for found in [jax.jit(run)(given)] + ([run(given)] if family in ("indices", "writes") else []):
        for number, (out, want) in enumerate(zip(found, wanted, strict=True)):
            assert getattr(out, "batch_size", None) == getattr(want, "batch_size", None), number
            assert leaves_of(out), number
            for leaf, expected in zip(leaves_of(out), leaves_of(want), strict=True):
                assert isinstance(leaf, jax.Array), number
                np.testing.assert_allclose(leaf, expected, rtol=2e-5, atol=1e-5, err_msg=str(number))
    np.testing.assert_equal(leaves_of(given), leaves_of(numbers()))


def test_derivatives_and_maps(jax: Any) -> None:
    td = of_jax(jax, numbers().exclude("i"))

    def loss(t: Any) -> Any:
        t = stack([t, assigned(t, 0, 0)]).reshape(-1).clone()
        t += 1
        return t.sigmoid().mean(0).sum(reduce=True)

    gradient = jax.jit(jax.grad(loss))(td)
    step = 1e-2
    for key in ("a", "b", ("n", "c")):
        at = (1,) * td[key].ndim
        up, down = td.copy(), td.copy()
        up[key], down[key] = td[key].at[at].add(step), td[key].at[at].add(-step)
        np.testing.assert_allclose(
            gradient[key][at], (loss(up) - loss(down)) / (2 * step), rtol=2e-2, atol=1e-4
        )
    mapped = jax.vmap(lambda row: row.where(row["b"] > 1, 0) + row)(td)
    np.testing.assert_allclose(mapped["a"], (td.where(td["b"] > 1, 0) + td)["a"])


def test_arrays_of_jax_are_kept_until_numpy_is_asked_for(jax: Any, tmp_path: Path) -> None:
    x = jax.numpy.arange(6.0).reshape(3, 2)
    td = TensorDict({"x": x, "h": x.astype(jax.numpy.bfloat16)}, batch_size=[3])
    assert td["x"] is x
    assert td.to_dict()["x"] is x
    assert "x: Array(shape=(3, 2), device=cpu, dtype=float32" in str(td)
    for host in (
        td.to("cpu")["x"],
        td.numpy()["x"],
        TensorDict({"x": x}, device="cpu")["x"],
        lite.from_dlpack(x),
    ):
        assert type(host) is np.ndarray
        assert host.ctypes.data == x.unsafe_buffer_pointer()
        assert not host.flags.writeable
    assert td.to("cpu")["h"].dtype.name == "bfloat16"
    assert td.to_dict(convert_tensors=True)["x"] == [[0, 1], [2, 3], [4, 5]]
    td.memmap(tmp_path)
    np.testing.assert_array_equal(lite.load_memmap(tmp_path)["x"], x)
    for copied in (pickle.loads(pickle.dumps(td)), copy.deepcopy(td)):
        assert isinstance(copied["x"], jax.Array)
    assert td.clone()["x"] is not x
    assert td.auto_device_().device is None
    np.testing.assert_array_equal(
        jax.numpy.from_dlpack(TensorDict(y=np.arange(3, dtype=np.float32))["y"]), [0, 1, 2]
    )


def test_arrays_of_numpy_stay_what_they_are(jax: Any) -> None:
    td = TensorDict({"x": np.zeros(3, np.float32)}, [3])
    held = td["x"]
    td.update_({"x": jax.numpy.ones(3)})
    td += TensorDict({"x": jax.numpy.ones(3)}, [3])
    td[0] = TensorDict({"x": jax.numpy.float32(7)})
    assert td["x"] is held
    np.testing.assert_array_equal(held, [7, 2, 2])
    with pytest.raises(ValueError, match=r"Failed to update 'x'.*traced array"):
        jax.jit(lambda v: td.set_("x", v))(jax.numpy.ones(3))
    np.testing.assert_array_equal(held, [7, 2, 2])


def test_a_write_replaces_the_entry_and_nothing_else(jax: Any) -> None:
    x = jax.numpy.zeros((3, 2))
    td = TensorDict({"x": x, "n": {"x": x}}, [3]).lock_()
    row = td[0]
    td[0] = 1
    td["n"].set_("x", 2)
    np.testing.assert_array_equal(x, np.zeros((3, 2)))
    np.testing.assert_array_equal(td["x"], [[1, 1], [0, 0], [0, 0]])
    np.testing.assert_array_equal(td["n", "x"], np.full((3, 2), 2))
    np.testing.assert_array_equal(row["x"], [0, 0])
    row.zero_().add_(5)
    np.testing.assert_array_equal(td["x"][0], [1, 1])


def test_a_write_that_fails_leaves_everything_as_it_was(jax: Any) -> None:
    x = jax.numpy.zeros((3, 2))
    td = TensorDict({"x": x, "y": np.zeros((3, 2), np.float32)}, [3])
    for wrong in (
        lambda: td.update_({"x": np.ones((3, 2)), "y": np.ones((4, 2))}),
        lambda: assigned_here(td, 0, TensorDict({"x": np.ones(2), "y": np.ones(5)})),
        lambda: td.set_("x", "text"),
        lambda: td.set_at_("x", 1, 9),
        lambda: operator.iadd(td, np.ones((2, 3))),
    ):
        raises((ValueError, RuntimeError, IndexError, TypeError), "", wrong)
        assert td["x"] is x
        assert not td["y"].any()
    integers = TensorDict({"x": jax.numpy.arange(3)}, [3])
    with pytest.raises(TypeError, match="cannot write a float32 result into a int32 array"):
        integers += 0.5
    np.testing.assert_array_equal(integers["x"], [0, 1, 2])


def assigned_here(td: Any, index: Any, value: Any) -> None:
    td[index] = value


def test_indices_that_are_traced(jax: Any) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    plain = TensorDict({"a": x, "n": {"b": x[:, 0]}, "s": "text"}, [3], names=["time"])

    def look(td: Any, i: Any, rows: Any) -> Any:
        return td[i], td[rows], td[:, None][rows, 0], lazy_stack([td, td]).exclude("s")[i - 1]

    for td in (plain, of_jax(jax, plain)):
        one, some, both, part = jax.jit(lambda i, rows, td=td: look(td, i, rows))(2, np.array([2, 0]))
        assert (one.batch_size, some.batch_size, both.batch_size, part.batch_size) == ((), (2,), (2,), (3,))
        assert some.names == ["time"]
        np.testing.assert_array_equal(one["a"], x[2])
        np.testing.assert_array_equal(some["n", "b"], x[[2, 0], 0])
        np.testing.assert_array_equal(both["a"], x[[2, 0]])
        assert some["s"] == "text"
    out = jax.jit(lambda td, i: assigned(td, i, 0))(of_jax(jax, plain.exclude("s")), 1)
    np.testing.assert_array_equal(out["a"], x * [[1], [0], [1]])
    with pytest.raises(TypeError, match="per-element objects cannot be indexed"):
        jax.jit(lambda i: TensorDict({"each": ["x", "y"]}, [2])[i])(0)
    for pick in (lambda td: td[td["a"][:, 0] > 1], lambda td: td.masked_select(td["a"][:, 0] > 1)):
        raises(IndexError, "must be of integers, got bool", jax.jit(pick), of_jax(jax, plain))
        assert pick(of_jax(jax, plain)).batch_size == (2,)
    concrete = of_jax(jax, plain)
    assert concrete[jax.numpy.array([2, 0])].batch_size == (2,)
    assert concrete[jax.numpy.array(1)].batch_size == ()
    raises(IndexError, "out of bounds", lambda: concrete[jax.numpy.array([7])])


def test_numpy_cannot_have_what_is_traced(jax: Any) -> None:
    td = of_jax(jax, numbers())
    for ask in (
        lambda t: t.to("cpu"),
        lambda t: t.numpy(),
        lambda t: TensorDict({"x": t["a"]}, device="cpu"),
    ):
        raises(TypeError, "traced array", jax.jit(ask), td)
    shown: list[str] = []
    jax.jit(lambda t: shown.append(str(t)) or t)(td)
    assert "a: Array(shape=(3, 4), device=traced, dtype=float32" in shown[0]


def test_one_element_as_a_number(jax: Any) -> None:
    array = wrap(jax.numpy.arange(3.0))
    assert array.max().item() == array.item(2) == 2.0


def test_random_keys_are_leaves(jax: Any) -> None:
    td = TensorDict({"key": jax.random.key(0), "x": jax.numpy.zeros(2)})

    def step(carry: Any, _: Any) -> Any:
        key, draw = jax.random.split(carry["key"])
        return carry.set("key", key).set("x", jax.random.normal(draw, (2,))), carry["x"]

    out, rows = jax.lax.scan(step, td, None, 3)
    assert rows.shape == (3, 2)
    assert jax.random.key_data(out["key"]).shape == (2,)
    both = stack([td, out])
    assert both["key"].shape == (2,)
    both[0] = both[1]
    np.testing.assert_array_equal(*jax.random.key_data(both["key"]))
    assert "dtype=key<fry>" in str(td)


def test_64_bits_where_jax_has_them(jax: Any) -> None:
    td = of_jax(jax, numbers())
    assert td.double()["a"].dtype == np.float32
    assert td.sum()["i"].dtype == np.int32
    with jax.enable_x64(True):
        assert td.double()["a"].dtype == np.float64
        assert td.sum()["i"].dtype == np.int64
