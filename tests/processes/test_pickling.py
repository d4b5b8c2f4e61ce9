"""Pickling: state that survives, buffers that are not copied, other processes."""

import multiprocessing
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.pickled import Point, echo_plus_one

from lite import LazyStackedTensorDict, TensorDict, lazy_stack


def everything() -> TensorDict:
    rows = [TensorDict({"r": np.arange(2 * n).reshape(2, n)}, batch_size=[2]) for n in (1, 2, 4)]
    return TensorDict(
        {
            "x": np.arange(6.0).reshape(3, 2),
            "n": {"y": np.zeros((3, 2, 1), np.int8), "empty": {}},
            "const": frozenset({1, 2}),
            "s": "shared by the batch",
            "each": [["a", None], [1, (2, 3)], ["b", {"c": 1}]],
            "lazy": lazy_stack(rows),
            "point": Point(xy=np.ones((3, 2)), label="p", tags=["a", "b", "c"], batch_size=[3]),
        },
        batch_size=[3],
        device="cpu",
        names=["time"],
    )


def same(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    assert repr(a) == repr(b)
    assert (a.names, a.device, a.is_locked) == (b.names, b.device, b.is_locked)
    for key, value in a.exclude("lazy").items(True, True):
        np.testing.assert_array_equal(b.get(key), value, strict=True)


def test_everything_survives() -> None:
    for protocol, locked in ((2, True), (pickle.HIGHEST_PROTOCOL, False)):
        td = everything()
        td.is_locked = locked
        out = pickle.loads(pickle.dumps(td, protocol))
        same(td, out)
        assert out["each"] == td["each"]
        assert isinstance(out["point"], Point)
        assert out["point"].label == "p"
        assert out["point"].tags == ["a", "b", "c"]
        assert isinstance(out.get("lazy"), LazyStackedTensorDict)
        for part, expected in zip(out.get("lazy").tensordicts, td.get("lazy").tensordicts, strict=True):
            np.testing.assert_array_equal(part["r"], expected["r"])


@pytest.mark.processes
def test_a_locked_tree_stays_one() -> None:
    out = pickle.loads(pickle.dumps(everything().lock_()))
    for node in (out, out["n"], out.get("lazy"), out.get("lazy").tensordicts[0]):
        assert node.is_locked
    raises(RuntimeError, "part of a locked graph", out["n"].unlock_)
    out.unlock_()
    out["n"]["new"] = np.zeros((3, 1))


def test_an_unlocked_copy_of_a_part_can_be_changed() -> None:
    td = TensorDict({"n": {"x": np.zeros(2)}}).lock_()
    part = pickle.loads(pickle.dumps(td["n"]))
    part.unlock_()["new"] = 1
    assert "new" not in td["n"]


def test_other_containers_at_the_root() -> None:
    for kind in (Point, LazyStackedTensorDict):
        td = everything()
        source = td["point"] if kind is Point else td.get("lazy")
        out = pickle.loads(pickle.dumps(source))
        assert type(out) is kind
        assert repr(out) == repr(source)


def test_an_array_under_two_keys_stays_one() -> None:
    x = np.arange(3)
    out = pickle.loads(pickle.dumps(TensorDict(a=x, b=x)))
    assert out["a"] is out["b"]


def test_no_buffer_is_copied() -> None:
    leaves = {
        "a": np.zeros((256, 512)),
        "fortran": np.asfortranarray(np.ones((256, 256))),
        "first rows": np.zeros((512, 512))[:256],
    }
    if np.lib.NumpyVersion(np.__version__) >= "2.3.0":  # before, NumPy copies these
        leaves["permuted"] = np.zeros((8, 64, 128)).transpose(1, 0, 2)
    td = TensorDict({"n": leaves, "lazy": lazy_stack([TensorDict(x=np.zeros(1 << 17))] * 2)})
    size = sum(x.nbytes for x in leaves.values())
    buffers: list[pickle.PickleBuffer] = []
    tracemalloc.start()
    data = pickle.dumps(td, protocol=5, buffer_callback=buffers.append)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(data) < 4096
    assert peak < size / 100
    views = [np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers]
    for leaf in (*leaves.values(), td["lazy"].tensordicts[0]["x"]):
        assert any(np.shares_memory(leaf, view) for view in views)

    tracemalloc.start()
    out = pickle.loads(data, buffers=buffers)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < size / 100
    for key, leaf in leaves.items():
        assert np.shares_memory(out["n", key], leaf)
        np.testing.assert_array_equal(out["n", key], leaf)


def test_extension_dtypes_are_not_copied_either() -> None:
    for name in ("bfloat16", "float8_e4m3fn"):
        dtype = getattr(pytest.importorskip("ml_dtypes"), name)
        x = (np.arange(2000) % 16).astype(dtype)
        td = TensorDict({"x": x, "strided": x[::2]})
        buffers: list[pickle.PickleBuffer] = []
        data = pickle.dumps(td, protocol=5, buffer_callback=buffers.append)
        out = pickle.loads(data, buffers=buffers)
        assert np.shares_memory(out["x"], x)
        for key in ("x", "strided"):
            np.testing.assert_array_equal(out[key], td[key], strict=True)
        plain = pickle.loads(pickle.dumps(td, protocol=2))
        np.testing.assert_array_equal(plain["x"], x, strict=True)


def test_read_only_arrays_stay_read_only_out_of_band() -> None:
    x = np.arange(1000)
    x.flags.writeable = False
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(TensorDict(x=x), protocol=5, buffer_callback=buffers.append)
    out = pickle.loads(data, buffers=buffers)
    assert np.shares_memory(out["x"], x)
    assert not out["x"].flags.writeable
    assert pickle.loads(data, buffers=[bytes(b) for b in buffers])["x"].tolist() == x.tolist()


@pytest.mark.parametrize("method", [pytest.param("spawn", marks=pytest.mark.processes), "forkserver"])
def test_a_round_trip_through_another_process(method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this platform cannot {method}")
    td = everything().lock_()
    with multiprocessing.get_context(method).Pool(1) as pool:
        out = pool.apply_async(echo_plus_one, (td,)).get(timeout=60)
    np.testing.assert_array_equal(out["x"], td["x"] + 1)
    assert out.is_locked
    assert out.names == ["time"]
    assert out["each"] == td["each"]
    assert out["point"].tags == ["a", "b", "c"]


def test_what_is_in_one_buffer_stays_there() -> None:
    td = TensorDict(a=np.arange(3.0), n=TensorDict(b=np.ones(2)), s="text").consolidate()
    out = pickle.loads(pickle.dumps(td))
    assert out.is_consolidated()
    assert out.is_locked
    same(td, out)
