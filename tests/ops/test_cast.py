"""dtypes, devices, and what a tree of arrays weighs."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.tensorclasses import Point
from helpers.trees import tree, unchanged

import lite
from lite import NonTensorData, TensorDict, from_modules, lazy_stack, nn


@each_case(
    ("method", "dtype"),
    [
        ("half", "float16"), ("float", "float32"), ("double", "float64"), ("bool", "bool"),
        ("short", "int16"),
        ("int", "int32"), ("long", "int64"), ("int8", "int8"), ("int16", "int16"), ("int32", "int32"),
        ("int64", "int64"), ("uint8", "uint8"), ("uint16", "uint16"),
        ("uint32", "uint32"), ("uint64", "uint64"),
        ("float16", "float16"), ("float32", "float32"), ("float64", "float64"), ("complex64", "complex64"),
        ("complex128", "complex128"),
    ],
)  # fmt: skip
def test_casts(method: str, dtype: str) -> None:
    td = tree(lock=True)
    with unchanged(td):
        outs = [getattr(td, method)(), td.to(np.dtype(dtype)), td.type(dtype)]
    for out in outs:
        assert out.dtype == np.dtype(dtype)
        assert out.is_locked
        assert out["s"] == "text"
        np.testing.assert_array_equal(out["a"], td["a"].astype(dtype))


def test_chosen_arrays_are_cast() -> None:
    """As measured on tensordict 0.15.3."""
    td = TensorDict(
        {"x": np.ones(2, np.float32), "i": [1], "n": {"b": np.ones(2, np.float32)}, "s": "t", "e": {}}
    )
    td.lock_()
    seen: list[Any] = []

    def chosen(key: Any, array: Any) -> bool:
        seen.append(key)
        return key == ("n", "b")

    with unchanged(td):
        for made in (
            td.double(cast_filter=chosen),
            td.type("float64", cast_filter=chosen),
            td.to("float64", cast_filter=chosen),
        ):
            assert [made[key].dtype for key in ("x", "i", ("n", "b"))] == [np.float32, np.int64, np.float64]
            assert (made.is_locked, list(made.keys()), made["i"] is td["i"]) == (True, list(td.keys()), True)
        raises(TypeError, "cast_filter must be a function .*, got 3", td.to, np.float64, cast_filter=3)
    assert seen == 3 * [("x",), ("i",), ("n", "b")]
    stack = lazy_stack([td, td])
    assert (
        stack.double(cast_filter=lambda key, _: key == ("n", "b")).tensordicts[1]["n", "b"].dtype
        == np.float64
    )


@each_case(
    ("dtype", "expected"),
    [
        ("float16", "floating inexact"), (ml_dtypes.bfloat16, "floating inexact"), ("complex64", "inexact"),
        ("int8", "integer"), ("uint64", "integer"), ("bool", "bool"),
    ],
)  # fmt: skip
def test_kinds_of_arrays(dtype: Any, expected: str) -> None:
    array = np.zeros(1, dtype)
    for kind in ("bool", "floating", "inexact", "integer"):
        fn = getattr(lite, f"is_{kind}")
        assert fn(array) is fn("key", array) is (kind in expected.split())


def test_bfloat16() -> None:
    td = TensorDict(a=[1.0, 2.0])
    assert td.bfloat16()["a"].dtype == ml_dtypes.bfloat16
    assert td.to("bfloat16").is_floating_point()


def test_dtype_and_sizes() -> None:
    shared = np.zeros(4, np.float32)
    td = TensorDict({"a": shared, "n": {"b": shared}})
    assert td.dtype == np.float32
    assert td.is_floating_point()
    assert (td.bytes(), td.bytes(count_duplicates=False)) == (32, 16)
    assert (td.param_count(), td.param_count(count_duplicates=False)) == (8, 4)
    assert tree().dtype is None
    assert not tree().is_floating_point()


def test_meta_keeps_shapes_without_memory() -> None:
    net = nn.Linear(1000, 3, rng=0)
    params = from_modules(net, nn.Linear(1000, 3, rng=1), as_module=True)
    empty = params[0].data.to("meta")
    assert [(x.shape, x.dtype, x.strides) for x in empty.values()] == [
        ((3, 1000), np.float32, (0, 0)),
        ((3,), np.float32, (0,)),
    ]
    td = TensorDict(a=np.ones(3)).lock_()
    for made in (td.to("meta", dtype=np.int8), td.unlock_().to(device="meta", dtype=np.int8, inplace=True)):
        assert (made["a"].dtype, made["a"].strides) == (np.int8, (0,))
    assert made is td
    td = TensorDict({"a": np.ones((2, 3), np.float32)}, [2]).lock_().to(np.float64, device="meta")
    assert (td["a"].dtype, td["a"].strides, td.is_locked) == (np.float64, (0, 0), True)
    with pytest.raises(RuntimeError, match="lock"):
        td.to("meta", inplace=True)
    with empty.to_module(net):
        copied = copy.deepcopy(net)
    with params[1].to_module(copied):
        np.testing.assert_array_equal(copied.weight, params["weight"][1])


def test_to_device_and_to_another() -> None:
    td = TensorDict({"n": {"a": [1, 2]}})
    moved = td.to("cpu")
    assert (moved.device, moved["n"].device, td.device) == ("cpu", "cpu", None)
    assert moved.cpu() is moved
    assert moved.to("cpu", dtype=np.float64).dtype == np.float64
    like = td.to(TensorDict(a=1.0, device="cpu"))
    assert (like.device, like.dtype) == ("cpu", np.float32)
    assert moved.clear_device_()["n"].device is None
    raises(TypeError, "other must be", lambda: td.to(NonTensorData("x")))
    assert td.detach()["n", "a"] is td["n", "a"]
    assert td.data["n"] is not td["n"]


@each_case("lazy", [False, True])
def test_to_in_place_keeps_the_nodes(lazy: bool) -> None:
    td = TensorDict(
        {"a": np.arange(4), "f": np.ones(4), "n": TensorDict({"b": np.ones(4)}, [4]), "s": "x"}, [4]
    )
    if lazy:
        td = lazy_stack(list(td.unbind(0)))
    parts = list(td.tensordicts) if lazy else [td]
    nodes, floats = [part["n"] for part in parts], [part["f"] for part in parts]
    assert td.to(np.float64, inplace=True) is td
    assert all(part["n"] is node for part, node in zip(parts, nodes, strict=True))
    assert all(part["f"] is array for part, array in zip(parts, floats, strict=True))
    assert td.dtype == np.float64
    assert td.device is None
    assert td.to(device="cpu", dtype=np.float32, inplace=True) is td
    assert (td.device, td["n"].device, td.dtype) == ("cpu", "cpu", np.float32)
    assert (td["s"][0] if lazy else td["s"]) == "x"
    td.lock_()
    for kwargs in ({"dtype": np.int8}, {"dtype": np.float32}):
        raises(RuntimeError, "locked", td.to, **kwargs, inplace=True)
    assert td.dtype == np.float32
    assert td.to("cpu", inplace=True) is td


def test_to_sets_the_batch_size_of_the_result() -> None:
    td = TensorDict({"a": np.ones((4, 3))}, [4])
    assert td.to(np.float32, batch_size=[4, 3]).batch_size == (4, 3)
    assert td.batch_size == (4,)
    assert td.to(batch_size=[]) is td
    assert td.batch_size == ()
    raises(RuntimeError, "", lambda: td.to(np.float32, batch_size=[5]))


@each_case(
    ("args", "kwargs", "error"),
    [
        ((np.float32, np.float64), {}, TypeError),
        (("cpu",), {"device": "cpu"}, TypeError),
        (("cpu",), {"other": TensorDict(a=1.0)}, ValueError),
        ((TensorDict(a=1.0),), {"other": TensorDict(a=1.0)}, TypeError),
        ((), {"other": np.ones(2)}, TypeError),
        (("cpu:x",), {}, ValueError),
        (("cpu:",), {}, ValueError),
    ],
)
def test_arguments_of_to_that_exclude_each_other(args: Any, kwargs: Any, error: type[Exception]) -> None:
    td = TensorDict(a=np.ones(2))
    with unchanged(td), pytest.raises(error):
        td.to(*args, **kwargs)


DEVICES: dict[str, Any] = {
    "TensorDict": lambda device: TensorDict(a=1.0, device=device),
    "TensorClass": lambda device: Point(xy=np.ones(2), device=device),
    "to": lambda device: TensorDict(a=1.0).to(device),
    "to of a lazy stack": lambda device: lazy_stack([TensorDict(a=1.0)]).to(device=device),
    "empty": lambda device: TensorDict(a=1.0).empty(device=device),
    "apply": lambda device: TensorDict(a=1.0).apply(lambda x: x + 1, device=device),
    "named_apply": lambda device: TensorDict(a=1.0).named_apply(lambda name, x: x + 1, device=device),
    "consolidate": lambda device: TensorDict(a=1.0, device="cpu").consolidate(device=device),
    "from_any": lambda device: lite.from_any({"a": 1.0}, device=device),
    "from_dict": lambda device: lite.from_dict({"a": 1.0}, device=device),
    "from_dict_instance": lambda device: TensorDict(a=1.0).from_dict_instance({"a": 1.0}, device=device),
    "from_list": lambda device: TensorDict.from_list([{"a": 1.0}], device=device),
    "from_struct_array": lambda device: lite.from_struct_array(np.zeros(2, [("a", "f4")]), device=device),
    "from_tuple": lambda device: lite.from_tuple((1.0, 2.0), device=device),
    "make_tensordict": lambda device: lite.make_tensordict(a=1.0, device=device),
    "from_schema": lambda device: TensorDict.from_schema(
        {"a": ((), np.float32)}, batch_size=[2], device=device
    ),
    "new_zeros": lambda device: TensorDict(a=1.0).new_zeros(2, device=device),
    "new_ones": lambda device: TensorDict(a=1.0).new_ones(2, device=device),
    "new_empty": lambda device: TensorDict(a=1.0).new_empty(2, device=device),
    "new_full": lambda device: TensorDict(a=1.0).new_full((2,), 1, device=device),
    "new_tensor": lambda device: TensorDict(a=1.0).new_tensor(TensorDict(a=1.0), device=device),
    "empty_like": lambda device: lite.empty_like(TensorDict(a=1.0), device=device),
    "full_like": lambda device: lite.full_like(TensorDict(a=1.0), 2, device=device),
    "ones_like": lambda device: lite.ones_like(TensorDict(a=1.0), device=device),
    "zeros_like": lambda device: lite.zeros_like(TensorDict(a=1.0), device=device),
    "rand_like": lambda device: lite.rand_like(TensorDict(a=1.0), device=device),
    "randn_like": lambda device: lite.randn_like(TensorDict(a=1.0), device=device),
}


@each_case("name", DEVICES)
def test_the_cpu_may_be_numbered(name: str) -> None:
    assert DEVICES[name]("cpu:0").device == DEVICES[name]("cpu").device == "cpu"


@each_case("inplace", [False, True])
@each_case(
    "array",
    [
        np.arange(12.0).reshape(3, 4)[:1],
        np.arange(12.0).reshape(3, 4)[:1].T,
        np.arange(24.0).reshape(2, 3, 4)[:, :1],
        np.arange(24.0).reshape(2, 3, 4)[:, :, :1],
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.broadcast_to(np.arange(3.0)[:, None], (3, 4)),
        np.broadcast_to(np.float64(1), (1, 1)),
        np.arange(6.0)[::-1],
        np.zeros((0, 3))[:, :1],
        np.array(1.0)[None][::-1],
        np.array(1.0),
    ],
    ids=str,
)
def test_canonical_strides(array: Any, inplace: bool) -> None:
    td = TensorDict({"a": array, "n": {"b": array}, "k": np.arange(3.0)}, [])
    kept = td["k"]
    plain = td.contiguous()
    assert plain["a"].flags.c_contiguous
    out = td.contiguous(canonical=True, inplace=inplace)
    assert (out is td) == inplace
    for key in ("a", ("n", "b")):
        np.testing.assert_array_equal(out[key], array)
        assert out[key].strides == np.empty(array.shape).strides
        if array.strides == np.empty(array.shape).strides:
            assert out[key] is array
    assert out["k"] is kept
    stack = lazy_stack([TensorDict({"n": {"b": array}}), TensorDict({"n": {"b": array}})])
    dense = stack.contiguous(canonical=True)
    assert dense["n", "b"].strides == np.empty((2, *array.shape)).strides


@each_case("wrap", [TensorDict, lambda x: lite.lazy_stack([TensorDict(row) for row in x])])
def test_plain_arrays_in_place_of_those_of_subclasses(tmp_path: Path, wrap: Any) -> None:
    mapped = lite.MemoryMappedTensor.from_tensor(np.arange(3.0), filename=tmp_path / "x")
    table = lite.UnbatchedTensor(np.arange(2))
    content = {"x": mapped, "n": {"y": mapped[1:]}, "s": "text", "table": table}
    td = wrap(content if wrap is TensorDict else [content, content]).lock_()
    plain = td.as_tensor()
    assert plain.is_locked
    parts = zip(*([td.unbind(0), plain.unbind(0)] if td.ndim else [[td], [plain]]), strict=True)
    for old, new in parts:
        for key in ("x", ("n", "y")):
            assert (type(old[key]), type(new[key])) == (lite.MemoryMappedTensor, np.ndarray)
            assert np.shares_memory(old[key], new[key])
        assert (new["s"], type(new.get("table"))) == ("text", type(old.get("table")))


def test_without_a_gpu_there_is_none():
    for args, name in (((), "'cuda'"), ((1,), "'cuda:1'")):
        raises(RuntimeError, name, TensorDict(a=1.0).cuda, *args)
