"""Methods, state dicts, registration and hooks of nn.Module as torch has them, by tables."""

import numpy as np
import pytest
import torch
from helpers.cases import each_case
from parity.functional import LITE, TORCH, agree, compared
from parity.module_cases import QUIET, described, filled, values

pytestmark = QUIET


def dtype(lib, name):
    return getattr(torch, name) if lib is TORCH else np.dtype(name)


TO = {
    "dtype": lambda m, lib: m.to(dtype(lib, "float64")),
    "complex": lambda m, lib: m.to(dtype(lib, "complex64")),
    "integer": lambda m, lib: m.to(dtype(lib, "int32")),
    "device": lambda m, lib: m.to("cpu"),
    "device and dtype": lambda m, lib: m.to("cpu", dtype(lib, "float16")),
    "non_blocking by position": lambda m, lib: m.to("cpu", dtype(lib, "float16"), True),
    "keywords": lambda m, lib: m.to(device="cpu", dtype=dtype(lib, "float64"), non_blocking=True),
    "array": lambda m, lib: m.to(lib.array(np.zeros(1, np.float64))),
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


@each_case("kind", ["cuda", "xpu", "ipu", "mtia"])
def test_other_devices(kind):
    """Both refuse where there is none; the classes are torch's backends' own."""
    if kind != "ipu" and hasattr(torch, kind) and getattr(torch, kind).is_available():
        pytest.skip(f"this machine has {kind}")
    for lib in (LITE, TORCH):
        with pytest.raises((RuntimeError, AssertionError)):
            getattr(lib.nn.Linear(1, 1), kind)()


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
        module.register_buffer("scratch", lib.zeros(1), persistent=False)
        module.register_buffer("scalar", lib.array(np.array(0, np.float32)))
        module.register_parameter("none", None)
        module.layer.weight.requires_grad_(False)
        weight, mean = module.layer.weight, module.mean
        given = {key: lib.array(np.array(value)) for key, value in content.items()}
        result = module.load_state_dict(given, **{"strict": False, **options})
        assigned = options.get("assign", False)
        return (
            result.missing_keys if not assigned else sorted(result.missing_keys),
            result.unexpected_keys, described(module), values(module), weight is module.layer.weight,
            mean is module.mean, module.layer.weight.requires_grad, sorted(given),
        )  # fmt: skip

    agree(run)


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
    state = {key: lib.array(np.ones(tuple(v.shape), np.float32)) for key, v in module.state_dict().items()}
    before = values(module)
    handle = BAD[name](module)
    errors = []
    for call in (lambda: module(lib.zeros(1)), module.state_dict, lambda: module.load_state_dict(state)):
        try:
            call()
            errors.append(None)
        except Exception as error:
            errors.append(type(error))
    unchanged = values(module) == before
    handle.remove()
    return (errors, unchanged if "post-hook raises" not in name else None, tuple(module(lib.zeros(1)).shape))


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
    module(lib.zeros(1))
    return len(handles), fired
