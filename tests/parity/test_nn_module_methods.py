"""Each method of nn.Module as torch's does it, for what `test_nn_module.py` does not draw at random.

State dicts, registration and hooks are in `test_nn_module_state.py`.
"""

import copy
import pickle

import numpy as np
import pytest
import torch
from parity.module_cases import QUIET, described, filled, small, values
from parity.modules import LITE, TORCH, compared

pytestmark = QUIET


def dtype(lib, name):
    return getattr(torch, name) if lib is TORCH else np.dtype(name)


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("name", TO)
@compared
def test_to(lib, name):
    module = filled(lib)
    weight = module.layer.weight
    same = TO[name](module, lib) is module
    meta = [value.is_meta if hasattr(value, "is_meta") else False for value in module.state_dict().values()]
    kept = None if any(meta) or "to_empty" in name or "meta" in name else values(module)
    # torch makes new Parameters on the meta device and back, lite keeps the object
    return same, "meta" in name or weight is module.layer.weight, described(module), meta, str(kept)


@pytest.mark.parametrize("name", ["float16", "float64", "int32", "uint8"])
@compared
def test_type(lib, name):
    module = filled(lib)
    if name in ("int32", "uint8"):
        # A torch Parameter that needs gradients cannot hold integers
        module.requires_grad_(False)
    return module.type(dtype(lib, name)) is module, described(module), values(module)


@pytest.mark.parametrize("kind", ["cuda", "xpu", "ipu", "mtia"])
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
    return [*log, net.compile(fullgraph=True)]


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("given", ["same", "without", "stranger", "not strict"])
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


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
@compared
def test_copies(lib, duplicate):
    module = filled(lib)
    module.tied = module.layer
    again = duplicate(module)
    again.layer.weight.data[...] = 9
    again.extra = lib.nn.ReLU()
    return again.tied is again.layer, values(module), values(again), list(again._modules)
