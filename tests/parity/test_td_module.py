"""TensorDictModule, dispatch and skip_existing against tensordict.nn.

Every case is written once and run with both libraries; what it returns, or the class of what it
raises, must be equal. Where lite differs on purpose, a test says so.
"""

import numpy as np
import pytest
import tensordict
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import nn as reference

import lite
from lite import nn

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


class Lib:
    """The names that differ between the two libraries."""

    def __init__(self, td, tdnn, array, linear):
        self.TD = td
        self.nn = tdnn
        self.array = array
        self.linear = linear

    def arange(self, n):
        return self.array(np.arange(n, dtype=np.float32))


LITE = Lib(lite.TensorDict, nn, lambda a: a, nn.Linear)
TORCH = Lib(tensordict.TensorDict, reference, torch.from_numpy, torch.nn.Linear)
LIBS = (LITE, TORCH)


def plain(value):
    """Arrays, tensors, TensorDicts and keys as comparable Python values."""
    if isinstance(value, tuple | list):
        return type(value)(plain(v) for v in value)
    if isinstance(value, lite.TensorDict | tensordict.TensorDict):
        entries = {key: plain(value[key]) for key in sorted(value.keys(True, True), key=str)}
        return tuple(value.batch_size), entries
    if isinstance(value, np.ndarray | np.generic | torch.Tensor):
        array = np.asarray(value)
        return str(array.dtype), array.shape, array.tolist()
    return value


def agree(case, *args):
    results = []
    for lib in LIBS:
        try:
            results.append(plain(case(lib, *args)))
        except Exception as err:
            results.append(type(err))
    assert results[0] == results[1]


def module(lib, fn, reads, writes, **kwargs):
    return lib.nn.TensorDictModule(fn, reads, writes, **kwargs)


# -- keys and construction ------------------------------------------------------------------------

KEYS = [
    "a",
    ("a",),
    ["a"],
    ("a", "b"),
    ["a", ("b", "c")],
    [("a", ("b", ("c",)))],
    [],
    "",
    ("", "x"),
    None,
    3,
    {"a"},
    [1],
    [None],
    [["a"]],
]


@pytest.mark.parametrize("keys", KEYS, ids=repr)
def test_key_forms(keys):
    agree(lambda lib: module(lib, lambda x: x, keys, ["out"]).in_keys)
    agree(lambda lib: module(lib, lambda x: x, ["in"], keys).out_keys)


CONSTRUCTION = {
    "class payload": lambda lib: module(lib, lib.linear, ["a"], ["b"]),
    "number payload": lambda lib: module(lib, 3, ["a"], ["b"]),
    "inplace word": lambda lib: module(lib, abs, ["a"], ["b"], inplace="full"),
    "dict out_keys": lambda lib: module(lib, abs, ["a"], {"b": "c"}),
    "state dict names": lambda lib: list(module(lib, lib.linear(1, 1), ["a"], ["b"]).state_dict()),
    "children of a function": lambda lib: list(module(lib, abs, ["a"], ["b"]).children()),
    "forwarded attribute": lambda lib: module(lib, lib.linear(2, 3), ["a"], ["b"]).in_features,
    "private attribute": lambda lib: module(lib, lib.linear(2, 3), ["a"], ["b"])._nope,
    "missing attribute": lambda lib: module(lib, lib.linear(2, 3), ["a"], ["b"]).nope,
    "base without keys": lambda lib: lib.nn.TensorDictModuleBase().in_keys,
    "name": lambda lib: module(lib, abs, ["a"], ["b"]).__name__,
    "repr": lambda lib: repr(module(lib, lib.linear(2, 3), ["a", ("b", "c")], ["d"])),
}


@pytest.mark.parametrize("name", CONSTRUCTION)
def test_construction(name):
    agree(CONSTRUCTION[name])


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("keys", [{"x": "1", "y": "2"}, {"1": "x", "2": "y"}])
def test_dict_in_keys_with_the_flag(flag, keys):
    def case(lib):
        mod = module(lib, lambda x, *, y: x - y, keys, ["z"], out_to_in_map=flag)
        return mod.in_keys, mod(lib.TD({"1": 5.0, "2": 3.0}))["z"]

    agree(case)


# -- results --------------------------------------------------------------------------------------

RESULTS = {
    "array": lambda lib: lib.arange(3),
    "tuple": lambda lib: (lib.arange(3), lib.arange(2)),
    "one-tuple": lambda lib: (lib.arange(3),),
    "none": lambda lib: None,
    "number": lambda lib: 1.5,
    "int": lambda lib: 2,
    "list": lambda lib: [1, 2],
    "str": lambda lib: "text",
    "dict": lambda lib: {"p": lib.arange(2), "q": lib.arange(3)},
    "dict of one": lambda lib: {"p": lib.arange(2)},
    "dict with a path": lambda lib: {("n", "p"): lib.arange(2)},
    "nested dict": lambda lib: {"n": {"p": lib.arange(2)}},
    "td": lambda lib: lib.TD({"p": lib.arange(2), "q": lib.arange(3)}),
    "nested td": lambda lib: lib.TD({"n": {"p": lib.arange(2)}}),
}
OUT_KEYS = [[], ["p"], ["q", "p"], ["_"], ["_", "p"], [("n", "p")], ["n"], ["p", "p"]]


@pytest.mark.parametrize("out_keys", OUT_KEYS, ids=repr)
@pytest.mark.parametrize("result", RESULTS)
def test_results(result, out_keys):
    def case(lib):
        return module(lib, lambda: RESULTS[result](lib), [], out_keys)(lib.TD({}))

    agree(case)


@pytest.mark.parametrize("inplace", [True, False, None, "empty"])
@pytest.mark.parametrize("with_out", [True, False])
@pytest.mark.parametrize("batch", [[], [3]])
def test_where_results_go(inplace, with_out, batch):
    def case(lib):
        td = lib.TD({"a": lib.arange(3)}, batch)
        target = lib.TD({"mine": lib.arange(3)}, batch) if with_out else None
        mod = module(lib, lambda x: x + 1, ["a"], ["b"], inplace=inplace)
        out = mod(td, tensordict_out=target) if with_out else mod(td)
        return out, td, out is td, out is target

    agree(case)


CALLS = {
    "missing input": lambda lib: module(lib, lambda x: x + 1, ["z"], ["b"])(lib.TD({})),
    "missing input, strict": lambda lib: module(lib, abs, ["z"], ["b"], strict=True)(lib.TD({})),
    "missing input, ignored": lambda lib: module(lib, lambda x: 1.0, ["z"], ["b"])(lib.TD({})),
    "missing nested input": lambda lib: module(lib, lambda x: x + 1, [("n", "z")], ["b"])(lib.TD({"n": {}})),
    "payload raises": lambda lib: module(lib, lambda x: 1 / 0, ["a"], ["b"])(lib.TD({"a": 1.0})),
    "extra positional": lambda lib: module(lib, abs, ["a"], ["b"])(lib.TD({"a": 1.0}), 3),
    "extra keyword": lambda lib: module(lib, lambda x, k: x + k, ["a"], ["b"])(lib.TD({"a": 1.0}), k=2),
    "unknown keyword": lambda lib: module(lib, lambda x: x, ["a"], ["b"])(lib.TD({"a": 1.0}), k=2),
    "batch mismatch": lambda lib: module(lib, lambda x: x[:2], ["a"], ["b"])(
        lib.TD({"a": lib.arange(3)}, [3])
    ),
    "locked": lambda lib: module(lib, lambda x: x, ["a"], ["b"])(lib.TD({"a": 1.0}).lock_()),
    "non-tensor": lambda lib: module(lib, lambda s: s + "!", ["s"], ["t"])(lib.TD({"s": "x"}))["t"],
    "method": lambda lib: module(lib, "a-b", [], ["t"], method="split", method_kwargs={"sep": "-"})(
        lib.TD({})
    )["t"],
    "missing method": lambda lib: module(lib, "a", [], ["t"], method="nope")(lib.TD({})),
    "path through an array": lambda lib: module(lib, abs, ["a"], [("a", "b")])(lib.TD({"a": 1.0})),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    agree(CALLS[name])


# -- selection ------------------------------------------------------------------------------------

selections = st.lists(
    st.lists(st.sampled_from(["c", "d", ("n", "e"), ("n", ("e",)), "z"]), max_size=3).map(tuple), max_size=3
)


@settings(max_examples=80)
@given(selections=selections, dispatched=st.booleans(), reset=st.booleans())
def test_selection(selections, dispatched, reset):
    def case(lib):
        mod = module(lib, lambda a, b: (a + 1, a + b, b), ["a", "b"], ["c", "d", ("n", "e")])
        for keys in selections:
            mod.select_out_keys(*keys)
        if reset:
            mod.reset_out_keys()
        values = {"a": lib.arange(2), "b": lib.arange(2)}
        if dispatched:
            return mod.out_keys, mod(**values)
        return mod.out_keys, mod(lib.TD({**values, "other": lib.arange(2)}))

    agree(case)


def test_selection_with_class_keys():
    def case(lib):
        class Mod(lib.nn.TensorDictModuleBase):
            in_keys = ["a"]  # noqa: RUF012
            out_keys = ["b", "c"]  # noqa: RUF012

            def forward(self, tensordict):
                return tensordict.replace({"b": tensordict["a"], "c": tensordict["a"] + 1})

        out = []
        for mod in (Mod(), Mod()):
            mod.select_out_keys("c")
            out += [mod(lib.TD({"a": 0.0})), mod.out_keys]
        return out

    agree(case)


# -- dispatch -------------------------------------------------------------------------------------


def dispatching(lib, **options):
    class Mod(lib.nn.TensorDictModuleBase):
        in_keys = [("a", "c"), "d"]  # noqa: RUF012
        out_keys = ["b", "size"]  # noqa: RUF012

        @lib.nn.dispatch(**options)
        def forward(self, tensordict, extra=0):
            tensordict["b"] = tensordict["a", "c"] + tensordict["d"] + extra
            tensordict["size"] = lib.array(np.ones((*tensordict.batch_size,), dtype=np.float32))
            return tensordict

    return Mod()


DISPATCH = {
    "keywords": lambda lib: dispatching(lib)(a_c=lib.arange(3), d=lib.arange(3)),
    "positions": lambda lib: dispatching(lib)(lib.arange(3), lib.arange(3)),
    "mixed": lambda lib: dispatching(lib)(lib.arange(3), d=lib.arange(3)),
    "extra": lambda lib: dispatching(lib)(lib.arange(3), lib.arange(3), 1),
    "extra keyword": lambda lib: dispatching(lib)(lib.arange(3), lib.arange(3), extra=1),
    "unknown keyword": lambda lib: dispatching(lib)(lib.arange(3), lib.arange(3), nope=1),
    "duplicate": lambda lib: dispatching(lib)(lib.arange(3), lib.arange(3), a_c=lib.arange(3)),
    "missing": lambda lib: dispatching(lib)(lib.arange(3)),
    "numbers": lambda lib: dispatching(lib)(1.0, 2.0),
    "separator": lambda lib: dispatching(lib, separator="sep")(asepc=lib.arange(3), d=lib.arange(3)),
    "no batch": lambda lib: dispatching(lib, auto_batch_size=False)(lib.arange(3), lib.arange(3)),
    "dest": lambda lib: dispatching(lib, dest=["d", ("a", "c")])(lib.arange(3), lib.arange(3)),
    "absent dest": lambda lib: dispatching(lib, dest=["nope"])(lib.arange(3), lib.arange(3)),
    "no dest": lambda lib: dispatching(lib, dest=[])(lib.arange(3), lib.arange(3)),
    "source": lambda lib: dispatching(lib, source=["d", ("a", "c")])(d=lib.arange(3), a_c=lib.arange(3)),
    "argument name": lambda lib: lib.nn.dispatch(lambda td: td),
    "function without keys": lambda lib: lib.nn.dispatch(lambda tensordict: tensordict)(a=1),
    "module": lambda lib: module(lib, lambda x: (x, x + 1), ["x"], ["y", "z"])(x=lib.arange(3)),
    "module, number": lambda lib: module(lib, lambda x: x, ["x"], ["y"])(1.5),
    "module, output of another size": lambda lib: module(lib, lambda x: x[:1], ["x"], ["y"])(x=lib.arange(3)),
    "module, str": lambda lib: module(lib, lambda s: s + "!", ["s"], ["t"])("a"),
}


@pytest.mark.parametrize("name", DISPATCH)
def test_dispatch(name):
    agree(DISPATCH[name])


# -- skip_existing --------------------------------------------------------------------------------


@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize("present", [(), ("y",), ("y", "z")])
@pytest.mark.parametrize("reads", [["x"], ["x", "y"]])
@pytest.mark.parametrize("sequence", [True, False])
def test_skip_existing(active, present, reads, sequence):
    def case(lib):
        calls = []

        def fn(*values):
            calls.append(len(values))
            return values[0] + 1, values[0] + 2

        mod = module(lib, fn, reads, ["y", "z"])
        if sequence:
            mod = lib.nn.TensorDictSequential(mod)
        td = lib.TD({"x": 0.0, **dict.fromkeys(present, 10.0)})
        with lib.nn.set_skip_existing(active):
            out = mod(td)
            flag = lib.nn.skip_existing()
        return out, out is td, calls, flag, lib.nn.skip_existing()

    agree(case)


def test_skip_existing_without_mode_is_no_context():
    def case(lib):
        with lib.nn.set_skip_existing(None):
            pass

    agree(case)


# -- deliberate differences -----------------------------------------------------------------------


def test_dict_in_keys_without_the_flag_follow_the_seed_direction():
    def case(lib):
        return module(lib, lambda x, *, y: x + y, {"1": "x", "2": "y"}, ["z"])(lib.TD({"1": 1.0, "2": 2.0}))[
            "z"
        ]

    assert case(LITE) == 3
    with pytest.raises(TypeError):
        case(TORCH)


def test_underscore_does_not_break_dispatch():
    def case(lib):
        return module(lib, lambda x: (x, x + 1), ["x"], ["_", "y"])(x=lib.arange(2))

    np.testing.assert_array_equal(case(LITE), [1, 2])
    with pytest.raises(KeyError):
        case(TORCH)


def test_decorated_methods_use_their_own_object():
    def case(lib):
        class Adder:
            def __init__(self, n):
                self.n = n

            @lib.nn.as_tensordict_module(in_keys="a", out_keys="b")
            def add(self, a):
                return a + self.n

        return [float(Adder(n).add(lib.TD({"a": 0.0}))["b"]) for n in (1, 100)]

    assert case(LITE) == [1, 100]
    assert case(TORCH) == [1, 1]
