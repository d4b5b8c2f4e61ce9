"""TensorDicts as trees of JAX: the batch size through its transformations, and structures that agree."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import TensorClass, TensorDict, lazy_stack, register_pytree

jax = pytest.importorskip("jax", reason="pip install jax")
jnp = jax.numpy


@pytest.fixture(autouse=True, scope="module")
def registered() -> None:
    register_pytree("jax", Point)


class Point(TensorClass):
    xy: Any
    label: str | None = None


def tree() -> TensorDict:
    """A batch of 3, with features and without, in a node of a longer batch, beside all kinds of entries."""
    node = TensorDict({"c": np.ones((3, 2, 5), np.float32)}, [3, 2])
    return TensorDict(
        {
            "b": np.arange(3, dtype=np.float32), "a": np.arange(12, dtype=np.float32).reshape(3, 4),
            "n": node, "empty": TensorDict({}, [3, 7]),
            "p": Point(xy=np.ones((3, 2), np.float32), label="l", batch_size=[3]), "s": "text",
        },
        [3],
    )  # fmt: skip


SIZES = ((3,), (3, 2), (3, 7), (3,))
INSIDE = ((), (2,), (7,), ())


def sizes(td: Any) -> Any:
    return td.batch_size, td["n"].batch_size, td["empty"].batch_size, td["p"].batch_size


# -- the mapped dim -----------------------------------------------------------------------------------


def test_vmap_takes_a_dim_of_the_batch_and_gives_it_back() -> None:
    seen = []

    def add(td: TensorDict) -> TensorDict:
        seen.append(sizes(td))
        assert td["s"] == "text"
        return td + 1

    out = jax.vmap(add)(tree())
    assert seen == [INSIDE]
    assert sizes(out) == SIZES
    assert out["s"] == "text"
    assert (type(out["p"]), out["p"].label) == (Point, "l")
    np.testing.assert_array_equal(out["a"], tree()["a"] + 1)


def test_scan_takes_a_dim_of_what_it_goes_through_and_leaves_the_carry() -> None:
    seen = []

    def body(carry: TensorDict, td: TensorDict) -> Any:
        seen.append((sizes(carry), sizes(td)))
        return carry + 1, td * 2

    carry, out = jax.lax.scan(body, tree(), tree())
    assert seen[0] == (SIZES, INSIDE)
    assert sizes(carry) == sizes(out) == SIZES
    np.testing.assert_array_equal(carry["a"], tree()["a"] + 3)
    np.testing.assert_array_equal(out["a"], tree()["a"] * 2)


def test_an_index_inside_vmap_is_of_the_batch() -> None:
    """Leaves of equal features are no batch of them."""
    td = TensorDict({"a": np.ones((3, 4), np.float32), "b": np.ones((3, 4), np.float32)}, [3])
    raises(RuntimeError, "batch_dims==0", lambda: jax.vmap(lambda row: row[0])(td))
    two = TensorDict({"a": np.arange(24.0).reshape(3, 2, 4)}, [3, 2])
    np.testing.assert_array_equal(jax.vmap(lambda row: row[0])(two)["a"], two["a"][:, 0])


@each_case(
    ("batch", "in_axes", "out_axes", "inside", "outside"),
    [
        ((2, 3), 0, 0, (3,), (2, 3)),
        ((2, 3), 1, 0, (2,), (3, 2)),
        ((2,), 1, 0, (2,), (3, 2)),  # a feature is mapped
        ((2, 3, 4), 2, 0, (2, 3), (4, 2, 3)),
        ((), 0, 0, (), (2,)),  # what is mapped is in front of what is left
    ],
)
def test_in_axes_and_out_axes(batch: Any, in_axes: int, out_axes: int, inside: Any, outside: Any) -> None:
    seen = []
    td = TensorDict({"a": np.zeros((2, 3, 4, 5), np.float32)}, batch)

    def look(row: TensorDict) -> TensorDict:
        seen.append(row.batch_size)
        return row

    out = jax.vmap(look, in_axes, out_axes)(td)
    assert (seen, out.batch_size) == ([inside], outside)


def test_a_dim_that_comes_back_behind_the_features_is_one_of_them() -> None:
    td = TensorDict({"a": np.zeros((2, 4), np.float32), "b": np.zeros((2, 6), np.float32)}, [2])
    assert jax.vmap(lambda row: row, 0, -1)(td).batch_size == ()
    assert jax.vmap(lambda row: row, None, -1, axis_size=5)(td).batch_size == (2,)


def test_axes_may_be_a_tree_of_the_same_structure() -> None:
    td = tree().select("a", "b", "s")
    axes = jax.tree.map(lambda leaf: 0, td)
    assert axes["a"] == 0
    assert axes.batch_size == (3,)
    np.testing.assert_array_equal(jax.vmap(lambda row: row + 1, in_axes=(axes,))(td)["a"], td["a"] + 1)
    seen = []

    def look(row: TensorDict) -> TensorDict:
        seen.append((row.batch_size, row["b"].shape))
        return row.select("a")

    axes = jax.tree.map(lambda leaf: None if leaf.ndim == 1 else 0, td, is_leaf=lambda x: x is None)
    out = jax.vmap(look, in_axes=(TensorDict._make({**axes._data}, (3,)),))(td)
    assert seen == [((), (3,))]
    assert out.batch_size == (3,)


def test_maps_within_maps_and_derivatives() -> None:
    td = TensorDict({"a": np.arange(6, dtype=np.float32).reshape(2, 3)}, [2, 3])
    out = jax.vmap(jax.vmap(lambda row: row * 2))(td)
    assert out.batch_size == (2, 3)
    gradients = jax.vmap(jax.grad(lambda row: (row["a"] ** 2).sum()))(td)
    assert gradients.batch_size == (2, 3)
    np.testing.assert_array_equal(gradients["a"], 2 * td["a"])
    row = td[0]
    jacobian = jax.jacrev(lambda t: t["a"] ** 2)(row)
    assert jacobian.batch_size == (3, 3)
    assert jax.hessian(lambda t: (t["a"] ** 3).sum())(row)["a"].batch_size == (3, 3)


def test_lazy_stacks_are_mapped_along_their_parts() -> None:
    seen = []

    def look(stack: Any) -> Any:
        seen.append((stack.batch_size, stack.stack_dim))
        return stack + 1

    parts = [TensorDict({"a": np.full((3, n), n, np.float32)}, [3]) for n in (1, 2)]
    out = jax.vmap(look)(lazy_stack(parts, 1))
    assert seen == [((2,), 0)]
    assert (out.batch_size, out.stack_dim) == ((3, 2), 1)
    np.testing.assert_array_equal(out.tensordicts[1]["a"], np.full((3, 2), 3))
    assert jax.jit(lambda stack: stack + 1)(lazy_stack(parts, 0)).batch_size == (2, 3)


def test_objects_per_element_are_left_out_where_they_do_not_fit() -> None:
    td = TensorDict({"a": np.zeros((3, 2), np.float32), "each": ["x", "y", "z"]}, [3])
    assert jax.jit(lambda t: t + 1)(td)["each"] == ["x", "y", "z"]
    assert "each" not in jax.tree.map(lambda leaf: leaf[:2], td)


# -- what does not map leaves the batch size ----------------------------------------------------------


@each_case("transform", [jax.jit, jax.checkpoint, lambda f: lambda td: jax.tree.map(f, td)])
def test_other_transformations_keep_batch_size_names_and_lock(transform: Any) -> None:
    td = TensorDict({"a": np.ones((3, 4), np.float32)}, [3], names=["time"]).lock_()
    out = transform(lambda x: x * 2)(td)
    assert (out.batch_size, out.names, out.is_locked) == ((3,), ["time"], True)
    gradient = jax.grad(lambda t: t["a"].sum())(td)
    assert (gradient.batch_size, gradient.names, gradient.is_locked) == ((3,), ["time"], True)
    assert jax.vmap(lambda row: row)(td).names == [None]


def test_functions_of_features_leave_the_batch() -> None:
    td = tree().select("a", "n")
    assert jax.tree.map(lambda x: x.sum(-1), td).batch_size == (3,)
    assert jax.tree.map(lambda x: x[..., None], td).batch_size == (3,)
    assert jax.tree.map(lambda x: x.mean(), td).batch_size == ()
    assert jax.tree.map(lambda x: x[0], td)["n"].batch_size == (2,)
    assert jax.tree.map(lambda *x: np.stack(x), td, td).batch_size == (2, 3)
    split = jax.tree.map(lambda x: x.reshape(1, 3, *x.shape[1:]), td)  # as for devices
    assert split.batch_size == (1, 3)


# -- leaves that are no arrays ------------------------------------------------------------------------


@each_case("leaf", [1.5, "axis", (1, 2), jax.ShapeDtypeStruct((3, 2, 7), np.float32)])
def test_anything_may_stand_for_a_leaf(leaf: Any) -> None:
    td = tree()
    held = jax.tree.map(lambda x: leaf, td)
    assert sizes(held) == SIZES
    assert held._data["a"] is leaf
    assert jax.tree.structure(held, is_leaf=lambda x: x is leaf) == jax.tree.structure(td)
    back = jax.tree.map(lambda x, y: y, held, td, is_leaf=lambda x: x is leaf)
    assert sizes(back) == SIZES
    assert back["a"] is td["a"]


def test_none_is_a_place_without_a_leaf() -> None:
    td = tree()
    small = jax.tree.map(lambda x: x if x.ndim < 3 else None, td)
    assert sizes(small) == SIZES
    assert len(jax.tree.leaves(small)) == 3
    whole = jax.tree.map(lambda x, y: y, small, td, is_leaf=lambda x: x is None)
    assert sizes(whole) == SIZES
    assert whole["n", "c"] is td["n", "c"]
    assert jax.jit(lambda t: t)(small).batch_size == (3,)


def test_shapes_without_arrays() -> None:
    described = jax.eval_shape(lambda td: jax.vmap(lambda row: row + 1)(td), tree())
    assert sizes(described) == SIZES
    assert isinstance(described["a"], jax.ShapeDtypeStruct)
    zeros = jax.tree.map(lambda d: jnp.zeros(d.shape, d.dtype), described)
    assert sizes(zeros) == SIZES


def test_trees_of_trees() -> None:
    td = tree().select("a", "b", "s")
    outer, inner = jax.tree.structure(td), jax.tree.structure([0, 0])
    rows = jax.tree.transpose(outer, inner, jax.tree.map(lambda x: [x, x + 1], td))
    np.testing.assert_array_equal(rows[1]["a"], td["a"] + 1)
    assert rows[1].batch_size == (3,)
    back = jax.tree.transpose(inner, outer, rows)
    np.testing.assert_array_equal(back["a"][1], td["a"] + 1)


# -- structures ---------------------------------------------------------------------------------------


def test_the_order_of_keys_is_no_part_of_the_structure() -> None:
    one, two = TensorDict({"a": 1.0, "b": 2.0}), TensorDict({"b": 2.0, "a": 1.0})
    assert jax.tree.structure(one) == jax.tree.structure(two)
    assert list(jax.tree.map(lambda x: x, two).keys()) == ["b", "a"]
    assert jax.tree.leaves(one) == jax.tree.leaves(two)
    out = jax.lax.cond(True, lambda: one + 1, lambda: two + 2)
    assert float(out["a"]) == 2.0
    carry, _ = jax.lax.scan(lambda c, x: (TensorDict({"b": c["b"], "a": x}), None), one, jnp.arange(3.0))
    assert float(carry["a"]) == 2.0


def test_branches_and_loops() -> None:
    td = tree()
    out = jax.lax.cond(True, lambda t: t + 1, lambda t: t * 2, td)
    assert sizes(out) == SIZES
    out = jax.lax.while_loop(lambda t: t["b"].sum() < 10, lambda t: t + 1, td)
    np.testing.assert_array_equal(out["b"], [3, 4, 5])
    out = jax.lax.fori_loop(0, 2, lambda i, t: t.set("a", t["a"] + i), td)
    np.testing.assert_array_equal(out["a"], td["a"] + 1)
    assert jax.lax.associative_scan(lambda a, b: a + b, td.select("a")).batch_size == (3,)


def test_structures_that_differ() -> None:
    structure = jax.tree.structure
    td = TensorDict({"a": np.zeros((3, 4)), "s": "x"}, [3])
    assert structure(td) == structure(td.clone())
    assert hash(structure(td)) == hash(structure(td.clone()))
    for other in (
        td.clone().set("s", "y"),
        td.exclude("s"),
        td.clone().lock_(),
        TensorDict({"a": np.zeros((3, 4)), "s": "x"}, [3], names=["time"]),
        TensorDict({"a": np.zeros((3, 4)), "s": "x"}, [3, 4]),
        TensorDict({"a": td, "s": "x"}, [3]),
    ):
        assert structure(td) != structure(other)
    assert structure(TensorDict({}, [3])) != structure(TensorDict({}, [4]))
    assert "batch_size=(3,)" in repr(structure(td))
    assert "objects=['s']" in repr(structure(td))


def test_no_trace_serves_another_batch_size() -> None:
    """Equal leaves, other batches: a cached trace would reduce over the wrong dims."""
    x = np.ones((3, 4), np.float32)
    first = jax.jit(lambda td: td.sum(0))
    assert first(TensorDict({"a": x}, [3]))["a"].shape == (4,)
    whole = jax.jit(lambda td: td.reshape(-1))
    assert whole(TensorDict({"a": x}, [3])).batch_size == (3,)
    assert whole(TensorDict({"a": x}, [3, 4])).batch_size == (12,)
    same = jax.jit(lambda td: td)
    for size in ([], [3], [3, 4]):
        assert same(TensorDict({"a": x}, size)).batch_size == tuple(size)
        assert same(TensorDict({}, [*size, 2])).batch_size == (*size, 2)
        nested = TensorDict({"n": TensorDict({"a": x}, size)})
        assert same(nested)["n"].batch_size == tuple(size)


def test_objects_need_no_hash() -> None:
    traced = []

    @jax.jit
    def add(td: TensorDict) -> TensorDict:
        traced.append(td["s"])
        return td + 1

    for value in ({"k": [1]}, {"k": [1]}, {"k": [2]}):
        td = TensorDict(a=np.ones(2, np.float32)).set_non_tensor("s", value)
        assert add(td)["s"] == value
    assert traced == [{"k": [1]}, {"k": [2]}]


def test_objects_that_are_trees_of_arrays() -> None:
    """As states of optax and of environments are: mapped, traced and returned with the other arrays."""

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class State:
        x: Any

    td = TensorDict({"a": np.ones((3, 4), np.float32), "s": "text", "t": (1, "text")}, [3])
    td["state"] = (State(jnp.arange(3.0)), {"mu": td.select("a")})
    assert [x.shape for x in jax.tree.leaves(td)] == [(3, 4), (3,), (3, 4)]
    seen = []

    def step(td: Any) -> Any:
        state, moments = td["state"]
        seen.append((td.get("state").batch_size, moments["mu"].batch_size, state.x.shape, td["t"]))
        td["state"] = (State(state.x + 1), {"mu": moments["mu"] + td["a"].sum()})
        return td

    for out in (jax.vmap(step)(td), jax.jit(jax.vmap(step))(td)):
        assert seen.pop() == ((), (), (), (1, "text"))
        assert out.get("state").batch_size == (3,)
        np.testing.assert_array_equal(out["state"][0].x, [1, 2, 3])
        np.testing.assert_array_equal(out["state"][1]["mu"]["a"], np.full((3, 4), 5))
    td["labels"] = ([np.array(["text"])], np.array([None]))  # of no numbers
    looped = jax.lax.fori_loop(0, 3, lambda i, td: step(td), td)
    np.testing.assert_array_equal(looped["state"][0].x, [3, 4, 5])
    assert jax.tree.structure(jax.eval_shape(step, td)) == jax.tree.structure(td)


def test_the_device_is_of_arrays_that_lite_holds() -> None:
    td = TensorDict({"a": np.ones(3, np.float32)}, [3], device="cpu")
    assert jax.tree.map(lambda x: x, td).device == "cpu"
    out = jax.jit(lambda t: t.set("z", t["a"] * 2))(td)  # a traced array has no device
    assert out.device is None
    assert isinstance(out["z"], jax.Array)
    carry, _ = jax.lax.scan(lambda c, _: (c + 1, None), td, None, 2)
    np.testing.assert_array_equal(carry["a"], [3, 3, 3])


def test_subclasses_stay_what_they_are() -> None:
    class Rollout(TensorDict):
        pass

    register_pytree("jax", Rollout)
    out = jax.jit(lambda td: td + 1)(Rollout({"a": np.ones(3, np.float32)}, [3]))
    assert type(out) is Rollout
