"""lite.nn.Module against torch.nn.Module: names, order, state dicts, hooks, reprs, errors."""

from collections import OrderedDict

import numpy as np
import pytest
import torch
from helpers.cases import each_case
from hypothesis import given, settings
from hypothesis import strategies as st
from parity.functional import TORCH, agree, compared

from lite import nn

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*")


# -- trees ----------------------------------------------------------------------------------------

# A node is (own parameters, own buffers, children); a child is a node, None, or "shared" for one
# module that appears in several places.
nodes = st.recursive(
    st.tuples(
        st.lists(st.sampled_from(["w", "b", "none"]), unique=True),
        st.lists(st.sampled_from(["m", "v", "hidden"]), unique=True),
        st.just(()),
    ),
    lambda children: st.tuples(
        st.lists(st.sampled_from(["w", "b", "none"]), unique=True),
        st.lists(st.sampled_from(["m", "v", "hidden"]), unique=True),
        st.lists(children | st.none() | st.just("shared"), max_size=3).map(tuple),
    ),
    max_leaves=6,
)


def build(lib, node, shared=None):
    shared = lib.nn.Linear(1, 1) if shared is None else shared
    module = lib.nn.Module()
    names, buffers, children = node
    for name in names:
        module.register_parameter(name, None if name == "none" else lib.parameter(lib.zeros(2)))
    for name in buffers:
        module.register_buffer(name, lib.zeros(3), persistent=name != "hidden")
    for i, child in enumerate(children):
        if child == "shared":
            module.add_module(f"c{i}", shared)
        else:
            module.add_module(f"c{i}", None if child is None else build(lib, child, shared))
    return module


@settings(max_examples=33)
@given(node=nodes, remove=st.booleans(), prefix=st.sampled_from(["", "p"]))
@compared
def test_names_of_random_trees(lib, node, remove, prefix):
    m = build(lib, node)
    out = [list(m.state_dict()), list(m.state_dict(prefix="x."))]
    out.append([name for name, _ in m.named_modules(prefix=prefix, remove_duplicate=remove)])
    out.append([name for name, _ in m.named_parameters(prefix, remove_duplicate=remove)])
    out.append([name for name, _ in m.named_parameters(prefix, recurse=False)])
    out.append([name for name, _ in m.named_buffers(prefix, remove_duplicate=remove)])
    out.append([name for name, _ in m.named_children()])
    out.append({k: dict(v) for k, v in m.state_dict()._metadata.items()})
    order = []
    m.apply(lambda child: order.append(len(list(child.modules()))))
    return [*out, order, repr(m).replace("Parameter containing", "")]


@settings(max_examples=33)
@given(
    node=nodes,
    strict=st.booleans(),
    assign=st.booleans(),
    drop=st.integers(0, 3),
    reshape=st.booleans(),
    extra=st.lists(st.sampled_from(["new", "c0.new", "c0.c0.new", "c9.w", "none", "hidden"]), unique=True),
)
@compared
def test_loading_damaged_state_dicts(lib, node, strict, assign, drop, reshape, extra):
    m = build(lib, node)
    state = m.state_dict()
    for name in list(state)[:drop]:
        del state[name]
    if reshape and state:
        state[next(iter(state))] = lib.zeros(7, 7)
    state.update({name: lib.zeros(1) for name in extra})
    result = m.load_state_dict(state, strict=strict, assign=assign)
    return result.missing_keys, result.unexpected_keys


@each_case(
    "net",
    [
        lambda n: n.Sequential(n.Linear(2, 3), n.ReLU(inplace=True), n.Sequential(n.Tanh(), n.Identity())),
        lambda n: n.ModuleList([n.ReLU(), n.ReLU(), n.Linear(1, 1, bias=False), n.Tanh(), n.Tanh()]),
        lambda n: n.ModuleDict({"a": n.ReLU(), "b": n.ModuleList()}),
        lambda n: n.Sequential(),
        lambda n: n.ModuleList([n.Sequential(n.ReLU()), n.Sequential(n.ReLU())]),
        lambda n: n.Module(),
    ],
)
def test_repr(net):
    assert repr(net(nn)) == repr(net(torch.nn))


# -- parameters in lists and dicts ----------------------------------------------------------------


def held_list(lib):
    shared = lib.parameter(lib.zeros(2))
    m = lib.nn.ParameterList([lib.zeros(1), shared])
    m += (lib.zeros(3) for _ in range(2))
    m.append(lib.nn.Linear(1, 1)).extend([7, shared])
    m[-1], m[0] = lib.zeros(2, 2), shared
    part = m[1:6:2]
    assert m[0] is m[-6] is shared
    assert [type(m[i]) is lib.nn.Parameter for i in range(7)][3:] == [True, False, False, True]
    assert type(part) is type(m)
    assert part[0] is shared
    out = [[name for name, _ in x.named_parameters()] for x in (m, part)]
    out += [list(m.state_dict()), len(m), len(list(m)), len(part), m[5], [n for n in dir(m) if n.isdigit()]]
    m.load_state_dict({key: value * 2 for key, value in m.state_dict().items()})
    lines = repr(m).replace("torch.", "").splitlines()
    return [*out, tuple(m[2].shape), tuple(m[6].shape), lines]


def held_dict(lib):
    pairs = {"b": lib.zeros(2), "a": lib.zeros(1), "c": 3}
    m = lib.nn.ParameterDict(pairs)
    out = [[list(lib.nn.ParameterDict(x).state_dict()) for x in (OrderedDict(pairs), pairs.items(), m)]]
    m["0"] = lib.zeros(3)
    m.update({"e": lib.parameter(lib.zeros(4)), "d": lib.nn.ReLU(), "a": lib.zeros(2)})
    assert type(m["a"]) is type(m["e"]) is lib.nn.Parameter
    out += [list(m), list(m.keys()), list(m.items()) == list(zip(m, m.values(), strict=True)), len(m)]
    out += [list(reversed(m)), "a" in m, "z" in m, 3 in m, m.get("z"), m.get("c"), m.setdefault("c", 4)]
    other = m.copy()
    assert other["a"] is m["a"]
    assert type(m.setdefault("y", lib.zeros(1))) is lib.nn.Parameter
    out += [list((m | {"q": lib.zeros(1)}).state_dict()), list(other), list(m.fromkeys("ab", 1).items())]
    m |= [("r", lib.zeros(5))]
    del m["b"]
    out += [m.pop("c"), m.popitem()[0], list(m.state_dict()), hasattr(m, "c")]
    other.clear()
    return [*out, len(other), list(other.state_dict())]


# -- errors ---------------------------------------------------------------------------------------


def setting(name, value):
    def case(lib):
        m = lib.nn.Linear(2, 2)
        m.register_buffer("buf", lib.zeros(1))
        m.child = lib.nn.ReLU()
        setattr(m, name, value(lib) if callable(value) else value)
        return list(m.state_dict())

    return case


def early(lib):
    class Early(lib.nn.Module):
        def __init__(self):
            self.p = lib.parameter(lib.zeros(1))

    Early()


CASES = {
    "parameter before init": early,
    "array as parameter": setting("weight", lambda lib: lib.zeros(2, 2)),
    "none as parameter": setting("bias", None),
    "int as module": setting("child", 3),
    "none as module": setting("child", None),
    "str as buffer": setting("buf", "x"),
    "none as buffer": setting("buf", None),
    "parameter over buffer": setting("buf", lambda lib: lib.parameter(lib.zeros(1))),
    "module over parameter": setting("weight", lambda lib: lib.nn.ReLU()),
    "register_parameter dot": lambda lib: lib.nn.Module().register_parameter("a.b", None),
    "register_parameter empty": lambda lib: lib.nn.Module().register_parameter("", None),
    "register_parameter name type": lambda lib: lib.nn.Module().register_parameter(1, None),
    "register_parameter taken": lambda lib: lib.nn.Module().register_parameter("training", None),
    "register_parameter array": lambda lib: lib.nn.Module().register_parameter("a", lib.zeros(1)),
    "register_buffer dot": lambda lib: lib.nn.Module().register_buffer("a.b", None),
    "register_buffer empty": lambda lib: lib.nn.Module().register_buffer("", None),
    "register_buffer name type": lambda lib: lib.nn.Module().register_buffer(1, None),
    "register_buffer taken": lambda lib: lib.nn.Linear(1, 1).register_buffer("weight", None),
    "register_buffer list": lambda lib: lib.nn.Module().register_buffer("a", [1]),
    "add_module dot": lambda lib: lib.nn.Module().add_module("a.b", None),
    "add_module empty": lambda lib: lib.nn.Module().add_module("", None),
    "add_module name type": lambda lib: lib.nn.Module().add_module(1, None),
    "add_module taken": lambda lib: lib.nn.Module().add_module("training", None),
    "add_module int": lambda lib: lib.nn.Module().add_module("a", 1),
    "missing attribute": lambda lib: lib.nn.Module().nope,
    "no forward": lambda lib: lib.nn.Module()(1),
    "train int": lambda lib: lib.nn.Module().train(1),
    "to int": lambda lib: lib.nn.Linear(1, 1).to(torch.int32 if lib is TORCH else np.int32),
    "to unknown device": lambda lib: lib.nn.Linear(1, 1).to("nowhere"),
    "meta to cpu": lambda lib: lib.nn.Linear(1, 1, device="meta").to("cpu"),
    "load list": lambda lib: lib.nn.Linear(1, 1).load_state_dict([]),
    "load number": lambda lib: lib.nn.Linear(1, 1).load_state_dict({"weight": 1.0}, strict=False),
    "load wrong shape": lambda lib: lib.nn.Linear(1, 1).load_state_dict(
        {"weight": lib.zeros(3)}, strict=False
    ),
    "get_submodule missing": lambda lib: lib.nn.Module().get_submodule("a"),
    "get_submodule of a parameter": lambda lib: lib.nn.Linear(1, 1).get_submodule("weight"),
    "get_parameter of a module": lambda lib: lib.nn.Sequential(lib.nn.ReLU()).get_parameter("0"),
    "get_parameter missing": lambda lib: lib.nn.Module().get_parameter("a.b"),
    "get_buffer of a parameter": lambda lib: lib.nn.Linear(1, 1).get_buffer("weight"),
    "set_submodule empty": lambda lib: lib.nn.Module().set_submodule("", lib.nn.ReLU()),
    "set_submodule int": lambda lib: lib.nn.Module().set_submodule("a", 1),
    "set_submodule strict": lambda lib: lib.nn.Module().set_submodule("a", lib.nn.ReLU(), strict=True),
    "set_submodule new": lambda lib: lib.nn.Module().set_submodule("a", lib.nn.ReLU()),
    "set_submodule over attribute": lambda lib: lib.nn.Linear(1, 1).set_submodule("weight", lib.nn.ReLU()),
    "set_submodule parent": lambda lib: lib.nn.Module().set_submodule("a.b", lib.nn.ReLU()),
    "get_extra_state": lambda lib: lib.nn.Module().get_extra_state(),
    "set_extra_state": lambda lib: lib.nn.Module().set_extra_state(1),
    "list append": lambda lib: lib.nn.ModuleList().append(1),
    "list index": lambda lib: lib.nn.ModuleList()[0],
    "list call": lambda lib: lib.nn.ModuleList()(1),
    "dict dot": lambda lib: lib.nn.ModuleDict({"a.b": lib.nn.ReLU()}),
    "dict missing": lambda lib: lib.nn.ModuleDict()["a"],
    "parameter list": held_list,
    "parameter list index": lambda lib: lib.nn.ParameterList([lib.zeros(1)])[1],
    "parameter list of an array": lambda lib: lib.nn.ParameterList(lib.zeros(2)),
    "parameter list of a number": lambda lib: lib.nn.ParameterList(3),
    "parameter list of strings": lambda lib: lib.nn.ParameterList("ab")[1],
    "parameter list, object over object": lambda lib: lib.nn.ParameterList([3]).__setitem__(0, 4),
    "parameter list, object over an array": lambda lib: lib.nn.ParameterList([lib.zeros(2)]).__setitem__(
        0, 4
    ),
    "parameter list insert": lambda lib: lib.nn.ParameterList().insert(0, lib.zeros(2)),
    "parameter list call": lambda lib: lib.nn.ParameterList()(1),
    "parameter dict": held_dict,
    "parameter dict call": lambda lib: lib.nn.ParameterDict()(1),
    "parameter dict missing": lambda lib: lib.nn.ParameterDict()["a"],
    "parameter dict pop missing": lambda lib: lib.nn.ParameterDict().pop("a"),
    "parameter dict delete missing": lambda lib: lib.nn.ParameterDict().__delitem__("a"),
    "parameter dict popitem": lambda lib: lib.nn.ParameterDict().popitem(),
    "parameter dict number": lambda lib: lib.nn.ParameterDict()[3],
    "parameter dict set number": lambda lib: lib.nn.ParameterDict().__setitem__(3, lib.zeros(1)),
    "parameter dict dot": lambda lib: lib.nn.ParameterDict({"a.b": lib.zeros(1)}),
    "parameter dict taken": lambda lib: lib.nn.ParameterDict({"keys": lib.zeros(1)}),
    "parameter dict of a number": lambda lib: lib.nn.ParameterDict(3),
    "parameter dict of triples": lambda lib: lib.nn.ParameterDict([("a", 1, 2)]),
    "parameter dict of numbers": lambda lib: lib.nn.ParameterDict([1]),
    "integer parameter": lambda lib: lib.parameter(
        torch.zeros(1, dtype=torch.int64) if lib is TORCH else np.zeros(1, dtype=np.int64)
    ),
    "linear wrong size": lambda lib: lib.nn.Linear(2, 2)(lib.zeros(3, 3)),
    "linear on meta": lambda lib: lib.nn.Linear(2, 2, device="meta")(lib.zeros(3, 2)).sum().item(),
    "delete missing": lambda lib: delattr(lib.nn.Module(), "nope"),
}


@each_case("name", CASES)
def test_errors(name):
    agree(CASES[name])


# -- hooks ----------------------------------------------------------------------------------------

hook_kinds = st.lists(
    st.tuples(
        st.sampled_from(["pre", "post"]),
        st.booleans(),  # prepend
        st.booleans(),  # with_kwargs
        st.booleans(),  # always_call
        st.sampled_from(["none", "value", "raise"]),
    ),
    max_size=5,
)


@pytest.mark.filterwarnings("ignore::UserWarning")
@settings(max_examples=50)
@given(hooks=hook_kinds, fails=st.booleans(), remove=st.integers(0, 5))
@compared
def test_hooks(lib, hooks, fails, remove):
    log = []

    class Mod(lib.nn.Module):
        def forward(self, x, y=1):
            log.append(("forward", x, y))
            if fails:
                raise ZeroDivisionError
            return x + y

    module = Mod()
    handles = []

    def make(i, kind, with_kwargs, returns):
        def hook(m, *rest):
            log.append((i, *rest))
            if returns == "raise":
                raise ArithmeticError
            if returns == "none":
                return None
            if kind == "post":
                return 10 + i
            return ((20 + i,), {"y": i}) if with_kwargs else 20 + i

        return hook

    for i, (kind, prepend, with_kwargs, always, returns) in enumerate(hooks):
        options = {"prepend": prepend, "with_kwargs": with_kwargs}
        hook = make(i, kind, with_kwargs, returns)
        if kind == "pre":
            handles.append(module.register_forward_pre_hook(hook, **options))
        else:
            handles.append(module.register_forward_hook(hook, always_call=always, **options))
    if remove < len(handles):
        handles[remove].remove()
    try:
        result = module(1, y=2)
    except Exception as err:
        result = type(err)
    return log, result


@compared
def test_state_dict_hooks(lib):
    log = []
    net = lib.nn.Sequential(lib.nn.Linear(1, 1), lib.nn.Sequential(lib.nn.Linear(1, 1)))
    for name, m in net.named_modules():
        m.register_state_dict_pre_hook(lambda m, p, k, name=name: log.append(("save pre", name, p, k)))
        m.register_state_dict_post_hook(
            lambda m, s, p, meta, name=name: log.append(("save", name, list(s), p, dict(meta)))
        )
        m.register_load_state_dict_pre_hook(
            lambda m, s, p, meta, strict, missing, unexpected, errors, name=name: log.append(
                ("load pre", name, list(s), p, strict)
            )
        )
        m.register_load_state_dict_post_hook(
            lambda m, keys, name=name: log.append(("load", name, list(keys.missing_keys)))
        )
    state = net.state_dict()
    del state["0.bias"]
    log.append(("missing", net.load_state_dict(state, strict=False).missing_keys))
    # torch runs a module's post-hooks before it looks at the next module; here the whole dict is
    # checked first. The order among hooks of one kind is the same.
    return sorted(log, key=lambda entry: entry[0])
