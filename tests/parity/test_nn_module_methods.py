"""Each method of nn.Module as torch's does it, for what `test_nn_module.py` does not draw at random.

| method | here | elsewhere |
|---|---|---|
| add_module, register_module | test_children | test_nn_module: test_errors |
| apply, children, modules, named_* | test_traversal | test_nn_module: test_names_of_random_trees |
| half, float, double, bfloat16 | | test_nn_module: test_casts |
| type, to, to_empty, cpu, meta | test_to, test_type | test_nn_module: test_errors |
| cuda, xpu, ipu, mtia | test_other_devices | tests/nn/test_cast.py |
| compile | test_compile_gives_the_same | tests/nn/test_compile.py |
| train, eval, requires_grad_, zero_grad | test_flags | |
| get_submodule, get_parameter, get_buffer, set_submodule | test_access | test_nn_module: test_errors |
| get_extra_state, set_extra_state | test_extra_state | |
| state_dict | test_state_dict | test_nn_module: test_names_of_random_trees |
| load_state_dict | test_loading, test_load_hooks | test_nn_module: test_loading_damaged_state_dicts |
| register_buffer, register_parameter | test_registration | test_nn_module: test_errors |
| forward hooks | test_handles, test_bad_hooks | test_nn_module: test_hooks |
| state-dict hooks | test_load_hooks, test_bad_hooks | test_nn_module: test_state_dict_hooks |
| backward hooks | test_backward_hooks | tests/nn/test_hooks.py |
| repr, extra_repr | | test_nn_module: test_repr |
"""

from __future__ import annotations

import copy
import pickle
import warnings
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the parity extra: torch")

from parity.modules import LITE, TORCH, agree  # noqa: E402

from lite import nn  # noqa: E402
from lite.nn import TensorDictModule  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*"),
    pytest.mark.filterwarnings("ignore:Complex modules:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*has no data:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*is a no-op:UserWarning"),
    pytest.mark.filterwarnings("ignore:backward hooks never run:UserWarning"),
]


def dtype_name(value: Any) -> str:
    return str(value.dtype).removeprefix("torch.")


def described(module: Any) -> dict[str, Any]:
    """Dtypes and shapes of all parameters and buffers, by name."""
    entries = (*module.named_parameters(), *module.named_buffers())
    return {name: (dtype_name(value), tuple(value.shape)) for name, value in entries}


def small(lib: Any) -> Any:
    """A layer, a float buffer, an integer buffer."""
    module = lib.nn.Sequential(OrderedDict(layer=lib.nn.Linear(2, 3)))
    module.register_buffer("mean", lib.array(2))
    module.register_buffer("steps", lib.of(np.zeros(1, np.int64)))
    return module


def dtype(lib: Any, name: str) -> Any:
    return getattr(torch, name) if lib is TORCH else np.dtype(name)


def values(module: Any) -> dict[str, Any]:
    return {name: np.asarray(value).tolist() for name, value in module.state_dict().items()}


def filled(lib: Any) -> Any:
    """`small` with the numbers 0, 1, 2, ..."""
    module = small(lib)
    for i, (name, value) in enumerate(module.state_dict().items()):
        size = int(np.prod(tuple(value.shape)))
        new = np.arange(size, dtype=dtype_name(value)).reshape(tuple(value.shape)) + i
        module.load_state_dict({name: lib.of(new.astype(dtype_name(value)))}, strict=False)
    return module


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
def test_children(case: Any) -> None:
    def run(lib: Any) -> Any:
        module = small(lib)
        result = case(module, lib)
        names = (
            [name for name, _ in module.named_children()],
            list(module._modules),
            list(module.state_dict()),
        )
        return result is None, names, repr(module)

    agree(run)


@pytest.mark.parametrize("remove_duplicate", [True, False])
def test_traversal(remove_duplicate: bool) -> None:
    def run(lib: Any) -> Any:
        shared = lib.nn.Linear(2, 2)
        net = lib.nn.Sequential(
            shared, lib.nn.Sequential(shared, lib.nn.ReLU()), lib.nn.ModuleDict({"a": shared})
        )
        seen: list[str] = []
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

    agree(run)


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
def test_to(name: str) -> None:
    def run(lib: Any) -> Any:
        module = filled(lib)
        weight = module.layer.weight
        same = TO[name](module, lib) is module
        meta = [
            value.is_meta if hasattr(value, "is_meta") else False for value in module.state_dict().values()
        ]
        kept = None if any(meta) or "to_empty" in name or "meta" in name else values(module)
        # torch makes new Parameters on the meta device and back, lite keeps the object
        return same, "meta" in name or weight is module.layer.weight, described(module), meta, str(kept)

    agree(run)


@pytest.mark.parametrize("name", ["float16", "float64", "int32", "uint8"])
def test_type(name: str) -> None:
    def run(lib: Any) -> Any:
        module = filled(lib)
        if name in ("int32", "uint8"):
            # A torch Parameter that needs gradients cannot hold integers
            module.requires_grad_(False)
        return module.type(dtype(lib, name)) is module, described(module), values(module)

    agree(run)


@pytest.mark.parametrize("kind", ["cuda", "xpu", "ipu", "mtia"])
def test_other_devices(kind: str) -> None:
    """Both refuse where there is none; the classes are torch's backends' own."""
    if kind != "ipu" and hasattr(torch, kind) and getattr(torch, kind).is_available():
        pytest.skip(f"this machine has {kind}")
    for lib in (LITE, TORCH):
        with pytest.raises((RuntimeError, AssertionError)):
            getattr(lib.nn.Linear(1, 1), kind)()


def test_compile_gives_the_same() -> None:
    """torch.compile and Numba of one function, on the same numbers."""

    def function(x: Any) -> Any:
        return x * x + 1

    module = TensorDictModule(function, ["x"], ["y"])
    module.compile(fullgraph=True, dynamic=False, backend="inductor")
    x = np.linspace(-1, 1, 7, dtype=np.float32)
    for _ in range(2):
        np.testing.assert_allclose(module(x), function(torch.from_numpy(x)), rtol=1e-6)


def test_flags() -> None:
    def run(lib: Any) -> Any:
        net = lib.nn.Sequential(lib.nn.Linear(1, 1), lib.nn.Sequential(lib.nn.Linear(1, 1)))
        log: list[Any] = [net.training]
        log += [net.eval() is net, [m.training for m in net.modules()]]
        log += [net[1].train() is net[1], [m.training for m in net.modules()]]
        log += [net.requires_grad_(False) is net, [p.requires_grad for p in net.parameters()]]
        log += [net.zero_grad(), net.zero_grad(set_to_none=False), [p.grad for p in net.parameters()]]
        return log

    agree(run)


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
def test_access(case: Any) -> None:
    def run(lib: Any) -> Any:
        module = small(lib)
        return case(module, lib), repr(module)

    agree(run)


@pytest.mark.parametrize("given", ["same", "without", "stranger", "not strict"])
def test_extra_state(given: str) -> None:
    def run(lib: Any) -> Any:
        class Counter(lib.nn.Module):  # type: ignore[name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.count = 3
                self.p = lib.parameter(lib.array(1))

            def get_extra_state(self) -> Any:
                return {"count": self.count}

            def set_extra_state(self, state: Any) -> None:
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

    agree(run)


STATE = {
    "plain": lambda m, lib: m.state_dict(),
    "prefix": lambda m, lib: m.state_dict(prefix="a."),
    "destination": lambda m, lib: m.state_dict(destination={"first": 1}),
    "by position": lambda m, lib: m.state_dict({}, "a."),
}


@pytest.mark.filterwarnings("ignore:Positional args:FutureWarning", "ignore:pass destination:FutureWarning")
@pytest.mark.parametrize("name", STATE)
def test_state_dict(name: str) -> None:
    def run(lib: Any) -> Any:
        module = small(lib)
        module.register_buffer("scratch", lib.array(1), persistent=False)
        module.register_parameter("none", None)
        state = STATE[name](module, lib)
        meta = {key: dict(value) for key, value in getattr(state, "_metadata", {}).items()}
        return type(state) in (dict, OrderedDict) or isinstance(state, OrderedDict), list(state), meta

    agree(run)


def test_state_dicts_share_memory() -> None:
    def run(lib: Any) -> Any:
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

    def without_bias(lib: Any) -> Any:
        result = run(lib)
        result[0].pop("layer.bias")  # drawn at random
        return result

    agree(without_bias)


def test_positional_arguments_warn() -> None:
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
def test_loading(name: str) -> None:
    content, options = LOADS[name]

    def run(lib: Any) -> Any:
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


def test_matching_keys_have_a_repr() -> None:
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
def test_registration(case: Any) -> None:
    def run(lib: Any) -> Any:
        module = small(lib)
        return case(module, lib), list(module.state_dict()), described(module)

    agree(run)


def test_load_hooks() -> None:
    def run(lib: Any) -> Any:
        net = lib.nn.Sequential(lib.nn.Linear(1, 1, bias=False), lib.nn.Linear(1, 1, bias=False))

        def rename(m: Any, state: Any, prefix: str, *rest: Any) -> None:
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
def test_bad_hooks(name: str) -> None:
    """The class of what is raised, and that the module works as before once the hook is gone."""

    def run(lib: Any) -> Any:
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
        return (
            errors,
            unchanged if "post-hook raises" not in name else None,
            tuple(module(lib.array(1)).shape),
        )

    agree(run)


def test_handles() -> None:
    def run(lib: Any) -> Any:
        log: list[Any] = []
        module = lib.nn.Identity()
        with module.register_forward_hook(lambda m, a, o: log.append("in")):
            module(1)
        module(2)
        handle = module.register_forward_pre_hook(lambda m, a: log.append("pre"))
        handle.remove()
        handle.remove()
        module(3)
        return log, len(module._forward_hooks), len(module._forward_pre_hooks)

    agree(run)


@pytest.mark.parametrize("order", ["old full", "full old", "old old", "full full", "pre full"])
def test_backward_hooks(order: str) -> None:
    def run(lib: Any) -> Any:
        module = lib.nn.Linear(1, 1)
        register = {
            "old": module.register_backward_hook,
            "full": module.register_full_backward_hook,
            "pre": module.register_full_backward_pre_hook,
        }
        fired: list[int] = []
        handles = [register[kind](lambda *args: fired.append(1)) for kind in order.split()]
        for handle in handles:
            handle.remove()
        module(lib.array(1))
        return len(handles), fired

    agree(run)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies(duplicate: Any) -> None:
    def run(lib: Any) -> Any:
        module = filled(lib)
        module.tied = module.layer
        again = duplicate(module)
        again.layer.weight.data[...] = 9
        again.extra = lib.nn.ReLU()
        return again.tied is again.layer, values(module), values(again), list(again._modules)

    agree(run)


def test_no_warning_without_hooks_and_positions() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module = nn.Linear(2, 2)
        module.load_state_dict(module.state_dict())
        module.to("cpu").eval()
