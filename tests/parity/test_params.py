"""TensorDictParams against tensordict: kinds, names, locks, hooks, state dicts, every plain name."""

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
from helpers.cases import each_case
from parity.functional import LIBS, QUIET, TORCH, agree, compared, fill, kind, raw

pytestmark = QUIET


# Torch's own machinery, and what the reference has for autograd and compilers.
TORCH_ONLY = {
    *("T_destination", "call_super_init", "dump_patches", "share_memory", "clear_refs_for_compile_"),
    *("attrs", "grad", "as_tensor", "compile"),
}
# What differs without an argument, and how.
ELSEWHERE = {
    "keys": "the views print differently",
    "split_keys": "plain TensorDicts, as of all that select",
    "permute": "without dims: ValueError, self",
    "flatten": "self, or a copy, where there is nothing to flatten",
    "densify": "self, or a copy, where there is nothing lazy",
    "dtype": "the classes of dtypes have other names",
    "new_empty": "not initialised",
    "non_tensor_items": "the reference counts arrays",
    "zero_grad": "None, as of a module",
    "flip": "without dims: all of them, as NumPy's",
    "tile": "without repeats: a copy",
    "update": "without a source: nothing to do",
}


def build(lib):
    td = lib.TD({"w": lib.ones(3, 2), "n": {"b": lib.ones(3, 4)}}, batch_size=[3])
    params = lib.tdnn.TensorDictParams(td)
    for parameter in params.parameters():
        parameter.requires_grad_(False)
    return params


def described(lib, td):
    leaves = [(key, shown(lib, leaf, td)) for key, leaf in td.items(True, True)]
    return tuple(td.batch_size), leaves


def shown(lib, value, params):
    """A result without what only one library can say about it."""
    if value is params:
        return "self"
    if isinstance(value, lib.tdnn.TensorDictParams):
        return "params", described(lib, value)
    if isinstance(value, lib.base.TensorDictBase):
        return "tensordict", described(lib, value)
    if isinstance(value, Mapping):
        return {str(key): shown(lib, item, params) for key, item in value.items()}
    if isinstance(value, list | tuple) or inspect.isgenerator(value):
        return [shown(lib, item, params) for item in value]
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return kind(lib, value), np.round(raw(value), 4).tolist()
    return value if isinstance(value, bool | int | float | str | None) else type(value).__name__


def asked(lib, name):
    params = build(lib)
    try:
        value = getattr(params, name)
        value = value() if callable(value) else value
        return shown(lib, value, params), described(lib, params)
    except Exception:
        return "an error"  # of an argument that is missing, mostly: NumPy and torch differ in the class


NAMES = [
    name
    for name in dir(build(TORCH))
    if name.isidentifier() and not name.startswith("_") and name not in TORCH_ONLY and name not in ELSEWHERE
]


@each_case("name", NAMES)
def test_the_same_answer(name):
    mine, theirs = (asked(lib, name) for lib in LIBS)
    assert mine == theirs


def net(lib, seed):
    made = lib.nn.Sequential(lib.nn.Linear(2, 3), lib.nn.Sequential(lib.nn.BatchNorm1d(3)))
    fill(lib, [made], seed)
    return made


def values(module):
    return {name: np.round(raw(value), 5).tolist() for name, value in module.state_dict().items()}


def flat(lib, module):
    return lib.TD.from_module(module).flatten_keys(".")


SOURCES = {
    "flat": flat,
    "flat arrays": lambda lib, m: flat(lib, m).data,
    "flat params": lambda lib, m: lib.tdnn.TensorDictParams(flat(lib, m)),
    "flattened params": lambda lib, m: lib.TD.from_module(m, as_module=True).flatten_keys("."),
    "nested": lambda lib, m: lib.TD.from_module(m),
    "nested params": lambda lib, m: lib.TD.from_module(m, as_module=True),
    "of a state dict": lambda lib, m: lib.TD.from_module(m, use_state_dict=True).flatten_keys("."),
    "one of several": lambda lib, m: lib.TD.from_modules(m, m)[1].flatten_keys("."),
    "one of a lazy stack": lambda lib, m: lib.TD.from_modules(m, m, lazy_stack=True)[1].flatten_keys("."),
    "too few": lambda lib, m: flat(lib, m).exclude("0.bias"),
    "too many": lambda lib, m: flat(lib, m).set("other", lib.ones(1)),
    "another shape": lambda lib, m: flat(lib, m).set("0.bias", lib.ones(4)),
    "an object": lambda lib, m: flat(lib, m).set("name", "x"),
    "its state dict": lambda lib, m: flat(lib, m).state_dict(),
}


@each_case("source", SOURCES)
@each_case(("strict", "assign"), [(True, False), (False, True)])
@compared
def test_a_tensordict_as_state_dict(lib, source, strict, assign):
    module, other = net(lib, 0), net(lib, 1)
    given = SOURCES[source](lib, other)
    weight = module[0].weight
    try:
        keys = module.load_state_dict(given, strict=strict, assign=assign)
        found = [sorted(names) for names in keys]
    except RuntimeError:
        return "RuntimeError"  # where torch has written what did fit
    return found, values(module), values(other), module[0].weight is weight, kind(lib, module[0].weight)


TREES = {
    "nested": lambda lib, td: td,
    "params": lambda lib, td: lib.tdnn.TensorDictParams(td),
    "flat": lambda lib, td: td.flatten_keys("."),
    "nested dict": lambda lib, td: td.to_dict(),
    "dict of nodes": lambda lib, td: dict(td.items()),
    "state dict": lambda lib, td: td.state_dict(),
    "nested state dict": lambda lib, td: td.state_dict(flatten=False),
    "too few": lambda lib, td: td.exclude("a"),
    "too many": lambda lib, td: td.set("other", lib.ones(1)),
    "another batch size": lambda lib, td: td.auto_batch_size_(),
}


@each_case("source", TREES)
@each_case(
    ("target", "strict", "assign"),
    [
        ("params", True, False),
        ("params", False, False),
        ("tensordict", True, False),
        ("tensordict", False, True),
    ],
)
@compared
def test_trees_as_state_dicts_of_trees(lib, target, source, assign, strict):
    def tree(value):
        entries = {"a": lib.ones(2) * value, "n": lib.TD({"b": lib.ones(2) * value})}
        return lib.TD({**entries, "i": lib.ones(2, dtype=np.int64)})

    into = tree(1)
    into = lib.tdnn.TensorDictParams(into) if target == "params" else into
    # Where the reference loads nothing with assign=True, as `test_assigning_to_params` has it.
    copied = assign and target == "tensordict"
    result = into.load_state_dict(TREES[source](lib, tree(2)), strict=strict, assign=copied)
    found = {key: raw(leaf).tolist() for key, leaf in into.items(True, True)}
    return result is into, found, tuple(into.batch_size)


def of_class(lib):
    @lib.base.tensorclass
    class Holder:
        x: Any
        name: str

    return lib.TD({"c": Holder(lib.ones(2), "n"), "a": lib.ones(2)})


ENTRIES = {
    **{
        dtype: lambda lib, dtype=dtype: lib.TD({"a": lib.ones(2, dtype=dtype)})
        for dtype in ("float16", "float32", "float64", "int64", "uint8", "bool", "complex64")
    },
    "no dimension": lambda lib: lib.TD({"a": lib.ones()}),
    "nested": lambda lib: lib.TD({"n": lib.TD({"m": lib.TD({"a": lib.ones(2)})})}),
    "an empty node": lambda lib: lib.TD({"n": lib.TD(), "a": lib.ones(2)}),
    "nothing": lambda lib: lib.TD(),
    "an object": lambda lib: lib.TD({"s": "x", "a": lib.ones(2)}),
    "an object below": lambda lib: lib.TD({"n": lib.TD({"s": "x"}), "a": lib.ones(2)}),
    "a wrapped object": lambda lib: lib.TD({"s": lib.base.NonTensorData(3), "a": lib.ones(2)}),
    "a tensorclass": of_class,
    "params": lambda lib: lib.TD({"p": lib.tdnn.TensorDictParams(lib.TD({"a": lib.ones(2)}))}),
    "a Parameter": lambda lib: lib.TD({"p": lib.nn.Parameter(lib.ones(2))}),
    "a dot in a key": lambda lib: lib.TD({"a.b": lib.ones(2)}),
    "a batch": lambda lib: lib.TD({"a": lib.ones(2, 3), "n": lib.TD({"b": lib.ones(2)})}, batch_size=[2]),
}


@each_case("assign", [True, False])
@each_case("entry", ENTRIES)
@each_case("place", ["params", "a child", "a buffer"])
def test_state_dicts_of_every_kind_of_entry(place, entry, assign):
    """What is saved, and that it is loaded into another of the same structure."""
    dotted = entry == "a dot in a key" and place != "a buffer"

    def program(lib):
        def build(value):
            td = ENTRIES[entry](lib)
            for leaf in td.values(True, True):
                if hasattr(leaf, "dtype"):
                    raw(leaf)[...] = value
            if place == "params":
                params = lib.tdnn.TensorDictParams(td)
                return params, params
            module = lib.nn.Module()
            if place == "a child":
                module.td = lib.tdnn.TensorDictParams(td)
            else:
                module.register_buffer("td", td)
            return module, module.td

        def found(td):
            return {
                str(key): (str(raw(leaf).dtype), raw(leaf).tolist())
                for key, leaf in td.items(True, True)
                if hasattr(leaf, "dtype")
            }

        (source, _), (target, _) = build(1), build(0)
        state = source.state_dict()
        if dotted:
            return list(state)  # which the reference takes for a path when it loads
        names = {name: found(v) if hasattr(v, "items") else raw(v).tolist() for name, v in state.items()}
        objects = place == "a child" and "object" in entry
        if not objects:  # at which the reference raises that the keys differ by nothing
            target.load_state_dict(state, assign=assign and place != "params")
        loaded = found(target if place == "params" else target.td)
        if entry == "bool" and place == "a child":
            loaded = {key: np.asarray(numbers, bool).tolist() for key, (_, numbers) in loaded.items()}
        return names, None if objects else loaded

    agree(program)
