"""`vmap` over TensorDicts."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.vmap_cases import rows

import lite
from lite import LazyStackedTensorDict, NonTensorData, NonTensorStack, TensorDict, grad, lazy_stack, vmap


def test_tensordict_in_and_out() -> None:
    td = TensorDict({"a": rows(), "n": {"b": rows(3, 4)}, "s": "text"}, batch_size=[3])

    def fn(td: Any) -> Any:
        assert td.batch_size == ()
        assert td["a"].shape == (2,)
        td["c"] = td["a"].sum()
        td["n", "d"] = td["n", "b"][0]
        return td

    out = vmap(fn)(td)
    assert out.batch_size == (3,)
    np.testing.assert_array_equal(out["c"], rows().sum(1))
    np.testing.assert_array_equal(out["n", "d"], rows(3, 4)[:, 0])
    assert out["s"] == "text"
    assert set(td.keys(True)) == {"a", "n", ("n", "b"), "s"}
    new = vmap(lambda td: TensorDict(x=td["a"] * 2))(td)
    np.testing.assert_array_equal(new["x"], rows() * 2)


def test_what_is_not_mapped_is_expanded_and_stays_as_it_is() -> None:
    td = TensorDict(a=rows(), n=TensorDict(b=rows(), batch_size=[3]), batch_size=[3])
    x = np.arange(12.0).reshape(4, 3)

    def fn(td: Any, x: Any) -> Any:
        td["x"] = x
        td["n", "y"] = x
        return td

    for dims, args in (((None, 0), (td, x)), ((0, None), (x, td))):
        out = vmap(fn if dims[0] is None else lambda x, td: fn(td, x), dims)(*args)
        assert out.batch_size == (4, 3)
        assert out["a"].shape == (4, 3, 2)
        assert out["a"].strides[0] == 0
        np.testing.assert_array_equal(out["n", "y"], x)
    assert set(td.keys(True)) == {"a", "n", ("n", "b")}


def test_arrays_of_all_elements_take_no_mapped_values() -> None:
    """They would be left inside of a map that has ended, or be lost (torch raises, too)."""
    td = TensorDict(a=np.zeros(3), n=TensorDict(b=np.zeros(3)))
    for write in (
        lambda x: td.set_("a", x),
        lambda x: td.data.set_("a", x),
        lambda x: td.update_({"n": {"b": x}}),
        lambda x: td.set_at_("a", x[0], 0),
    ):
        for run in (vmap(write), vmap(grad(lambda x, write=write: write(x)["a"].sum()))):
            with pytest.raises(
                ValueError, match="mapped by vmap, and the array is one for all elements: pass"
            ):
                run(np.ones((2, 3)))
    for array in (td["a"], td["n", "b"]):
        np.testing.assert_array_equal(array, np.zeros(3))
    out = vmap(lambda td, x: td.set_("a", x))(td.expand(2).clone(), np.ones((2, 3)))
    np.testing.assert_array_equal(out["a"], np.ones((2, 3)))


def test_names_of_the_mapped_dimension() -> None:
    td = TensorDict(a=np.zeros((3, 4, 2)), batch_size=[3, 4], names=["time", "env"])
    seen: list[Any] = []

    def fn(td: Any) -> Any:
        seen.append(td.names)
        return td

    assert vmap(fn, 0)(td).names == [None, "env"]
    assert vmap(fn, 1, 1)(td).names == ["time", None]
    assert seen == [["env"], ["time"]]


def test_out_dims_of_tensordicts() -> None:
    td = TensorDict(a=np.zeros((3, 4, 2)), batch_size=[3, 4])
    assert vmap(lambda t: t, 0, 1)(td).batch_size == (4, 3)
    assert vmap(lambda t: t, 1, -1)(td)["a"].shape == (3, 4, 2)
    raises(ValueError, "out_dims has 2 for a result that will have 2", lambda: vmap(lambda t: t, 0, 2)(td))


@pytest.mark.parametrize("lock", [False, True])
def test_writes_on_lazy_stacks(lock: bool) -> None:
    parts = [TensorDict(a=rows()[i]) for i in range(3)]
    td = lazy_stack(parts)
    if lock:
        td.lock_()

    def fn(td: Any) -> Any:
        td["b"] = td["a"] + 1
        return td

    if lock:
        raises(RuntimeError, "locked", lambda: vmap(fn)(td))
        return
    np.testing.assert_array_equal(vmap(fn)(td)["b"], rows() + 1)
    assert all("b" not in part for part in parts)


def test_locked_tensordicts() -> None:
    td = TensorDict(a=rows(), batch_size=[3]).lock_()
    raises(RuntimeError, "locked", lambda: vmap(lambda td: td.set("b", td["a"]))(td))
    assert vmap(lambda td, x: td.set("b", x), (None, 0))(td, np.zeros((2, 3)))["b"].shape == (2, 3)


def test_methods_of_tensordicts_inside() -> None:
    """Others are in tests/parity/test_vmap.py."""
    td = TensorDict(a=np.arange(12.0).reshape(3, 2, 2), batch_size=[3, 2])
    a = td["a"]
    for fn, expected in (
        (lambda t: t[0], a[:, 0]),
        (lambda t: t.sum(0), a.sum(1)),
        (lambda t: t.flip(0), a[:, ::-1]),
        (lambda t: lite.stack([t, t * 2]), np.stack([a, a * 2], 1)),
        (lambda t: lite.cat([t, t]), np.concatenate([a, a], 1)),
        (lambda t: t.expand(4, 2), np.broadcast_to(a[:, None], (3, 4, 2, 2))),
        (lambda t: t.where(t["a"][:, 0] > 2, 0), np.where(a[:, :, :1] > 2, a, 0)),
        (lambda t: lite.stack(list(t)), a),
    ):
        np.testing.assert_allclose(vmap(fn)(td)["a"], expected)
    index = np.array([1, 0, 1])
    np.testing.assert_array_equal(vmap(lambda t, i: t[i])(td, index)["a"], a[np.arange(3), index])
    np.testing.assert_array_equal(vmap(lambda t, i: t[i], (None, 0))(td, index)["a"], a[index])
    np.testing.assert_array_equal(
        vmap(lambda t, i: t.gather(0, i))(td, index[:, None])["a"], a[np.arange(3), index][:, None]
    )


def test_objects_in_tensordicts() -> None:
    td = TensorDict(a=rows(2), batch_size=[2])
    td["label"] = NonTensorData("x", batch_size=[2])
    out = vmap(lambda t: t)(td)
    assert out["label"] == "x"
    assert out.get("label").batch_size == (2,)


def test_one_object_per_row() -> None:
    td = TensorDict({"a": rows(2), "names": ["x", "y"]}, batch_size=[2])
    for batch in (td, lazy_stack(list(td.unbind(0)))):
        for fn, expected in (
            (lambda t: t, ["x", "y"]),
            (lambda t: t.apply(lambda a: a * 2) if "NonTensorStack" in repr(t) else None, ["x", "y"]),
            (lambda t: t.get("names"), ["x", "y"]),
            (lambda t: t.unsqueeze(0)[0], ["x", "y"]),
            (lambda t: t.expand(2), [["x", "x"], ["y", "y"]]),
        ):
            out = vmap(fn)(batch)
            out = out if isinstance(out, NonTensorStack) else out.get("names")
            assert type(out) is NonTensorStack
            assert out.tolist() == expected
        with pytest.raises(RuntimeError, match="another value for each element"):
            vmap(lambda t: t["names"])(batch)


def _stack(dim: int, ragged: bool = False) -> LazyStackedTensorDict:
    parts = [
        TensorDict(
            {"x": np.arange(3.0 * (1 + i * ragged)).reshape(3, -1) + 10 * i, "n": {"y": np.arange(3) + i}},
            [3],
        )
        for i in range(2)
    ]
    return lazy_stack(parts, dim)


def test_lazy_stacks_stay_lazy() -> None:
    for dim in (0, 1):
        for in_dim in (0, 1):
            for out_dim in (0, -1):
                td = _stack(dim)
                same = vmap(lambda row: row, (in_dim,), out_dim)(td)
                changed = vmap(lambda row: row.set("z", row["x"] * 2), (in_dim,), out_dim)(td)
                added = vmap(lambda row: row + 1, (in_dim,), out_dim)(td)
                picked = vmap(lambda row: row.get("n"), (in_dim,), out_dim)(td)
                dense = td.contiguous()
                expected = dense if in_dim == out_dim % 2 else dense.permute(1, 0)
                for out in (same, changed, *([] if in_dim == dim else [added, picked])):
                    assert isinstance(out, LazyStackedTensorDict)
                    assert out.stack_dim == (dim if in_dim == out_dim % 2 else 1 - dim)
                assert same.batch_size == added.batch_size == picked.batch_size == expected.batch_size
                np.testing.assert_array_equal(same["x"], expected["x"])
                np.testing.assert_array_equal(changed["z"], expected["x"] * 2)
                np.testing.assert_array_equal(added["n", "y"], expected["n", "y"] + 1)
                np.testing.assert_array_equal(picked["y"], expected["n", "y"])
                assert "z" not in td
                assert vmap(lambda row: row, (in_dim,), out_dim)(td.lock_()).is_locked


def test_ragged_stacks_are_mapped_along_the_other_dims() -> None:
    td = _stack(0, ragged=True)
    out = vmap(lambda row: row.apply(lambda x: x * 2), (1,))(td)
    assert (out.stack_dim, out.batch_size) == (1, (3, 2))
    np.testing.assert_array_equal(out[2, 1]["x"], td[1, 2]["x"] * 2)
    sums = vmap(lambda row: row[1]["x"].sum(), (1,))(td)
    np.testing.assert_array_equal(sums, td[1]["x"].sum(1))
    raises(RuntimeError, "'x'", lambda: vmap(lambda row: row)(td))


def test_stacks_are_indexed_by_mapped_arrays() -> None:
    td, index = _stack(0), np.array([1, 0, 1])
    out = vmap(lambda row, i: row[i], (1, 0))(td, index)
    np.testing.assert_array_equal(out["x"], td.contiguous()["x"][index, np.arange(3)])
    ragged = _stack(0, ragged=True)
    raises(RuntimeError, "'x'", lambda: vmap(lambda row, i: row[i], (1, 0))(ragged, index))


def test_stacks_in_nodes_twice_mapped_and_in_chunks() -> None:
    td = TensorDict({"n": _stack(0)}, [2])
    out = vmap(lambda row: row.set("z", row["n", "x"].sum()))(td)
    np.testing.assert_array_equal(out["z"], td["n", "x"].sum((1, 2)))
    np.testing.assert_array_equal(out["n", "x"], td["n", "x"])
    inner = vmap(lambda row: row, (1,))(TensorDict({"n": _stack(0)}, [2, 3]))
    assert (type(inner["n"]), inner["n"].stack_dim) == (LazyStackedTensorDict, 1)
    twice = vmap(vmap(lambda row: row["x"] + 1))(_stack(1))
    np.testing.assert_array_equal(twice, _stack(1)["x"] + 1)
    chunks = vmap(lambda row: row, chunk_size=1)(_stack(0))
    np.testing.assert_array_equal(chunks["x"], _stack(0)["x"])


def test_entries_that_are_not_mapped_are_expanded_at_the_dimension() -> None:
    shared = np.arange(2.0)
    out = vmap(lambda x: TensorDict({"x": x, "shared": shared}, [2]), out_dims=1)(np.ones((3, 2)))
    assert out.batch_size == (2, 3)
    np.testing.assert_array_equal(out["shared"], [[0] * 3, [1] * 3])
