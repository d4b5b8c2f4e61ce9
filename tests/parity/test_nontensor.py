"""Every public name of tensordict's non-tensor classes, called on both sides or in a table with the reason.

The names are the methods of TensorDicts, so what each does to an entry is tested elsewhere.
"""

import pickle
import re

import numpy as np
import pytest
import tensordict
import torch
from helpers.cases import each_case
from parity.outcomes import MENDED
from parity.test_signatures import LEGACY, REFUSED

import lite

pytestmark = pytest.mark.filterwarnings("ignore")

CLASSES = ("NonTensorData", "MetaData", "NonTensorStack")

ENTRIES = "non-tensor data has no entries to name"
MAKES = "makes a TensorDict, whose class has it"
PROCESSES = "runs in other processes; tests/tree/test_object_methods.py calls it"

# Names that lite does not have.
LEFT_OUT = {
    **dict.fromkeys(("lock", "unlock", "rename_key", "valid_keys"), LEGACY),
    **dict.fromkeys(("fields", "from_tensordict"), "the dataclass behind is an implementation"),
    **dict.fromkeys(("make_memmap", "make_memmap_from_tensor", "memmap_refresh_"), ENTRIES),
    "auto_batch_size_": ENTRIES,
    **dict.fromkeys(("to_module", "from_module", "from_modules"), "parameters of a module are entries"),
    **dict.fromkeys(("append", "insert", "extend"), "raise for every object there"),
    **dict.fromkeys(("hook_in", "hook_out") if MENDED else (), "of torch's stacks"),
    **dict.fromkeys(
        (
            "from_any", "from_consolidated", "from_csv", "from_dataclass", "from_dict", "from_dict_instance",
            "from_h5", "from_json", "from_namedtuple", "from_pandas", "from_parquet", "from_pytree",
            "from_schema", "from_struct_array", "from_tuple", "fromkeys",
        ),
        MAKES,
    ),
}  # fmt: skip
# There, too, and not called here.
NOT_CALLED = {
    **dict.fromkeys(("map", "map_iter", "share_memory_"), PROCESSES), "cuda": "needs a GPU",
    "load": "called with memmap", "load_": "called with memmap", "load_memmap": "called with memmap",
    "load_memmap_": "called with memmap",
    "from_list": "has cases below; on a NonTensorData it makes a TensorDict", "to_h5": "writes a file",
    "to_csv": "writes a file", "to_json": "writes a file", "to_parquet": "writes a file",
}  # fmt: skip

# What follows the name, where it is not `()`: x is the object, other another one of its class.
CALLS = {
    **dict.fromkeys(
        (
            "add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_", "pow", "pow_", "rsub",
            "bitwise_and", "logical_and",
            "clamp_max", "clamp_max_", "clamp_min", "clamp_min_", "maximum", "maximum_", "minimum",
            "minimum_",
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
    "create_nested": "(0)", "expand": "(3)", "expand_as": "(x)", "fill_": "('zz', 1)", "flip": "(0)",
    "gather": "(0, array([0, 0]))", "get": "('zz', 7)", "get_at": "('zz', 0, 7)",
    "load_state_dict": "(x.state_dict())",
    "masked_select": "(array([True, False, True]))",
    "named_apply": "(lambda n, v: v)",
    "narrow": "(0, 1, 2)",
    "new_full": "(2, 0)",
    "new_tensor": "(array([0.0, 0.0, 0.0]))",
    "pad": "([0, 0])", "permute": "(0)", "popitem": "()", "refine_names": "('t')", "rename": "('t')",
    "rename_": "('t')", "rename_key_": "('zz', 'y')", "repeat": "(2)", "repeat_interleave": "(2)",
    "replace": "({})", "reshape": "(3, 1)", "roll": "(0, 0)", "rot90": "()", "select": "('zz')",
    "separates": "()",
    "set": "('data', other.tolist()[0])",
    "set_": "('zz', 1)", "set_at_": "('zz', 1, 0)", "set_non_tensor": "(0, 1)", "setdefault": "(0, 1)",
    "split": "(2)", "split_keys": "()", "stack_from_tensordict": "()",
    "stack_tensors": "('a', out_key='b')",
    "tensor_split": "(2)", "tile": "((2,))", "to": "('cpu')", "type": "(float32)", "unbind": "(0)",
    "unflatten": "(0, (3, 1))", "unsqueeze": "(-1)",
    "update_at_": "(other, slice(None))",
    "view": "(3)",
    "where": "(array([True, True, True]), other)",
}  # fmt: skip

OBJECTS_LOST = "an empty TensorDict, or one object for all, comes out there: the objects are lost"
ENDLESS = "never ends there: iteration over one object for a batch does not"
COLUMN = "a column of the objects, instead of nothing"
# What comes out otherwise, for (class, name) or (None, name), and why; each is checked to be so.
OTHERWISE = {
    **{
        ("NonTensorStack", name): OBJECTS_LOST
        for name in ("broadcast_to", "flip", "flipud", "gather", "masked_select", "narrow", "roll", "tile")
    },
    **{(cls, "where"): OBJECTS_LOST for cls in ("NonTensorData", "MetaData")},
    **{
        (cls, name): ENDLESS
        for cls in ("NonTensorData", "MetaData")
        for name in ("cat", "stack", "lazy_stack", "maybe_dense_stack")
    },
    **dict.fromkeys([(None, name) for name in ("to_namedtuple", "to_pandas", "to_struct_array")], COLUMN),
    **dict.fromkeys(
        [(cls, "is_meta") for cls in ("NonTensorData", "MetaData") if not MENDED], "an internal error there"
    ),
    (None, "grad"): "objects have no gradients; an internal error there, and stacks are their own gradient",
    **dict.fromkeys([(cls, "numpy") for cls in ("NonTensorData", "MetaData")], "the object is lost there"),
    **{
        (cls, name): "None there"
        for cls in ("NonTensorData", "MetaData")
        for name in ("bitwise_and", "logical_and")
    },
    ("NonTensorStack", "expand_as"): "None there",
    ("NonTensorStack", "is_contiguous"): "False there, of what has no arrays",
    ("NonTensorData", "unsqueeze"): "one object for the whole batch stays one",
    ("NonTensorData", "to_lazystack"): "a stack has an object per element",
    (None, "get_non_tensor"): "None for a missing key, as on TensorDict",
    (None, "data_ptr"): "an empty TensorDict there",
    (None, "non_tensor_items"): "attributes of the class behind, there",
}


# Nothing is left of one object per element by these, as of an entry.
GONE = (
    "sum", "nansum", "prod", "mean", "nanmean", "std", "var", "amax", "amin", "max", "min", "norm",
    "quantile", "logsumexp", "argmax", "argmin",
)  # fmt: skip


def side(library):
    mine = library is lite
    return {
        "lib": library,
        "array": np.array if mine else torch.tensor,
        "float32": np.float32 if mine else torch.float32,
    }


def make(library, cls, values="abc"):
    if cls == "NonTensorStack":
        return library.NonTensorStack(*values)
    return getattr(library, cls)(values[0], batch_size=[3])


def outcome(library, cls, text, folder):
    """What an expression gives, in one form for both libraries; or the error."""
    scope = side(library) | {"x": make(library, cls), "other": make(library, cls, "xyz"), "folder": folder}
    try:
        value = eval(text, scope)
        found = plain(value() if text.count("(") == 0 and callable(value) else value)
    except Exception as error:
        return error
    return found, plain(scope["x"])


def plain(value):
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


def names(cls):
    return sorted(name for name in dir(getattr(tensordict, cls)) if not name.startswith("_"))


def listed():
    skipped = {*LEFT_OUT, *NOT_CALLED, *REFUSED}
    return [(cls, name) for cls in CLASSES for name in names(cls) if name not in skipped]


@each_case("cls", CLASSES)
def test_every_name_is_there_or_has_its_reason(cls):
    missing = {name for name in names(cls) if not hasattr(getattr(lite, cls), name)}
    left_out = {*LEFT_OUT, *(() if cls == "NonTensorStack" else ("from_list",))}
    assert missing - {*left_out, *REFUSED} == set()
    assert not {name for name in left_out if hasattr(getattr(lite, cls), name)}
    assert set(NOT_CALLED) | set(CALLS) <= {name for cls in CLASSES for name in names(cls)}


@each_case(("cls", "name"), listed())
def test_the_name_does_the_same(cls, name, tmp_path):
    text = f"x.{name}{CALLS.get(name, '')}"
    otherwise = OTHERWISE.get((cls, name)) or OTHERWISE.get((None, name))
    ours = outcome(lite, cls, text, str(tmp_path / "ours"))
    if otherwise == ENDLESS:
        assert not isinstance(ours, Exception), text
        return
    theirs = outcome(tensordict, cls, text, str(tmp_path / "theirs"))
    if isinstance(ours, Exception) and isinstance(theirs, Exception):
        return
    if isinstance(theirs, RecursionError) or "Tensor list must have at least one" in str(theirs):
        # The rows of lite/DIFFERENCES.md: objects take no part, and nothing is left where a dim goes.
        stays = plain(make(lite, cls))
        gone = name in GONE and cls == "NonTensorStack"
        result = ours[0]
        assert result[1] == [] if gone else stays in (result, *result) or name == "norm", (text, ours)
    elif otherwise is None:
        assert ours == theirs, (text, ours, theirs)
    else:
        assert repr(ours) != repr(theirs), f"{text} is the same: {otherwise}"


# -- more than one call each ------------------------------------------------------------------------

MORE = (
    "lib.NonTensorStack.from_list([['a', lib.NonTensorData('f')]])",
    "lib.NonTensorStack.from_list(['a', lib.MetaData('f')])",
    "lib.NonTensorStack.from_list([lib.NonTensorStack('a', 'b'), ['c', lib.NonTensorData('d')]])",
    "lib.NonTensorStack.from_list([lib.NonTensorData('f', batch_size=[2]), ['c', 'd']])",
    "lib.NonTensorStack.from_list([lib.NonTensorData(['f'])])",
    "lib.NonTensorStack.from_list([{'k': 1}, None])",
    "lib.NonTensorStack.from_list([['a', lib.NonTensorData('f')], ['b']]).tolist()",
    "lib.NonTensorStack.from_list([[['a'], ['b']], [['c'], [lib.NonTensorData('d')]]])",
    "lib.NonTensorStack.from_list(('a', 'b'))",
    "lib.NonTensorStack.from_list([]).tolist()",
    "lib.NonTensorStack('a', lib.NonTensorData('f'))",
    "lib.NonTensorStack(lib.NonTensorStack('a', 'b'), lib.NonTensorStack('c', 'd'), stack_dim=1)",
    "lib.NonTensorStack(['a'], ['b'])",
    "lib.NonTensorStack('a', 'b', stack_dim_name='t')",
    "lib.NonTensorStack('a', 'b', batch_size=[2])",
    "lib.NonTensorStack('a', 'b', batch_size=[3])",
    "lib.NonTensorStack(batch_size=[3]).batch_size",
    "lib.NonTensorStack().tolist()",
    "lib.NonTensorStack().batch_size",
    "lib.NonTensorStack('a', lib.TensorDict())",
    "lib.NonTensorStack(lib.NonTensorStack('a', 'b'), 'c')",
    "lib.NonTensorStack.from_nontensordata(lib.NonTensorData('a', batch_size=[2, 3]))",
    "lib.NonTensorStack.from_nontensordata(lib.NonTensorData('a'))",
    "lib.TensorDict({'s': ['a', lib.NonTensorData('f')]}, [2])['s']",
    "lib.TensorDict({'s': [['a'], [lib.NonTensorData('f')]]}, [2]).to_dict()",
    "lib.NonTensorData(lib.NonTensorData('x', batch_size=[3]))",
    "lib.NonTensorData(lib.NonTensorStack('x', 'x'))",
    "lib.NonTensorData(lib.NonTensorStack('x', 'y'))",
    "lib.NonTensorData('x', batch_size=[3], names=['t'])",
    "lib.NonTensorData('x', batch_size=[3], names=['t']).unsqueeze(0).names",
    "lib.NonTensorData('x', batch_size=[3], device='cpu').device",
    "lib.NonTensorData('x', batch_size=[3]).to('cpu').reshape(1, 3).device",
    "x.to('cpu')[0].device",
    "x.empty(batch_size=[2]).batch_size if cls != 'NonTensorStack' else 0",
    "x.cpu().device",
    "(x.lock_().is_locked, x.unlock_().is_locked)",
    "x.lock_().update(other)",
    *(() if MENDED else ("x.lock_().update_(other)",)),  # which 0.15 refuses
    "x.lock_().clone().is_locked",
    "x.update(lib.NonTensorData('z'))",
    "x.update_(lib.NonTensorData('z', batch_size=[3]))",
    "x.update(lib.NonTensorStack('p', 'q', 'r'))",
    "x.update_(lib.NonTensorStack('p', 'q', 'r'))",
    "x.update(lib.NonTensorStack('p', 'q'))",
    "x.update({'data': 'y'})",
    "x.update(lib.TensorDict())if cls != 'NonTensorStack' else 0",
    "x.update(data='y')",
    "x.update(None)",
    "x.update_at_(other, 0)",
    "x.set('zz', 1)",
    "x.get('data') if cls != 'NonTensorStack' else 0",
    "x.maybe_to_stack()", "x.state_dict()", "x[1]", "x[1:]", "x[[0, 2]]", "x[array([True, False, True])]",
    "x[5] if cls == 'NonTensorStack' else 0",
    "x[0, 0] if cls == 'NonTensorStack' else 0",
    "x['zz']", "bool(x)", "len(x)", "x == x", "x != x", "x == other", "x == 'a'", "x | x", "x ^ x", "x + 1",
    "1 + x", "x * other", "hash(x)", "list(x.keys())", "list(x.items(True, True))", "dict(x.items())",
    "x.to_dict()", "x.tolist(as_linked_list=True)", "x.expand(2, 3).batch_size",
    "x.reshape(3, 1).permute(1, 0)", "x.unsqueeze(0).batch_size", "x.pad([0])", "lib.stack([x, other])",
    "lib.cat([x, x])",
    "lib.is_non_tensor(x), lib.is_tensor_collection(x)",
    "pickle.loads(pickle.dumps(x))",
    "x.memmap(folder) and lib.TensorDict.load_memmap(folder).tolist()",
    "x.memmap(folder).is_memmap()",
    "x.memmap_(folder) and x.is_locked",
    "type(x).load_memmap(x.memmap(folder) and folder).tolist()",
    "x.load_memmap_(other.memmap(folder) and folder)",
    "x.batch_size",
    "setattr(x, 'batch_size', [5]) or x.batch_size",
    "setattr(x, 'names', ['t']) or x.names",
    "setattr(x, 'names', ['t']) or x[:2].names if cls != 'NonTensorStack' else 0",
    # metadata
    "lib.MetaData[int](3)",
    "lib.MetaData[int]('a')",
    "lib.MetaData[int | str]('a')",
    "lib.MetaData[int | str](2.0)",
    "lib.MetaData[int] is lib.MetaData[int]",
    "lib.MetaData[int][str]",
    "lib.MetaData[int](True)",
    "lib.MetaData['int'](3)",
    "lib.MetaData[int](lib.NonTensorData(3))",
    "lib.MetaData[int](lib.MetaData('a'))",
    "isinstance(lib.MetaData[int](3), lib.MetaData)",
    "lib.MetaData[int](3, batch_size=[2])[0]",
    "lib.MetaData[int](3, batch_size=[2]).reshape(1, 2)",
    "lib.MetaData[int](3).clone()",
    "lib.MetaData[int](3).update(lib.NonTensorData('a'))",
    "pickle.loads(pickle.dumps(lib.MetaData[int](3, batch_size=[2])))",
    "type(pickle.loads(pickle.dumps(lib.MetaData[int](3)))) is lib.MetaData[int]",
    "lib.TensorDict({'m': lib.MetaData[int](3)}, [2]).get('m')",
    "lib.TensorDict({'m': lib.MetaData(3)}, [2]).unsqueeze(0).get('m')",
    "lib.TensorDict({'m': lib.MetaData(3)}, [2]).expand(4, 2).get('m')",
    "lib.TensorDict({'m': lib.MetaData(3)}, [2]).pad([0, 1]).get('m')",
    "lib.lazy_stack([lib.TensorDict({'m': lib.MetaData(3)}) for _ in range(2)]).get('m')",
    "lib.TensorDict({'m': lib.MetaData(3)}, [2]).unbind(0)[0].get('m')",
    "repr(lib.MetaData[int](3)).split('(')[0]",
)  # fmt: skip
FUNCTIONS = {"lib.stack": "torch.stack", "lib.cat": "torch.cat"}


# Errors of another class: of the array library, or where the reference fails inside.
OTHER_ERRORS = {
    "x.update({'data': 'y'})", "x.update_at_(other, 0)", "x.set('zz', 1)",
    "x[0, 0] if cls == 'NonTensorStack' else 0", "x['zz']",
}  # fmt: skip


def more(library, cls, text, folder):
    if library is tensordict:
        for mine, theirs in FUNCTIONS.items():
            text = text.replace(mine, theirs)
    scope = side(library) | {"torch": torch, "pickle": pickle, "cls": cls, "folder": folder}
    scope |= {"x": make(library, cls), "other": make(library, cls, "xyz")}
    try:
        return plain(eval(text, scope)), plain(scope["x"])
    except Exception as error:
        return error


def uses_an_object(text):
    return re.search(r"\b(x|other|cls)\b", text) is not None


CALLED = [(cls, text) for text in MORE for cls in (CLASSES if uses_an_object(text) else CLASSES[:1])]


@each_case(("cls", "text"), CALLED)
def test_more(cls, text, tmp_path):
    theirs = more(tensordict, cls, text, str(tmp_path / "theirs"))
    ours = more(lite, cls, text, str(tmp_path / "ours"))
    if isinstance(ours, Exception) and isinstance(theirs, Exception):
        assert type(ours) is type(theirs) or text in OTHER_ERRORS, (ours, theirs)
        return
    assert not isinstance(ours, Exception), (text, ours, theirs)
    assert not isinstance(theirs, Exception), (text, ours, theirs)
    assert ours == theirs


# -- files and torch's objects ----------------------------------------------------------------------


def test_metadata_in_files_of_both(tmp_path):
    for writer in (lite, tensordict):
        at = tmp_path / writer.__name__
        writer.TensorDict({"m": writer.MetaData({"a": 1}), "n": "x"}, [2]).memmap(at)
        for reader in (lite, tensordict):
            read = reader.TensorDict.load_memmap(at)
            assert [type(read.get(key)).__name__ for key in ("m", "n")] == ["MetaData", "NonTensorData"]
            assert read.to_dict() == {"m": {"a": 1}, "n": "x"}
    typed = tmp_path / "typed"
    lite.TensorDict({"m": lite.MetaData[int](3)}, [2]).memmap(typed)
    assert type(tensordict.TensorDict.load_memmap(typed).get("m")) is tensordict.MetaData


def test_typed_metadata_that_the_reference_wrote_is_read(tmp_path):
    tensordict.TensorDict({"m": tensordict.MetaData[int](3)}, [2]).memmap(tmp_path)
    entry = lite.TensorDict.load_memmap(tmp_path).get("m")
    assert (type(entry), entry.data, entry.batch_size) == (lite.MetaData, 3, (2,))


@each_case("cls", CLASSES)
def test_files_of_non_tensor_data_alone(cls, tmp_path):
    for writer in (lite, tensordict):
        at = tmp_path / writer.__name__
        make(writer, cls).memmap(at)
        found = [reader.TensorDict.load_memmap(at) for reader in (lite, tensordict)]
        assert plain(found[0]) == plain(found[1])
        assert type(found[0]) is getattr(lite, cls)


def test_metadata_goes_to_torch_and_back():
    for entry in (lite.MetaData({"a": 1}), lite.MetaData[int](3)):
        written = lite.TensorDict({"m": entry}, [2]).to_torch()
        assert type(written.get("m")) is tensordict.MetaData
        back = lite.TensorDict.from_torch(written).get("m")
        assert (type(back), back.data, back.batch_size) == (lite.MetaData, entry.data, (2,))
    typed = tensordict.TensorDict({"m": tensordict.MetaData[int](3)}, [2])
    assert type(lite.TensorDict.from_torch(typed).get("m")) is lite.MetaData
