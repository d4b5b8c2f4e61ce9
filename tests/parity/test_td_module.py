"""TensorDictModule, dispatch and skip_existing against tensordict.nn."""

import copy
from collections import UserList
from typing import Any

import numpy as np
from helpers.cases import each_case, raises
from hypothesis import given, settings
from hypothesis import strategies as st
from parity.functional import LITE, QUIET, TORCH, agree, compared
from parity.outcomes import MENDED, outcome

pytestmark = QUIET


def module(lib, fn, reads, writes, **kwargs):
    return lib.Mod(fn, reads, writes, **kwargs)


# -- keys and construction ------------------------------------------------------------------------

KEYS = [
    "a", ("a",), ["a"], ("a", "b"), ["a", ("b", "c")], [("a", ("b", ("c",)))], [], "", ("", "x"), None, 3,
    {"a"}, [1], [None], [["a"]],
]  # fmt: skip


@each_case("keys", KEYS, ids=repr)
def test_key_forms(keys):
    agree(lambda lib: module(lib, lambda x: x, keys, ["out"]).in_keys)
    agree(lambda lib: module(lib, lambda x: x, ["in"], keys).out_keys)


CONSTRUCTION = {
    "class payload": lambda lib: module(lib, lib.nn.Linear, ["a"], ["b"]),
    "number payload": lambda lib: module(lib, 3, ["a"], ["b"]),
    "inplace word": lambda lib: module(lib, abs, ["a"], ["b"], inplace="full"),
    "dict out_keys": lambda lib: module(lib, abs, ["a"], {"b": "c"}),
    "state dict names": lambda lib: list(module(lib, lib.nn.Linear(1, 1), ["a"], ["b"]).state_dict()),
    "children of a function": lambda lib: list(module(lib, abs, ["a"], ["b"]).children()),
    "forwarded attribute": lambda lib: module(lib, lib.nn.Linear(2, 3), ["a"], ["b"]).in_features,
    "private attribute": lambda lib: module(lib, lib.nn.Linear(2, 3), ["a"], ["b"])._nope,
    "missing attribute": lambda lib: module(lib, lib.nn.Linear(2, 3), ["a"], ["b"]).nope,
    "base without keys": lambda lib: lib.tdnn.TensorDictModuleBase().in_keys,
    "name": lambda lib: module(lib, abs, ["a"], ["b"]).__name__,
    "keys in another sequence": lambda lib: (module(lib, abs, UserList(["a", ("b", "c")]),
        UserList("d")).in_keys),
    "deepcopy": lambda lib: (m := module(lib, lib.nn.Linear(1, 1), ["a"], ["b"]),
        copy.deepcopy(m).module is m.module, copy.deepcopy(m).in_keys)[1:],
    "repr of a function": lambda lib: repr(module(lib, abs, [("a", "b")], ["c"])),
    "repr": lambda lib: repr(module(lib, lib.nn.Linear(2, 3), ["a", ("b", "c")], ["d"])),
}  # fmt: skip


@each_case("name", CONSTRUCTION)
def test_construction(name):
    agree(CONSTRUCTION[name])


@each_case("flag", [True, False])
@each_case("keys", [{"x": "1", "y": "2"}, {"1": "x", "2": "y"}])
@compared
def test_dict_in_keys_with_the_flag(lib, flag, keys):
    mod = module(lib, lambda x, *, y: x - y, keys, ["z"], out_to_in_map=flag)
    return mod.in_keys, mod(lib.TD({"1": 5.0, "2": 3.0}))["z"]


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


@each_case("out_keys", OUT_KEYS, ids=repr)
@each_case("result", RESULTS)
@compared
def test_results(lib, result, out_keys):
    return module(lib, lambda: RESULTS[result](lib), [], out_keys)(lib.TD({}))


@each_case("inplace", [True, False, None, "empty"])
@each_case("with_out", [True, False])
@each_case("batch", [[], [3]])
@compared
def test_where_results_go(lib, inplace, with_out, batch):
    td = lib.TD({"a": lib.arange(3)}, batch)
    target = lib.TD({"mine": lib.arange(3)}, batch) if with_out else None
    mod = module(lib, lambda x: x + 1, ["a"], ["b"], inplace=inplace)
    out = mod(td, tensordict_out=target) if with_out else mod(td)
    return out, td, out is td, out is target


CALLS = {
    "missing input": lambda lib: module(lib, lambda x: x + 1, ["z"], ["b"])(lib.TD({})),
    "missing input, strict": lambda lib: module(lib, abs, ["z"], ["b"], strict=True)(lib.TD({})),
    "missing input, ignored": lambda lib: module(lib, lambda x: 1.0, ["z"], ["b"])(lib.TD({})),
    "missing nested input": lambda lib: module(lib, lambda x: x + 1, [("n", "z")],
        ["b"])(lib.TD({"n": {}})),
    "payload raises": lambda lib: module(lib, lambda x: 1 / 0, ["a"], ["b"])(lib.TD({"a": 1.0})),
    "extra positional": lambda lib: module(lib, abs, ["a"], ["b"])(lib.TD({"a": 1.0}), 3),
    "extra keyword": lambda lib: module(lib, lambda x, k: x + k, ["a"], ["b"])(lib.TD({"a": 1.0}), k=2),
    "unknown keyword": lambda lib: module(lib, lambda x: x, ["a"], ["b"])(lib.TD({"a": 1.0}), k=2),
    "batch mismatch": lambda lib: module(lib, lambda x: x[:2], ["a"],
        ["b"])(lib.TD({"a": lib.arange(3)}, [3])),
    "locked": lambda lib: module(lib, lambda x: x, ["a"], ["b"])(lib.TD({"a": 1.0}).lock_()),
    "a list of paths": lambda lib: module(lib, lambda x, y: x - y, [("n", ("c",)), ("n", "m", "d")],
        ["out"])(lib.TD({"n": {"c": 3.0, "m": {"d": 4.0}}})),
    "a key twice": lambda lib: module(lib, lambda x, y: x - y, ["a", "a"], ["out"])(lib.TD({"a": 1.0})),
    "non-tensor stack": lambda lib: (seen := [], module(lib, lambda s: seen.append(list(s)) or 0, ["s"],
        ["_"])(lib.base.stack([lib.TD({"s": "a"}, []), lib.TD({"s": "b"}, [])])), seen)[2],
    "on a tensorclass": lambda lib: on_tensorclass(lib),
    "forwarded method": lambda lib: module(lib, lib.nn.Linear(2, 3), ["a"], ["b"]).extra_repr(),
    "non-tensor": lambda lib: module(lib, lambda s: s + "!", ["s"], ["t"])(lib.TD({"s": "x"}))["t"],
    "method": lambda lib: module(lib, "a-b", [], ["t"], method="split",
        method_kwargs={"sep": "-"})(lib.TD({}))["t"],
    "missing method": lambda lib: module(lib, "a", [], ["t"], method="nope")(lib.TD({})),
    "path through an array": lambda lib: module(lib, abs, ["a"], [("a", "b")])(lib.TD({"a": 1.0})),
}  # fmt: skip


def on_tensorclass(lib):
    @lib.base.tensorclass
    class Data:
        x: Any
        y: Any = None

    out = module(lib, lambda x: x + 1, ["x"], ["y"])(Data(x=lib.ones(2, 3), batch_size=[2]))
    return type(out).__name__, out.y


@each_case("name", CALLS)
def test_calls(name):
    agree(CALLS[name])


# -- selection ------------------------------------------------------------------------------------

selections = st.lists(
    st.lists(st.sampled_from(["c", "d", ("n", "e"), ("n", ("e",)), "z"]), max_size=3).map(tuple), max_size=3
)


@settings(max_examples=26)
@given(selections=selections, dispatched=st.booleans(), reset=st.booleans())
@compared
def test_selection(lib, selections, dispatched, reset):
    mod = module(lib, lambda a, b: (a + 1, a + b, b), ["a", "b"], ["c", "d", ("n", "e")])
    for keys in selections:
        mod.select_out_keys(*keys)
    if reset:
        mod.reset_out_keys()
    values = {"a": lib.arange(2), "b": lib.arange(2)}
    if dispatched:
        return mod.out_keys, mod(**values)
    return mod.out_keys, mod(lib.TD({**values, "other": lib.arange(2)}))


# -- dispatch -------------------------------------------------------------------------------------


def dispatching(lib, **options):
    class Mod(lib.tdnn.TensorDictModuleBase):
        in_keys = [("a", "c"), "d"]  # noqa: RUF012
        out_keys = ["b", "size"]  # noqa: RUF012

        @lib.tdnn.dispatch(**options)
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
    "argument name": lambda lib: lib.tdnn.dispatch(lambda td: td),
    "function without keys": lambda lib: lib.tdnn.dispatch(lambda tensordict: tensordict)(a=1),
    "module": lambda lib: module(lib, lambda x: (x, x + 1), ["x"], ["y", "z"])(x=lib.arange(3)),
    "more parameters": lambda lib: module(lib, lambda x, scale=1: x * scale, ["a"], ["b"])(
        lib.arange(3), scale=3
    ),
    "module, number": lambda lib: module(lib, lambda x: x, ["x"], ["y"])(1.5),
    "module, output of another size": lambda lib: module(lib, lambda x: x[:1], ["x"], ["y"])(x=lib.arange(3)),
    "module, str": lambda lib: module(lib, lambda s: s + "!", ["s"], ["t"])("a"),
}


@each_case("name", DISPATCH)
def test_dispatch(name):
    agree(DISPATCH[name])


# -- skip_existing --------------------------------------------------------------------------------


@each_case("active", [True, False])
@each_case("present", [(), ("y",), ("y", "z")])
@each_case("reads", [["x"], ["x", "y"]])
@each_case("sequence", [True, False])
@compared
def test_skip_existing(lib, active, present, reads, sequence):
    calls = []

    def fn(*values):
        calls.append(len(values))
        return values[0] + 1, values[0] + 2

    mod = module(lib, fn, reads, ["y", "z"])
    if sequence:
        mod = lib.Seq(mod)
    td = lib.TD({"x": 0.0, **dict.fromkeys(present, 10.0)})
    with lib.tdnn.set_skip_existing(active):
        out = mod(td)
        flag = lib.tdnn.skip_existing()
    return out, out is td, calls, flag, lib.tdnn.skip_existing()


@compared
def test_skip_existing_without_mode_is_no_context(lib):
    with lib.tdnn.set_skip_existing(None):
        pass


# -- copies, resets, methods ---


@compared
def test_dispatch_confusing(lib):
    class Two(lib.tdnn.TensorDictModuleBase):
        in_keys = [("a_1", "c"), ("a", "1", "d")]  # noqa: RUF012
        out_keys = ["a"]  # noqa: RUF012

        @lib.tdnn.dispatch
        def forward(self, tensordict):
            total = tensordict["a_1", "c"] - tensordict["a", "1", "d"]
            return lib.TD({"a": total}, [])

    return Two()(a_1_c=3 * lib.ones(), a_1_d=lib.ones()), Two()(lib.ones(), a_1_d=lib.zeros())


# -- deliberate differences -----------------------------------------------------------------------


def test_dict_in_keys_without_the_flag_follow_the_seed_direction():
    def case(lib):
        return module(lib, lambda x, *, y: x + y, {"1": "x", "2": "y"}, ["z"])(lib.TD({"1": 1.0, "2": 2.0}))[
            "z"
        ]

    assert case(LITE) == 3
    raises(TypeError, "", lambda: case(TORCH))


def test_underscore_does_not_break_dispatch():
    def case(lib):
        return module(lib, lambda x: (x, x + 1), ["x"], ["_", "y"])(x=lib.arange(2))

    np.testing.assert_array_equal(case(LITE), [1, 2])
    theirs = outcome(case, TORCH)
    assert theirs.tolist() == [1, 2] if MENDED else theirs is KeyError


def test_decorated_methods_use_their_own_object():
    def case(lib):
        class Adder:
            def __init__(self, n):
                self.n = n

            @lib.tdnn.as_tensordict_module(in_keys="a", out_keys="b")
            def add(self, a):
                return a + self.n

        return [float(Adder(n).add(lib.TD({"a": 0.0}))["b"]) for n in (1, 100)]

    assert case(LITE) == [1, 100]
    assert case(TORCH) == ([1, 100] if MENDED else [1, 1])
