"""Every public name of tensordict's non-tensor classes, called on both sides, or in a table with the reason."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensordict", reason="needs the parity extra")

import tensordict
import torch

import lite

from .test_signatures import LEGACY, REFUSED

pytestmark = pytest.mark.filterwarnings("ignore")

CLASSES = ("NonTensorData", "MetaData", "NonTensorStack")

ENTRIES = "non-tensor data has no entries to name"
MAKES = "makes a TensorDict, whose class has it"
PROCESSES = "runs in other processes; tests/tree/test_object_methods.py calls it"

# Names that lite does not have.
LEFT_OUT = {
    **dict.fromkeys(("lock", "unlock", "rename_key", "valid_keys"), LEGACY),
    **dict.fromkeys(("fields", "from_tensordict"), "the dataclass behind is an implementation"),
    **dict.fromkeys(("make_memmap", "make_memmap_from_tensor", "memmap_refresh_", "auto_batch_size_"), ENTRIES),
    **dict.fromkeys(("to_module", "from_module", "from_modules"), "parameters of a module are entries"),
    **dict.fromkeys(("append", "insert", "extend"), "raise for every object there"),
    **dict.fromkeys(
        (
            "from_any", "from_consolidated", "from_dataclass", "from_dict", "from_dict_instance", "from_h5",
            "from_namedtuple", "from_pandas", "from_parquet", "from_pytree", "from_schema",
            "from_struct_array", "from_tuple", "fromkeys",
        ),
        MAKES,
    ),
}  # fmt: skip
# There, too, and not called here.
NOT_CALLED = {
    **dict.fromkeys(("map", "map_iter", "share_memory_"), PROCESSES),
    "cuda": "needs a GPU",
    "pin_mem": "needs a GPU",
    "load": "called with memmap",
    "load_": "called with memmap",
    "load_memmap": "called with memmap",
    "load_memmap_": "called with memmap",
    "from_list": "has cases of its own below",
    "summary": "text for people",
    "to_h5": "writes a file",
    "to_parquet": "writes a file",
}

# What follows the name, where it is not `()`: x is the object, other another one of its class, array makes one.
CALLS: dict[str, str] = {
    **dict.fromkeys(
        (
            "add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_", "pow", "pow_", "rsub",
            "bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or", "logical_xor",
            "clamp_max", "clamp_max_", "clamp_min", "clamp_min_", "maximum", "maximum_", "minimum", "minimum_",
            "allclose", "isclose",
        ),
        "(other)",
    ),
    **dict.fromkeys(("addcdiv", "addcdiv_", "addcmul", "addcmul_"), "(other, other)"),
    **dict.fromkeys(("lerp", "lerp_"), "(other, 0.5)"),
    **dict.fromkeys(("cummax", "cummin", "logsumexp", "softmax", "quantile"), "(0)"),
    **dict.fromkeys(("masked_fill", "masked_fill_"), "(array([True, False, True]), 0)"),
    **dict.fromkeys(("new_empty", "new_ones", "new_zeros"), "(2)"),
    **dict.fromkeys(("copy_", "update", "update_"), "(other)"),
    **dict.fromkeys(("cat", "stack", "lazy_stack", "maybe_dense_stack"), "([x, other])"),
    **dict.fromkeys(("del_", "pop", "entry_class", "get_item_shape", "get_non_tensor"), "('zz')"),
    **dict.fromkeys(("exclude", "is_non_tensor"), "('zz')"),
    **dict.fromkeys(("transpose", "swapaxes", "swapdims"), "(0, 0)"),
    **dict.fromkeys(("movedim", "moveaxis"), "(0, 0)"),
    **dict.fromkeys(("memmap", "memmap_", "memmap_like", "save", "dumps"), "(folder)"),
    "apply": "(lambda v: v)",
    "apply_": "(lambda v: v)",
    "broadcast_to": "((2, 3))",
    "cat_from_tensordict": "(dim=0)",
    "cat_tensors": "('a', out_key='b')",
    "chunk": "(2)",
    "clamp": "(0, 1)",
    "copy_at_": "(other, slice(None))",
    "create_nested": "(0)",
    "expand": "(3)",
    "expand_as": "(x)",
    "fill_": "('zz', 1)",
    "flip": "(0)",
    "gather": "(0, array([0, 0]))",
    "get": "('zz', 7)",
    "get_at": "('zz', 0, 7)",
    "isin": "(other, 'zz')",
    "load_state_dict": "(x.state_dict())",
    "masked_select": "(array([True, False, True]))",
    "named_apply": "(lambda n, v: v)",
    "narrow": "(0, 1, 2)",
    "new_full": "(2, 0)",
    "new_tensor": "(array([0.0, 0.0, 0.0]))",
    "pad": "([0, 0])",
    "permute": "(0)",
    "popitem": "()",
    "refine_names": "('t')",
    "rename": "('t')",
    "rename_": "('t')",
    "rename_key_": "('zz', 'y')",
    "repeat": "(2)",
    "repeat_interleave": "(2)",
    "replace": "({})",
    "reshape": "(3, 1)",
    "roll": "(0, 0)",
    "rot90": "()",
    "select": "('zz')",
    "separates": "()",
    "set": "('data', other.tolist()[0])",
    "set_": "('zz', 1)",
    "set_at_": "('zz', 1, 0)",
    "set_non_tensor": "(0, 1)",
    "setdefault": "(0, 1)",
    "split": "(2)",
    "split_keys": "()",
    "stack_from_tensordict": "()",
    "stack_tensors": "('a', out_key='b')",
    "tensor_split": "(2)",
    "tile": "((2,))",
    "to": "('cpu')",
    "type": "(float32)",
    "unbind": "(0)",
    "unflatten": "(0, (3, 1))",
    "unsqueeze": "(-1)",
    "update_at_": "(other, slice(None))",
    "view": "(3)",
    "where": "(array([True, True, True]), other)",
}  # fmt: skip

KEPT = "objects take no part"
OF_OBJECTS = "the objects are the data"
# What comes out otherwise, for (class, name) or (None, name), and why; each is checked to be so.
OTHERWISE: dict[tuple[str | None, str], str] = {}


def side(library: Any) -> dict[str, Any]:
    mine = library is lite
    return {
        "lib": library,
        "array": np.array if mine else torch.tensor,
        "float32": np.float32 if mine else torch.float32,
    }


def make(library: Any, cls: str, values: str = "abc") -> Any:
    if cls == "NonTensorStack":
        return library.NonTensorStack(*values)
    return getattr(library, cls)(values[0], batch_size=[3])


def outcome(library: Any, cls: str, text: str, folder: str) -> Any:
    """What an expression gives, in one form for both libraries; or the error."""
    scope = side(library) | {"x": make(library, cls), "other": make(library, cls, "xyz"), "folder": folder}
    try:
        value = eval(text, scope)
        found = plain(value() if text.count("(") == 0 and callable(value) else value)
    except Exception as error:
        return error
    return found, plain(scope["x"])


def plain(value: Any) -> Any:
    if lite.is_non_tensor(value) or tensordict.is_non_tensor(value):
        return type(value).__name__, value.tolist(), tuple(value.batch_size), list(value.names)
    if isinstance(value, torch.Tensor | np.ndarray):
        return np.asarray(value).tolist()
    if lite.is_tensor_collection(value) or tensordict.is_tensor_collection(value):
        return "TensorDict", [str(key) for key in value.keys()], tuple(value.batch_size)  # noqa: SIM118
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, dict):
        return dict(value)
    if value is None or isinstance(value, str | int | float):
        return value
    return list(value)


def names(cls: str) -> list[str]:
    return sorted(name for name in dir(getattr(tensordict, cls)) if not name.startswith("_"))


def listed() -> list[tuple[str, str]]:
    skipped = {*LEFT_OUT, *NOT_CALLED, *REFUSED}
    return [(cls, name) for cls in CLASSES for name in names(cls) if name not in skipped]


@pytest.mark.parametrize("cls", CLASSES)
def test_every_name_is_there_or_has_its_reason(cls):
    missing = {name for name in names(cls) if not hasattr(make(lite, cls, "aaa"), name)}
    assert missing - set(LEFT_OUT) == set()
    there = {name for name in LEFT_OUT if hasattr(getattr(lite, cls), name)}
    assert there - {"from_list"} == set()


@pytest.mark.parametrize(("cls", "name"), listed())
def test_the_name_does_the_same(cls, name, tmp_path):
    text = f"x.{name}{CALLS.get(name, '')}"
    theirs = outcome(tensordict, cls, text, str(tmp_path / "theirs"))
    ours = outcome(lite, cls, text, str(tmp_path / "ours"))
    if isinstance(ours, Exception) and isinstance(theirs, Exception):
        return
    otherwise = OTHERWISE.get((cls, name)) or OTHERWISE.get((None, name))
    if isinstance(theirs, Exception) and "Tensor list must have at least one" in str(theirs):
        assert not isinstance(ours, Exception), text  # arithmetic: objects take no part
    elif otherwise is None:
        assert ours == theirs, (text, ours, theirs)
    else:
        assert repr(ours) != repr(theirs), f"{text} is the same: {otherwise}"
