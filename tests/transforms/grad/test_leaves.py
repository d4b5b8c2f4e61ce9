"""Arguments and results taken apart into arrays, and put together again."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lite
from lite import MemoryMappedTensor, TensorDict, UnbatchedTensor, nn
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.leaves import Leaves, Structure, plain


def test_leaves_in_order() -> None:
    value = {"a": [1.0, TensorDict({"x": np.ones(2), "n": {"y": np.zeros(1)}})], "b": (np.arange(2),)}
    structure = Structure(value)
    assert [np.shape(leaf) for leaf in structure.leaves()] == [(), (2,), (1,), (2,)]
    again = structure.map(lambda leaf: leaf + 1)
    np.testing.assert_array_equal(again["a"][1]["n", "y"], [1])
    assert list(again) == ["a", "b"]


def test_floats_are_traced() -> None:
    arg = [np.ones(2), np.arange(2), np.float16(1.0), 2.0, "a", np.array(True)]
    leaves = Leaves(arg, "argument 0", 3)
    assert [type(item) is TracedArray for item in leaves.inside] == [True, False, True, True, False, False]
    assert leaves.inside[0].level == 3
    got = leaves.gather({leaves.inside[0].node: np.full(2, 5.0)}, set())
    np.testing.assert_array_equal(got[0], 5)
    assert [got[1].dtype, got[2].dtype, got[4], got[5].dtype] == [np.int64, np.float16, None, np.bool_]


def test_subclasses_compute_as_arrays(tmp_path: Any) -> None:
    mapped = MemoryMappedTensor.from_tensor(np.ones(3), filename=tmp_path / "x.memmap")
    leaves = Leaves(mapped, "argument 0", 0)
    assert type(leaves.inside.value) is np.ndarray
    td = TensorDict({"a": np.ones(2), "u": UnbatchedTensor(np.ones(5))}, [2])
    inside = Leaves(td, "argument 0", 0).inside
    assert type(inside["a"]) is TracedArray
    assert not isinstance(inside["u"], TracedArray)  # it takes no part


def test_masks_would_be_lost() -> None:
    with pytest.raises(TypeError, match="masked array, whose mask would be lost"):
        Leaves(np.ma.masked_array([1.0, 2.0], [False, True]), "argument 0", 0)


def test_objects_of_other_libraries() -> None:
    class Foreign:
        dtype = np.dtype(float)

    with pytest.raises(TypeError, match="argument 0 must hold arrays of NumPy, got a Foreign"):
        Leaves(Foreign(), "argument 0", 0)


def test_results_without_derivatives() -> None:
    x = Leaves(np.ones(2), "x", 0).inside
    out = plain([x, {"a": x * 2}, TensorDict({"y": x}, [2]), 3])
    assert type(out[0]) is type(out[1]["a"]) is type(out[2]["y"]) is np.ndarray
    assert out[3] == 3


_MADE: dict[str, Callable[[Callable[..., Any], Any], Any]] = {
    "detach": lambda fn, x: _under_enable_grad(fn, x).detach(),
    "data": lambda fn, x: _under_enable_grad(fn, x).data,
    "detach_": lambda fn, x: _under_enable_grad(fn, x).detach_(),
    "aux": lambda fn, x: lite.value_and_grad(lambda x: (x.sum(), fn(x)), has_aux=True)(x)[0][1],
    "aux of grad": lambda fn, x: lite.grad(lambda x: (x.sum(), fn(x)), has_aux=True)(x)[1],
    "vjp": lambda fn, x: lite.vjp(fn, x)[0],
    "aux of vjp": lambda fn, x: lite.vjp(lambda x: (x, fn(x)), x, has_aux=True)[2],
}


def _under_enable_grad(fn: Callable[..., Any], x: Any) -> Any:
    with lite.enable_grad():
        return fn(nn.Parameter(x))


def test_single_numbers_stay_arrays_in_containers() -> None:
    for how in _MADE.values():

        def fn(x: Any) -> TensorDict:
            return TensorDict(loss=(x * 2).sum(), n=TensorDict(mean=x.mean()))

        td = how(fn, np.array([1.0, 3.0], np.float32))
        assert [type(leaf) for leaf in td.values(True, True)] == [np.ndarray, np.ndarray]
        assert td.bytes() == 8
        assert td.to_dict() == {"loss": 8, "n": {"mean": 2}}
        np.testing.assert_array_equal(lite.stack([td, td])["loss"], [8, 8])
        np.testing.assert_array_equal((td + td)["n", "mean"], 4)
        np.testing.assert_array_equal(td.clone().zero_()["loss"], 0)
        assert (td == td).all()
