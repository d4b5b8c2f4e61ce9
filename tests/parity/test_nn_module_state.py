"""State dicts and hooks of nn.Module as torch has them; the table is in `test_nn_module_methods.py`."""

import warnings
from collections import OrderedDict

import numpy as np
import pytest
from parity.module_cases import QUIET, described, filled, small, values
from parity.modules import LITE, TORCH, agree, compared

from lite import nn

pytestmark = QUIET


STATE = {
    "plain": lambda m, lib: m.state_dict(),
    "prefix": lambda m, lib: m.state_dict(prefix="a."),
    "destination": lambda m, lib: m.state_dict(destination={"first": 1}),
    "by position": lambda m, lib: m.state_dict({}, "a."),
}


@pytest.mark.filterwarnings("ignore:Positional args:FutureWarning", "ignore:pass destination:FutureWarning")
@pytest.mark.parametrize("name", STATE)
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


def test_positional_arguments_warn():
    for lib in (LITE, TORCH):
        with pytest.warns(FutureWarning):
            small(lib).state_dict({})


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


@pytest.mark.parametrize("name", LOADS)
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
            result.unexpected_keys,
            described(module),
            values(module),
            weight is module.layer.weight,
            mean is module.mean,
            module.layer.weight.requires_grad,
            sorted(given),
        )

    agree(run)


def test_matching_keys_have_a_repr():
    agree(lambda lib: repr(small(lib).load_state_dict(small(lib).state_dict())))
    agree(lambda lib: repr(small(lib).load_state_dict({}, strict=False)).removeprefix("_"))


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("name", BAD)
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


@compared
def test_handles(lib):
    log = []
    module = lib.nn.Identity()
    with module.register_forward_hook(lambda m, a, o: log.append("in")):
        module(1)
    module(2)
    handle = module.register_forward_pre_hook(lambda m, a: log.append("pre"))
    handle.remove()
    handle.remove()
    module(3)
    return log, len(module._forward_hooks), len(module._forward_pre_hooks)


@pytest.mark.parametrize("order", ["old full", "full old", "old old", "full full", "pre full"])
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


def test_no_warning_without_hooks_and_positions():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module = nn.Linear(2, 2)
        module.load_state_dict(module.state_dict())
        module.to("cpu").eval()
