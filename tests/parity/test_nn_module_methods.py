"""Methods, state dicts, registration and hooks of nn.Module as torch has them, by tables."""

import copy
import pickle
from collections import OrderedDict

import numpy as np
import pytest
import torch
from helpers.cases import each_case
from parity.module_cases import QUIET, described, filled, small, values
from parity.modules import LITE, TORCH, agree, compared

pytestmark = QUIET


def dtype(lib, name):
    return getattr(torch, name) if lib is TORCH else np.dtype(name)


@each_case(
    "case",
    [
        lambda m, lib: m.add_module("child", lib.nn.ReLU()),
        lambda m, lib: m.register_module("child", lib.nn.ReLU()),
        lambda m, lib: m.add_module("child", None),
        lambda m, lib: m.register_module("layer", None),
        lambda m, lib: m.register_module("mean", lib.nn.ReLU()),
        lambda m, lib: m.add_module("train", lib.nn.ReLU()),
        lambda m, lib: setattr(m, "child", lib.nn.ReLU()),
        lambda m, lib: delattr(m, "layer"),
    ],
)
@compared
def test_children(lib, case):
    module = small(lib)
    result = case(module, lib)
    names = ([name for name, _ in module.named_children()], list(module._modules), list(module.state_dict()))
    return result is None, names, repr(module)


@pytest.mark.parametrize("remove_duplicate", [True, False])
@compared
def test_traversal(lib, remove_duplicate):
    shared = lib.nn.Linear(2, 2)
    net = lib.nn.Sequential(
        shared, lib.nn.Sequential(shared, lib.nn.ReLU()), lib.nn.ModuleDict({"a": shared})
    )
    seen = []
    same = net.apply(lambda m: seen.append(type(m).__name__)) is net
    return (
        same,
        seen,
        [type(m).__name__ for m in net.modules(remove_duplicate=remove_duplicate)],
        [n for n, _ in net.named_modules(prefix="p", remove_duplicate=remove_duplicate)],
        [n for n, _ in net.named_parameters("p", True, remove_duplicate)],
        [n for n, _ in net.named_buffers("p", True, remove_duplicate)],
        [type(m).__name__ for m in net.children()],
        [tuple(p.shape) for p in net.parameters(recurse=False)],
        len({*net.named_modules(memo={shared})}),
    )


TO = {
    "dtype": lambda m, lib: m.to(dtype(lib, "float64")),
    "complex": lambda m, lib: m.to(dtype(lib, "complex64")),
    "integer": lambda m, lib: m.to(dtype(lib, "int32")),
    "device": lambda m, lib: m.to("cpu"),
    "device and dtype": lambda m, lib: m.to("cpu", dtype(lib, "float16")),
    "non_blocking by position": lambda m, lib: m.to("cpu", dtype(lib, "float16"), True),
    "keywords": lambda m, lib: m.to(device="cpu", dtype=dtype(lib, "float64"), non_blocking=True),
    "array": lambda m, lib: m.to(lib.of(np.zeros(1, np.float64))),
    "none": lambda m, lib: m.to(),
    "meta": lambda m, lib: m.to("meta"),
    "meta and dtype": lambda m, lib: m.to("meta", dtype(lib, "float64")),
    "unknown keyword": lambda m, lib: m.to(kind="cpu"),
    "object": lambda m, lib: m.to(object()),
    "to_empty": lambda m, lib: m.to_empty(device="cpu"),
    "to_empty on meta": lambda m, lib: m.to_empty(device="meta"),
    "to_empty not recursive": lambda m, lib: m.to_empty(device="meta", recurse=False),
    "to_empty without a device": lambda m, lib: m.to_empty(),
    "back from meta": lambda m, lib: m.to("meta").to_empty(device="cpu"),
    "cpu": lambda m, lib: m.cpu(),
    "half then float": lambda m, lib: m.half().float(),
}


@each_case("name", TO)
@compared
def test_to(lib, name):
    module = filled(lib)
    weight = module.layer.weight
    same = TO[name](module, lib) is module
    meta = [value.is_meta if hasattr(value, "is_meta") else False for value in module.state_dict().values()]
    kept = None if any(meta) or "to_empty" in name or "meta" in name else values(module)
    # torch makes new Parameters on the meta device and back, lite keeps the object
    return same, "meta" in name or weight is module.layer.weight, described(module), meta, str(kept)


@each_case("name", ["float16", "float64", "int32", "uint8"])
@compared
def test_type(lib, name):
    module = filled(lib)
    if name in ("int32", "uint8"):
        # A torch Parameter that needs gradients cannot hold integers
        module.requires_grad_(False)
    return module.type(dtype(lib, name)) is module, described(module), values(module)


@each_case("kind", ["cuda", "xpu", "ipu", "mtia"])
def test_other_devices(kind):
    """Both refuse where there is none; the classes are torch's backends' own."""
    if kind != "ipu" and hasattr(torch, kind) and getattr(torch, kind).is_available():
        pytest.skip(f"this machine has {kind}")
    for lib in (LITE, TORCH):
        with pytest.raises((RuntimeError, AssertionError)):
            getattr(lib.nn.Linear(1, 1), kind)()


@compared
def test_flags(lib):
    net = lib.nn.Sequential(lib.nn.Linear(1, 1), lib.nn.Sequential(lib.nn.Linear(1, 1)))
    log = [net.training]
    log += [net.eval() is net, [m.training for m in net.modules()]]
    log += [net[1].train() is net[1], [m.training for m in net.modules()]]
    log += [net.requires_grad_(False) is net, [p.requires_grad for p in net.parameters()]]
    log += [net.zero_grad(), net.zero_grad(set_to_none=False), [p.grad for p in net.parameters()]]
    return log


@each_case(
    "case",
    [
        lambda m, lib: m.get_submodule("") is m,
        lambda m, lib: m.get_submodule("layer") is m.layer,
        lambda m, lib: m.get_submodule("layer.weight"),
        lambda m, lib: m.get_submodule("mean"),
        lambda m, lib: m.get_parameter("layer.weight") is m.layer.weight,
        lambda m, lib: m.get_parameter("mean"),
        lambda m, lib: m.get_parameter("layer"),
        lambda m, lib: m.get_buffer("mean") is m.mean,
        lambda m, lib: m.get_buffer("layer.bias"),
        lambda m, lib: m.get_buffer("layer.nope"),
        lambda m, lib: m.set_submodule("layer", lib.nn.ReLU(), strict=True),
        lambda m, lib: m.set_submodule("other", lib.nn.ReLU()),
        lambda m, lib: m.set_submodule("layer.inner", lib.nn.ReLU()),
        lambda m, lib: m.set_submodule("layer.inner", lib.nn.ReLU(), True),
        lambda m, lib: m.set_submodule("mean", lib.nn.ReLU()),
        lambda m, lib: m.set_submodule("nope.inner", lib.nn.ReLU()),
        lambda m, lib: m.set_submodule("layer", None),
    ],
)
@compared
def test_access(lib, case):
    module = small(lib)
    return case(module, lib), repr(module)


@each_case("given", ["same", "without", "stranger", "not strict"])
@compared
def test_extra_state(lib, given):
    class Counter(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.count = 3
            self.p = lib.parameter(lib.array(1))

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            self.count = state["count"]

    net = lib.nn.Sequential(Counter(), lib.nn.ReLU())
    state = net.state_dict()
    names = list(state)
    if given in ("without", "not strict"):
        del state["0._extra_state"]
    if given == "stranger":
        state["1._extra_state"] = {}
    net[0].count = 0
    result = net.load_state_dict(state, strict=given != "not strict")
    return names, net[0].count, list(result.missing_keys), list(result.unexpected_keys)


@each_case("duplicate", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
@compared
def test_copies(lib, duplicate):
    module = filled(lib)
    module.tied = module.layer
    again = duplicate(module)
    again.layer.weight.data[...] = 9
    again.extra = lib.nn.ReLU()
    return again.tied is again.layer, values(module), values(again), list(again._modules)


STATE = {
    "plain": lambda m, lib: m.state_dict(),
    "prefix": lambda m, lib: m.state_dict(prefix="a."),
    "destination": lambda m, lib: m.state_dict(destination={"first": 1}),
    "by position": lambda m, lib: m.state_dict({}, "a."),
}


@pytest.mark.filterwarnings("ignore:Positional args:FutureWarning", "ignore:pass destination:FutureWarning")
@each_case("name", STATE)
@compared
def test_state_dict(lib, name):
    module = small(lib)
    module.register_buffer("scratch", lib.array(1), persistent=False)
    module.register_parameter("none", None)
    state = STATE[name](module, lib)
    meta = {key: dict(value) for key, value in getattr(state, "_metadata", {}).items()}
    return type(state) in (dict, OrderedDict) or isinstance(state, OrderedDict), list(state), meta


def test_state_dicts_share_memory():
    def run(lib):
        module = small(lib)
        state, kept = module.state_dict(), module.state_dict(keep_vars=True)
        state["layer.weight"][...] = 7
        state["mean"][...] = 5
        return (
            (
                values(module),
                isinstance(state["layer.weight"], lib.parameter),
                kept["layer.weight"] is module.layer.weight,
                kept["mean"] is module.mean,
            )
            if not state.update({})
            else None
        )

    def without_bias(lib):
        result = run(lib)
        result[0].pop("layer.bias")  # drawn at random
        return result

    agree(without_bias)


LOADS = {
    "float64 into float32": ({"mean": np.array([1.5, 2.5])}, {}),
    "float64 assigned": ({"mean": np.array([1.5, 2.5]), "layer.weight": np.ones((3, 2))}, {"assign": True}),
    "float into int": ({"steps": np.array([2.7])}, {}),
    "one element into none": ({"scalar": np.ones(1, np.float32)}, {}),
    "none into one element": ({"steps": np.array(1)}, {}),
    "wrong shape, not strict": ({"mean": np.zeros(5, np.float32)}, {}),
    "an unused buffer": ({"scratch": np.ones(1, np.float32)}, {}),
    "a parameter that is None": ({"none": np.ones(1, np.float32)}, {}),
    "unknown": ({"layer.nope": np.ones(1, np.float32), "nope.weight": np.ones(1, np.float32)}, {}),
    "unknown, strict": ({"layer.nope": np.ones(1, np.float32)}, {"strict": True}),
}


@each_case("name", LOADS)
def test_loading(name):
    content, options = LOADS[name]

    def run(lib):
        module = filled(lib)
        module.register_buffer("scratch", lib.array(1), persistent=False)
        module.register_buffer("scalar", lib.of(np.array(0, np.float32)))
        module.register_parameter("none", None)
        module.layer.weight.requires_grad_(False)
        weight, mean = module.layer.weight, module.mean
        given = {key: lib.of(np.array(value)) for key, value in content.items()}
        result = module.load_state_dict(given, **{"strict": False, **options})
        assigned = options.get("assign", False)
        return (
            result.missing_keys if not assigned else sorted(result.missing_keys),
            result.unexpected_keys, described(module), values(module), weight is module.layer.weight,
            mean is module.mean, module.layer.weight.requires_grad, sorted(given),
        )  # fmt: skip

    agree(run)


def test_matching_keys_have_a_repr():
    agree(lambda lib: repr(small(lib).load_state_dict(small(lib).state_dict())))
    agree(lambda lib: repr(small(lib).load_state_dict({}, strict=False)).removeprefix("_"))


@each_case(
    "case",
    [
        lambda m, lib: m.register_buffer("mean", lib.array(3)),
        lambda m, lib: m.register_buffer("mean", None),
        lambda m, lib: m.register_buffer("mean", lib.array(3), persistent=False),
        lambda m, lib: m.register_buffer("layer", lib.array(3)),
        lambda m, lib: m.register_parameter("new", lib.parameter(lib.array(3))),
        lambda m, lib: m.register_parameter("mean", lib.parameter(lib.array(3))),
        lambda m, lib: m.register_parameter("new", None),
        lambda m, lib: setattr(m, "mean", lib.parameter(lib.array(3))),
        lambda m, lib: setattr(m, "layer", lib.parameter(lib.array(3))),
    ],
)
@compared
def test_registration(lib, case):
    module = small(lib)
    return case(module, lib), list(module.state_dict()), described(module)


def test_load_hooks():
    def run(lib):
        net = lib.nn.Sequential(lib.nn.Linear(1, 1, bias=False), lib.nn.Linear(1, 1, bias=False))

        def rename(m, state, prefix, *rest):
            if prefix + "old" in state:
                state[prefix + "weight"] = state.pop(prefix + "old")

        net[0].register_load_state_dict_pre_hook(rename)
        handle = net.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
        given = {"0.old": lib.of(np.full((1, 1), 4, np.float32))}
        first = net.load_state_dict(given)
        handle.remove()
        log = [list(given), values(net)["0.weight"], list(first.missing_keys)]
        return [*log, list(net.load_state_dict(given, strict=False).missing_keys)]

    agree(run)
    agree(
        lambda lib: (
            (m := small(lib)).register_load_state_dict_post_hook(lambda m, k: k) and m.load_state_dict({})
        )
    )


BAD = {
    "pre-hook with keywords": lambda m: m.register_forward_pre_hook(lambda m, a, k: a, with_kwargs=True),
    "pre-hook with a triple": lambda m: m.register_forward_pre_hook(
        lambda m, a, k: (a, k, 1), with_kwargs=True
    ),
    "pre-hook raises": lambda m: m.register_forward_pre_hook(lambda m, a: 1 / 0),
    "hook raises": lambda m: m.register_forward_hook(lambda m, a, o: 1 / 0),
    "hook of another signature": lambda m: m.register_forward_hook(lambda m: None),
    "state_dict pre-hook raises": lambda m: m.register_state_dict_pre_hook(lambda m, p, k: 1 / 0),
    "state_dict post-hook returns": lambda m: m.register_state_dict_post_hook(lambda m, s, p, d: s),
    "load pre-hook raises": lambda m: m.register_load_state_dict_pre_hook(lambda *a: 1 / 0),
    "load post-hook raises": lambda m: m.register_load_state_dict_post_hook(lambda m, k: 1 / 0),
}


@each_case("name", BAD)
@compared
def test_bad_hooks(lib, name):
    """The class of what is raised, and that the module works as before once the hook is gone."""
    module = lib.nn.Linear(1, 1)
    state = {key: lib.of(np.ones(tuple(v.shape), np.float32)) for key, v in module.state_dict().items()}
    before = values(module)
    handle = BAD[name](module)
    errors = []
    for call in (lambda: module(lib.array(1)), module.state_dict, lambda: module.load_state_dict(state)):
        try:
            call()
            errors.append(None)
        except Exception as error:
            errors.append(type(error))
    unchanged = values(module) == before
    handle.remove()
    return (errors, unchanged if "post-hook raises" not in name else None, tuple(module(lib.array(1)).shape))


@each_case("order", ["old full", "full old", "old old", "full full", "pre full"])
@compared
def test_backward_hooks(lib, order):
    module = lib.nn.Linear(1, 1)
    register = {
        "old": module.register_backward_hook,
        "full": module.register_full_backward_hook,
        "pre": module.register_full_backward_pre_hook,
    }
    fired = []
    handles = [register[kind](lambda *args: fired.append(1)) for kind in order.split()]
    for handle in handles:
        handle.remove()
    module(lib.array(1))
    return len(handles), fired
