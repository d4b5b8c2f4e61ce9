"""torch and tensordict: conversions over the same memory, both ways, and the constructors side by side."""

import dataclasses
from collections import UserDict, namedtuple
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.parity_trees import LITE, TORCH, array, plain, same, tensordict, torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lite
from lite import LazyStackedTensorDict, TensorClass, TensorDict, lazy_stack

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*legacy:DeprecationWarning", "ignore:.*:FutureWarning", "ignore:.*:UserWarning:tensordict"
)

DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
    *("bfloat16", "float8_e4m3fn", "float8_e5m2"),
]


def address(leaf):
    return leaf.data_ptr() if isinstance(leaf, torch.Tensor) else leaf.ctypes.data


@each_case("name", DTYPES)
def test_every_dtype_goes_both_ways_over_the_same_memory(name):
    tensor = torch.tensor([[0, 1, 2], [3, 0, 1]]).to(getattr(torch, name))
    source = tensordict.TensorDict({"x": tensor, "t": tensor.t()[:2]}, batch_size=[2])
    td = TensorDict.from_torch(source)
    assert td["x"].dtype.name == name
    assert address(td["x"]) == address(tensor)
    np.testing.assert_array_equal(td["t"].astype(complex), tensor.t()[:2].to(torch.complex128).numpy())
    back = td.to_torch()
    for key in ("x", "t"):
        assert address(back[key]) == address(source[key])
        assert back[key].dtype == source[key].dtype
        assert back[key].stride() == source[key].stride()
    back["x"][0, 0] = 1
    assert bool(td["x"][0, 0])


def trees():
    leaf = st.integers(0, 99).map(lambda seed: array((2, 3), seed)) | st.just("text") | st.just(["a", "b"])
    keys = st.sampled_from(["a", "b", "c d", "", "_"])

    def dense(children):
        entries = st.dictionaries(keys, leaf | children, max_size=3)
        return entries.map(lambda content: ("dense", [2], content))

    return st.recursive(dense(st.nothing()), dense, max_leaves=5)


@settings(max_examples=20)
@given(trees(), st.booleans())
def test_any_tree_goes_both_ways(tree, lock):
    torchs, ours = TORCH.build(tree), LITE.build(tree)
    if lock:
        torchs.lock_()
        ours.lock_()
    read = TensorDict.from_torch(torchs)
    assert plain(read) == plain(ours)
    assert read.is_locked is lock
    written = ours.to_torch()
    assert plain(written) == plain(torchs)
    assert written.is_locked is lock
    assert plain(TensorDict.from_torch(written)) == plain(ours)
    for key in read.keys(True, True):
        assert address(read.get(key)) == address(torchs.get(key))
        assert address(written.get(key)) == address(ours.get(key))


def test_names_devices_and_deeper_batches():
    inner = tensordict.TensorDict({"y": torch.zeros(3, 4)}, batch_size=[3, 4])
    source = tensordict.TensorDict({"n": inner}, batch_size=[3], device="cpu")
    source.names = ["time"]
    td = TensorDict.from_torch(source)
    assert (td.names, td.device, td["n"].batch_size, td["n"].names) == (
        ["time"], "cpu", (3, 4), ["time", None],
    )  # fmt: skip
    back = td.to_torch()
    assert back.names == ["time"]
    assert back.device == torch.device("cpu")
    assert back["n"].batch_size == torch.Size([3, 4])


@pytest.mark.parametrize("dim", [0, 1])
def test_ragged_lazy_stacks_stay_lazy(dim):
    parts = [
        tensordict.TensorDict({"r": torch.ones(2, n), "s": f"p{n}"}, batch_size=[2], names=["x"])
        for n in (1, 3)
    ]
    td = TensorDict.from_torch(tensordict.LazyStackedTensorDict(*parts, stack_dim=dim))
    assert isinstance(td, LazyStackedTensorDict)
    assert td.stack_dim == dim
    for part, source in zip(td.tensordicts, parts, strict=True):
        assert address(part["r"]) == address(source["r"])
        assert part["s"] == source["s"]
    back = td.to_torch()
    assert isinstance(back, tensordict.LazyStackedTensorDict)
    assert back.stack_dim == dim
    assert address(back.tensordicts[1]["r"]) == address(parts[1]["r"])
    assert lazy_stack([TensorDict(a=1), TensorDict(b=1)]).to_torch().tensordicts[1]["b"] == 1


@tensordict.tensorclass
class TorchPoint:
    xy: torch.Tensor
    label: str
    none: torch.Tensor | None = None


class Point(TensorClass):
    xy: Any
    label: str | None = None


def test_tensorclasses_become_tensordicts():
    point = TorchPoint(xy=torch.zeros(3, 2), label="l", batch_size=[3])
    for td in (TensorDict.from_torch(point), TensorDict.from_torch({"p": point}, batch_size=[3])["p"]):
        assert type(td) is TensorDict
        assert td.batch_size == (3,)
        assert address(td["xy"]) == address(point.xy)
        assert td["label"] == "l"
    assert Point.from_tensordict(TensorDict.from_torch(point)).label == "l"
    back = Point(xy=np.zeros((3, 2)), label="l", batch_size=[3]).to_torch()
    assert isinstance(back, tensordict.TensorDict)
    assert back["label"] == "l"


def test_objects_keep_their_kind():
    source = tensordict.TensorDict({}, batch_size=[2])
    source.set("list", tensordict.NonTensorStack([1, 2], [3, 4]))
    source.set_non_tensor("const", ["payload", 1])
    td = TensorDict.from_torch(source)
    assert td.batch_size == (2,)
    assert td["list"] == source.get("list").tolist()
    assert td["const"] == ["payload", 1]
    payloads = TensorDict({}, batch_size=[2])
    payloads.set("s", lite.NonTensorStack(lite.NonTensorData([1]), lite.NonTensorData([2, 3])))
    written = payloads.to_torch()
    assert written.get("s").tolist() == [[1], [2, 3]]
    assert written.get("s").batch_size == torch.Size([2])


def test_mappings_and_tensors_as_values():
    x = torch.arange(6.0).reshape(3, 2)
    td = TensorDict.from_torch({"x": x, "n": {"y": x}}, auto_batch_size=True)
    assert td.batch_size == td["n"].batch_size == (3, 2)
    assert address(td["n", "y"]) == address(x)
    for out in (TensorDict({"x": x}, batch_size=[3]), TensorDict({}, [3]).set("x", x)):
        assert address(out["x"]) == address(x)
    assert address(lite.from_dlpack(x)) == address(x)
    assert address(torch.from_dlpack(td["x"])) == address(x)


def test_gradients_are_left_behind():
    x = torch.ones(3, requires_grad=True)
    td = TensorDict.from_torch({"x": x, "y": x * 2})
    assert address(td["x"]) == address(x)
    np.testing.assert_array_equal(td["y"], [2, 2, 2])
    assert x.requires_grad
    z = torch.tensor([1 + 2j]).conj()
    assert TensorDict.from_torch({"z": z})["z"][0] == 1 - 2j


@pytest.mark.parametrize(
    "tensor",
    [
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.zeros(3, device="meta"),
        lambda: torch.quantize_per_tensor(torch.zeros(3), 0.1, 0, torch.qint8),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_tensors_without_plain_memory_are_refused_by_key(tensor):
    raises(TypeError, r"key \('n', 'bad'\)", TensorDict.from_torch, {"n": {"bad": tensor()}})


def test_copies_only_where_torch_cannot_share():
    fixed = np.arange(4.0)
    fixed.flags.writeable = False
    leaves = {
        "plain": np.arange(4.0), "strided": np.arange(8.0)[::2],
        "broadcast": np.broadcast_to(np.ones(1), (4,)), "fixed": fixed, "reversed": np.arange(4.0)[::-1],
        "swapped": np.arange(4, dtype=">f8"), "complex": np.arange(4).astype(">c16"),
    }  # fmt: skip
    td = TensorDict(leaves, batch_size=[4])
    out = td.to_torch()
    for key, leaf in leaves.items():
        np.testing.assert_array_equal(out[key].numpy(), leaf)
        assert (address(out[key]) == address(leaf)) is (key in ("plain", "strided"))
    out["fixed"].zero_()
    assert fixed[3] == 3
    copied = td.to_torch(copy=True)
    assert all(address(copied[key]) != address(leaf) for key, leaf in leaves.items())
    for key in ("plain", "strided", "broadcast", "fixed"):
        assert address(td.select(key).to_torch(copy=False)[key]) == address(leaves[key])
    for key, reason in (("reversed", "negative strides"), ("swapped", "foreign byte order")):
        raises(ValueError, f"key '{key}'.*{reason}", td.select(key).to_torch, copy=False)


def test_dtypes_torch_lacks():
    raises(TypeError, "key 'x': torch has no dtype", TensorDict(x=np.zeros(3, np.longdouble)).to_torch)


def test_as_dict():
    td = TensorDict({"x": np.zeros(3), "n": {"s": "text", "l": ["a", "b", "c"]}}, batch_size=[3])
    out = td.to_torch(as_dict=True)
    assert address(out["x"]) == address(td["x"])
    assert out["n"] == {"s": "text", "l": ["a", "b", "c"]}


# -- constructors -----------------------------------------------------------------------------------

Pair = namedtuple("Pair", "a b")


@dataclasses.dataclass
class Step:
    obs: Any
    rest: Any
    text: str = "ok"


X = array((3, 2), 1)
OBJECTS = {
    "dict": lambda x: {"a": x, "n": {"b": x}},
    "userdict": lambda x: UserDict(a=x),
    "tuple": lambda x: (x, (x, 1)),
    "named tuple": lambda x: Pair(x, Pair(x, {"q": x})),
    "dataclass": lambda x: Step(x, Step(x, (x,))),
    "mixed": lambda x: {"t": (x, 2), "d": Step(x, 1), "l": [1, 2], "s": ["u", "v"], "p": Pair(1, "z")},
    "ints": lambda x: [1, 2],
    "nested ints": lambda x: [[1, 2], [3, 4]],
    "int and float": lambda x: [1, 2.5],
    "strings": lambda x: ["a", "b"],
    "dicts": lambda x: [{"a": 1}, {"b": 2}],
    "empty tuple": lambda x: (),
    "number": lambda x: 3,
}


@each_case("name", OBJECTS)
@each_case("options", [{}, {"auto_batch_size": True}], ids=["", "auto"])
def test_from_any(name, options):
    same(lambda side: side.lib.TensorDict.from_any(OBJECTS[name](side.value(X)), **options))


@each_case(
    "options",
    [
        {}, {"auto_batch_size": True}, {"batch_size": [2, 3]}, {"batch_size": [4]}, {"batch_dims": 2},
        {"lazy": True},
    ],
    ids=str,
)  # fmt: skip
@each_case("second", [{"a": X}, {"b": X}], ids=["same", "different"])
def test_from_list(second, options):
    def rows(side):
        return [{key: side.value(value) for key, value in row.items()} for row in ({"a": X}, second)]

    same(lambda side: side.lib.TensorDict.from_list(rows(side), **options))


def test_structured_arrays():
    rows = np.array([(1, (2.0, [1, 2]))] * 3, [("a", "i8"), ("n", [("f", "f8"), ("v", "i8", (2,))])])
    for options in ({}, {"auto_batch_size": True}):
        same(lambda side, o=options: side.lib.TensorDict.from_struct_array(rows.copy(), **o))
    ours = TensorDict.from_struct_array(rows).to_struct_array()
    theirs = tensordict.TensorDict.from_struct_array(rows.copy()).to_struct_array()
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours, theirs)


@each_case(
    "tree",
    [lambda x: {"a": [x, (x, x)], "b": x}, lambda x: [x, {"k": (x,)}], lambda x: Pair(x, [x]), lambda x: []],
)
def test_pytrees_come_back_equal(tree):
    ours = TensorDict.from_pytree(tree(X)).to_pytree()
    theirs = tensordict.TensorDict.from_pytree(tree(torch.from_numpy(X.copy()))).to_pytree()

    def form(value):
        if isinstance(value, dict):
            return {key: form(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value).__name__, [form(item) for item in value]
        return value.tolist()

    assert form(ours) == form(theirs)
    same(lambda side: side.lib.TensorDict.from_pytree(tree(side.value(X))).get("missing"))


OPTIONS = [
    {"verbose": False}, {"show_batch_size": False}, {"show_device": False}, {"show_is_shared": False},
    {"show_shape": False}, {"show_field_device": False}, {"show_dtype": False},
    {"show_field_is_shared": False}, {"show_grad": True}, {"show_is_contiguous": True},
    {"show_storage_size": True}, {"plain": True}, {"sort_keys": "insertion"},
    {"verbose": False, "plain": True},
    {"verbose": False, "show_dtype": True},
    {"show_shape": False, "show_field_device": False, "show_dtype": False, "show_field_is_shared": False},
]  # fmt: skip


@each_case("options", OPTIONS, ids=str)
def test_print_options_give_the_text_of_the_reference(options):
    entries = {
        "b": array((3, 2), 1), "a": array((3,), 2, "float32"), "s": "hello", "z": array((3,), 0, "bool"),
    }  # fmt: skip
    tree = (
        "dense",
        [3],
        {**entries, "n": ("dense", [3], {"y": array((3, 2), 3)[:, :1], "e": ("dense", [3], {})})},
    )
    with tensordict.set_printoptions(**options):
        theirs = repr(TORCH.build(tree))
    with lite.set_printoptions(**options):
        ours = repr(LITE.build(tree))
    theirs = theirs.replace("Tensor(", "Array(").replace("torch.", "").replace("Size([])", "()")
    for n in ("3", "3, 2", "3, 1"):
        theirs = theirs.replace(f"Size([{n}])", f"({n},)" if n == "3" else f"({n})")
    assert ours == theirs
