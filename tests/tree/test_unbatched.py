"""UnbatchedTensor: an array that takes no part in the batch."""

import copy
import operator
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import (
    LazyStackedTensorDict,
    NonTensorData,
    TensorDict,
    UnbatchedTensor,
    assert_close,
    cat,
    lazy_stack,
    pad_sequence,
    register_pytree,
    stack,
    vmap,
)
from lite.nn import TensorDictParams


def table() -> np.ndarray:
    out = np.arange(5.0)
    out.setflags(write=False)
    return out


def make(*size: int, u: Any = None) -> TensorDict:
    size = size or (4,)
    shared = UnbatchedTensor(table()) if u is None else u
    return TensorDict({"x": np.zeros((*size, 2)), "u": shared}, batch_size=size)


def check(td: Any, memory: Any = None) -> None:
    """The entry is unbatched, of the batch size of the TensorDict, and over the given memory."""
    u = td.get("u")
    assert type(u) is UnbatchedTensor
    assert u.batch_size == td.batch_size
    np.testing.assert_array_equal(u, table())
    if memory is not None:
        assert np.shares_memory(u, memory)


def test_stored_it_has_the_batch_size_and_the_given_one_stays_as_it_was() -> None:
    u = UnbatchedTensor(table(), batch_size=[9, 1])
    td = make(4, 3, u=u)
    check(td, u)
    assert u.batch_size == (9, 1)
    td.batch_size = [4]
    check(td, u)
    td.batch_size = [4, 3]
    check(td, u)


@each_case(
    "op",
    [
        lambda td: td[0],
        lambda td: td[..., 0],
        lambda td: td[np.array([[0, 1]])],
        lambda td: td[np.arange(12).reshape(4, 3) % 2 == 0],
        lambda td: td.reshape(12),
        lambda td: td.tile(2),
        lambda td: td.pad([0, 1, 2, 0]),
        lambda td: td.max(1).values,
        lambda td: td.max(1).indices,
        lambda td: td.cumsum(0),
        lambda td: td.sort(0).values,
        lambda td: td.softmax(1),
        lambda td: td.norm(dim=0),
        lambda td: td.to_lazystack(1)[:, 0],
        lambda td: td.densify(),
        lambda td: stack([td, td], -1),
        lambda td: cat([td, td[:, :1]], 1),
        lambda td: lazy_stack([td, td], 1),
        lambda td: lazy_stack([td, td])[np.array([1, 0])],
        lambda td: pad_sequence([td, td[:2]]),
        lambda td: np.stack([td]),
        lambda td: lazy_stack([td, td[:, :2]]),
    ],
)
def test_operations_on_the_batch_leave_it_alone(op: Any) -> None:
    """Others are in tests/parity/test_unbatched.py."""
    td = make(4, 3)
    out = op(td)
    check(out)
    check(td)
    nested = op(TensorDict({"n": td, "x": np.zeros((4, 3))}, batch_size=[4, 3]))
    assert nested["n"].get("u").batch_size == nested["n"].batch_size


def test_its_batch_size_is_told() -> None:
    first = UnbatchedTensor(np.ones(2), batch_size=[3])
    second = UnbatchedTensor(first)
    first.batch_size = (4,)
    assert (first.batch_size, second.batch_size) == ((4,), (3,))
    assert (repr(first), str(first)) == ("UnbatchedTensor(array([1., 1.]))", "[1. 1.]")
    check(TensorDict({"n": make(4, 3)}, batch_size=[4])[:2]["n"])


def test_views_share_the_memory() -> None:
    td = make(4, 3)
    for out in (td[0], td.reshape(12), td.expand(2, 4, 3), stack([td, td]), lazy_stack([td, td]), td.sum(0)):
        check(out, td["u"])
    assert not np.shares_memory(td.clone()["u"], td["u"])
    assert not np.shares_memory(copy.deepcopy(td)["u"], td["u"])


def test_elementwise_operations_compute_with_it() -> None:
    td = make(2)
    for out, expected in (
        (2 - td, 2 - table()),
        (td == 1, table() == 1),
        (td.to(np.float32), table()),
        (np.negative(td), -table()),
        (td.nan_to_num(), table()),
    ):
        u = out.get("u")
        assert type(u) is UnbatchedTensor
        assert u.batch_size == (2,)
        np.testing.assert_allclose(u, expected, rtol=1e-6)


def test_scalars_stay_arrays() -> None:
    td = make(2, u=UnbatchedTensor(3.0))
    for out in (td + 1, td.exp(), td.abs(), td.apply(np.sum, batch_size=[])):
        assert type(out.get("u")) is UnbatchedTensor
        assert out["u"].shape == ()


def test_rows_do_not_go_with_it_and_nothing_is_written() -> None:
    td = TensorDict({"x": np.zeros(4), "n": {"u": UnbatchedTensor(np.arange(5.0))}}, batch_size=[4])
    for call in (
        lambda: td + np.ones(4),
        lambda: td.add_(np.ones(4)),
        lambda: td.where(np.ones(4, bool), 0),
        lambda: td.masked_fill_(np.ones(4, bool), 1.0),
    ):
        raises(RuntimeError, "unbatched", call)
    np.testing.assert_array_equal(td["x"], np.zeros(4))
    np.testing.assert_array_equal(td["n", "u"], np.arange(5.0))


@each_case("lazy", [False, True])
def test_assignments_at_an_index_skip_it(lazy: bool) -> None:
    row = TensorDict(x=np.ones(2), u=UnbatchedTensor(np.full(5, 7.0)))
    u = UnbatchedTensor(table())
    parts = [TensorDict({"x": np.zeros((3, 2)), "u": u}, batch_size=[3]) for _ in range(4)]
    td = lazy_stack(parts) if lazy else make(4, 3)
    td[0, 1] = row
    td[1] = 5.0
    td[2] = np.full((3, 2), 6.0)
    td[np.array([3, 0]), 2] = row.expand(2)
    td.update_at_(row, (3, 0))
    check(td)
    np.testing.assert_array_equal(td["x"][:, :, 0], [[0, 1, 1], [5, 5, 5], [6, 6, 6], [1, 0, 1]])
    new = TensorDict(x=np.ones(2), v=UnbatchedTensor(np.full(3, 7.0)))
    td[0, 0] = new
    np.testing.assert_array_equal(td[0]["v"], np.full(3, 7.0))
    assert td[0]["v"].batch_size == (3,)


def test_values_written_into_it() -> None:
    td = make(4, u=UnbatchedTensor(np.zeros(5)))
    memory = td["u"]
    td.update_({"u": table()})
    td.set_at_("u", 9.0, 0)
    td["u"] += 1
    np.testing.assert_array_equal(memory, [10, 2, 3, 4, 5])
    raises(ValueError, "'u'", lambda: td.update_({"u": np.zeros(4)}))
    with pytest.raises(RuntimeError, match="batch dimension mismatch"):
        td["u"] = np.zeros(5)
    td["u"] = np.zeros(4)
    assert type(td["u"]) is np.ndarray


def test_a_warning_where_values_are_left_out() -> None:
    a, b = make(4), make(4, u=UnbatchedTensor(table() + 1))
    for call in (lambda: stack([a, b]), lambda: cat([a, b]), lambda: lazy_stack([a, b])["u"]):
        with pytest.warns(UserWarning, match="different data storage") as found:
            call()
        assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stack([a, a.clone()])  # equal values: nothing is lost
        nan = make(4, u=UnbatchedTensor(np.array([np.nan, 1.0])))
        check_nan = stack([nan, nan.clone()])
    assert check_nan["u"].shape == (2,)
    raises(RuntimeError, "'u'", lambda: stack([a, make(4, u=UnbatchedTensor(np.zeros(2)))]))
    raises(RuntimeError, "", lambda: stack([a, make(4, u=np.zeros(4))]))


def test_lazy_stacks_keep_each_for_its_part() -> None:
    parts = [make(2), make(2, u=UnbatchedTensor(np.zeros(3)))]
    rows = lazy_stack(parts)
    assert rows[1]["u"].shape == (3,)
    assert [u.shape for u in rows.get("u", as_list=True)] == [(5,), (3,)]
    assert rows.get_item_shape("u") == (5,)
    assert "UnbatchedTensor(shape=(5,)" in repr(rows)
    ragged = lazy_stack([make(2), make(3)])
    assert ragged["u"].batch_size == (2, -1)
    ragged.set("v", UnbatchedTensor(np.zeros(3)))
    assert ragged[1]["v"].batch_size == (3,)
    assert isinstance(ragged + 1, LazyStackedTensorDict)
    mixed = lazy_stack([make(5), make(5, u=np.zeros((5, 2)))])
    assert mixed.get_item_shape("u") == (-1,)
    assert "u: " in repr(mixed)


def test_it_is_a_numpy_array() -> None:
    u = UnbatchedTensor([1, 2, 3], batch_size=4)
    assert isinstance(u, np.ndarray)
    assert type(np.asarray(u)) is np.ndarray
    assert UnbatchedTensor(u, batch_size=[7]).batch_size == (7,)
    assert u.batch_size == (4,)
    assert [10, 20, 30][UnbatchedTensor(1)] == 20
    assert operator.index(UnbatchedTensor(2)) == 2
    assert f"{UnbatchedTensor(1.25):.1f}" == "1.2"
    source = np.zeros(3)
    assert np.shares_memory(UnbatchedTensor(source), source)
    raises(TypeError, "str", lambda: UnbatchedTensor("text"))
    raises(TypeError, "object", lambda: UnbatchedTensor(np.array([None])))


def test_pickles_name_the_public_class() -> None:
    u = UnbatchedTensor(np.arange(3), batch_size=[2])
    text = pickle.dumps(u, 2)
    assert b"lite" in text
    assert b"_tree" not in text
    again = pickle.loads(text)
    assert (type(again), again.batch_size, again.tolist()) == (UnbatchedTensor, (2,), [0, 1, 2])
    check(pickle.loads(pickle.dumps(make(4))))
    assert copy.deepcopy(u).batch_size == copy.copy(u).batch_size == (2,)


def test_state_dicts_hold_it() -> None:
    state = make(4).state_dict()
    assert list(state) == ["x", "u"]
    check(make(4, u=UnbatchedTensor(np.zeros(2))).load_state_dict(state, assign=True))


def test_files_refuse_it(tmp_path: Path) -> None:
    td = TensorDict({"x": np.zeros(4), "n": make(4)}, batch_size=[4])
    for call in (
        lambda: td.memmap(tmp_path / "a"),
        lambda: td.memmap(),
        lambda: td.memmap_like(tmp_path / "a"),
        lambda: td.save(tmp_path / "a.npz"),
        lambda: td.consolidate(),
        lambda: td.select(("n", "u")).to_pandas(separator="."),
    ):
        raises(NotImplementedError, "UnbatchedTensor", call)
    raises(ValueError, "'u' is one", td.to_struct_array)
    assert list(tmp_path.iterdir()) == []


def test_vmap_hands_it_to_every_element() -> None:
    td = make(4, 3)
    out = vmap(lambda row: (row["x"] * row["u"][1] + row["u"].sum(), row["u"]), chunk_size=3)(td)
    np.testing.assert_array_equal(out[0], np.full((4, 3, 2), 10.0))
    assert type(out[0]) is np.ndarray
    assert (type(out[1]), out[1].shape, out[1].batch_size) == (UnbatchedTensor, (5,), (4, 3))
    added = vmap(lambda row: row["u"] + row["x"].sum())(td)
    assert (type(added), added.shape) == (np.ndarray, (4, 5))
    assert vmap(lambda row: row, in_dims=1, out_dims=1)(make(2, 3))["u"].batch_size == (2, 3)
    assert vmap(lambda u: u)(UnbatchedTensor(np.zeros(3), batch_size=[4])).batch_size == (4,)


def test_sets_of_parameters_keep_it_as_a_buffer() -> None:
    params = TensorDictParams(make(4))
    assert [name for name, _ in params.named_parameters()] == ["x"]
    assert [name for name, _ in params.named_buffers()] == ["u"]
    for out in (params, params[0], params.clone(), params.reshape(2, 2), params.to("cpu"), params.data):
        check(out)
    assert params.to(np.float32)["u"].dtype == np.float32
    check(params.to(np.float32))


def test_trees_of_other_libraries() -> None:
    optree = pytest.importorskip("optree")
    register_pytree("optree")
    out = optree.tree_map(lambda x: np.asarray(x) + 1, make(4))
    assert (type(out.get("u")), out.batch_size, out["u"].batch_size) == (UnbatchedTensor, (4,), (4,))
    np.testing.assert_array_equal(out["u"], table() + 1)


def test_beside_objects_and_in_comparisons() -> None:
    td = make(4).set("s", NonTensorData("text"))
    assert bool((td.exclude("s") == td.exclude("s")).all())
    assert not td.exclude("s").any(0)["x"].any()
    assert td.exclude("s").any(0)["u"] == np.True_
    assert_close(make(4), make(4))
    check(td.auto_batch_size_(1))
    td = TensorDict(x=np.zeros((2, 3)), u=UnbatchedTensor(table()))
    check(td.auto_batch_size_())
    assert td.batch_size == (2, 3)


def test_a_device_that_it_cannot_be_on() -> None:
    raises(TypeError, "cuda", lambda: UnbatchedTensor(1.0).to("cuda:0"))
    assert UnbatchedTensor(1.0).to("cpu") == 1
    assert TensorDict(u=UnbatchedTensor(1.0), device="cpu").device == "cpu"
