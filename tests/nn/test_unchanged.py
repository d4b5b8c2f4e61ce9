"""After an error, module and TensorDict are what they were: objects, values, hooks, flags."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lite import TensorDict, from_modules, nn, vmap

F32 = np.float32


class Hit(Exception):
    """What the tests' own functions raise."""


def fail(*args: Any, **kwargs: Any) -> Any:
    raise Hit("raised inside")


class Extra(nn.Module):
    """Cannot load the state that it saves."""

    def get_extra_state(self) -> Any:
        return np.zeros(1)

    set_extra_state = fail


class Net(nn.Module):
    """Layers, buffers, a TensorDict as buffer, a TensorDictParams."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(2, 3, rng=0)
        self.b = nn.Sequential(nn.Linear(3, 2, rng=1))
        self.params = nn.TensorDictParams(TensorDict(scale=np.ones(2, F32), n={"steps": np.ones(1, int)}))
        self.register_buffer("mean", np.ones(2, F32))
        self.register_buffer("steps", np.ones(1, np.int64))
        self.register_buffer("tree", TensorDict(x=np.ones(2, F32)))

    def forward(self, x: Any) -> Any:
        return self.b(self.a(x)) * self.params["scale"]


def look(module: Any) -> list[Any]:
    """Everything that may not change: which objects there are, what they hold, in which order."""
    seen: list[Any] = []
    for name, child in module.named_modules():
        seen.append((name, child.training, [len(v) for k, v in vars(child).items() if k.endswith("_hooks")]))
    for name, value in (*module.named_parameters(), *module.named_buffers()):
        array = value.data if isinstance(value, nn.Parameter) else value
        leaves = [("", array)]
        if isinstance(value, TensorDict):
            leaves = list(value.items(True, True))
        flag = getattr(value, "requires_grad", None)
        for key, leaf in leaves:
            content = None if isinstance(leaf, nn.MetaArray) else np.array(leaf)
            seen.append((name, key, id(value), id(leaf), flag, leaf.dtype, content))
    return seen


def assert_same(got: list[Any], expected: list[Any]) -> None:
    assert [entry[:-1] for entry in got] == [entry[:-1] for entry in expected]
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_equal(a[-1], b[-1])


def other(module: Any, **changes: Any) -> dict[str, Any]:
    """A state dict with other values, and what is wrong with it."""
    state = {}
    for name, value in module.state_dict().items():
        state[name] = value.clone().zero_() if isinstance(value, TensorDict) else value * 0
    state.update({name.replace("__", "."): value for name, value in changes.items()})
    return state


def load(assign: bool = False, strict: bool = True, **changes: Any) -> Callable[[Any], Any]:
    return lambda module: module.load_state_dict(other(module, **changes), strict, assign)


def hooked(register: str, hook: Any, action: Callable[[Any], Any], where: str = "b") -> Callable[[Any], Any]:
    def run(module: Any) -> None:
        with getattr(module.get_submodule(where), register)(hook):
            action(module)

    return run


def forward(module: Any) -> Any:
    return module(np.ones(2, F32))


LOAD_HOOK, POST_HOOK = "register_load_state_dict_pre_hook", "register_load_state_dict_post_hook"

MODULE: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "forward pre-hook": (hooked("register_forward_pre_hook", fail, forward), Hit, "inside"),
    "forward hook": (hooked("register_forward_hook", fail, forward), Hit, "inside"),
    "state_dict pre-hook": (
        hooked("register_state_dict_pre_hook", fail, lambda m: m.state_dict()),
        Hit,
        "inside",
    ),
    "state_dict post-hook": (
        hooked("register_state_dict_post_hook", fail, lambda m: m.state_dict()),
        Hit,
        "inside",
    ),
    "load pre-hook": (hooked(LOAD_HOOK, fail, load()), Hit, "inside"),
    "load post-hook": (hooked(POST_HOOK, fail, load()), Hit, "inside"),
    "load post-hook, assign": (hooked(POST_HOOK, fail, load(assign=True)), Hit, "inside"),
    "load post-hook of params": (
        hooked(POST_HOOK, fail, load(assign=True), "params"),
        Hit,
        "inside",
    ),
    "load post-hook returns": (hooked(POST_HOOK, lambda *_: 1, load()), AssertionError, "None"),
    "load post-hook adds a key": (
        hooked(POST_HOOK, lambda _, keys: keys.missing_keys.append("b.q"), load()),
        RuntimeError,
        r'Missing key\(s\) in state_dict: "b.q"',
    ),
    "load pre-hook reports": (
        hooked(LOAD_HOOK, lambda *args: args[-1].append("too old"), load()),
        RuntimeError,
        "too old",
    ),
    "load a list": (lambda m: m.load_state_dict([1]), TypeError, "mapping of names to arrays, got list"),
    "load an unexpected key": (load(q=np.ones(1)), RuntimeError, r'Unexpected key\(s\) in state_dict: "q"'),
    "load a shape": (
        load(strict=False, b__0__bias=np.ones(5)),
        RuntimeError,
        r'"b.0.bias": size mismatch: the state dict has shape \(5,\), the module has shape \(2,\)',
    ),
    "load a shape of params": (load(params__scale=np.ones(5)), RuntimeError, r'"params.scale": size'),
    "load a shape of a TensorDict": (load(tree=TensorDict(x=np.ones(5))), RuntimeError, '"tree": size'),
    "load a list of numbers": (load(b__0__bias=[1, 2]), RuntimeError, "expected an array, got list"),
    "load strings": (load(b__0__bias=np.array(["a", "b"])), RuntimeError, "numbers, got the dtype <U1"),
    "load objects": (load(b__0__bias=np.array([None, {}])), RuntimeError, "numbers, got the dtype object"),
    "assign strings": (load(True, b__0__bias=np.array(["a", "b"])), RuntimeError, "numbers, got the dtype"),
    "assign integers": (
        load(True, b__0__bias=np.array([1, 2])),
        RuntimeError,
        "requires_grad takes floating or complex arrays, got int64",
    ),
    "to of integers": (lambda m: m.to(np.int32), TypeError, "floating or complex dtype, got int32"),
    "to of a device": (lambda m: m.to("cuda:0", np.float64), RuntimeError, "cuda:0"),
    "type of objects": (lambda m: m.type(object), TypeError, "numbers or its name, got <class 'object'>"),
    "type of an unknown name": (lambda m: m.type("halff"), TypeError, "dtype or its name, got 'halff'"),
    "train": (lambda m: m.train("yes"), ValueError, "must be a bool, got 'yes'"),
    "apply": (lambda m: m.apply(fail), Hit, "inside"),
    "forward": (lambda m: m(np.ones(7, F32)), RuntimeError, "in_features=2, got"),
}


@pytest.mark.parametrize("name", MODULE)
def test_modules(name: str) -> None:
    action, error, match = MODULE[name]
    module = Net()
    before = look(module)
    with pytest.raises(error, match=match):
        action(module)
    assert_same(look(module), before)


def test_loading_after_an_error_works() -> None:
    module = Net()
    with pytest.raises(Hit):
        MODULE["load post-hook, assign"][0](module)
    module.load_state_dict(other(module))
    assert not any(np.any(value) for value in module.parameters())


@pytest.mark.parametrize("assign", [False, True])
def test_extra_state_that_cannot_be_set(assign: bool) -> None:
    module = Net()
    module.extra = Extra()
    before = look(module)
    with pytest.raises(Hit):
        load(assign)(module)
    assert_same(look(module), before)


def test_a_child_without_data_cannot_move() -> None:
    module = Net()
    module.b[0].to("meta")
    before = look(module)
    for move in (lambda: module.to("cpu", np.float16), module.cpu):
        with pytest.raises(NotImplementedError, match="to_empty"):
            move()
        assert_same(look(module), before)
    with pytest.raises(RuntimeError, match="no data"):
        forward(module)
    assert_same(look(module), before)


def test_the_gradient_flag_of_integers() -> None:
    module = Net().requires_grad_(False)
    module.count = nn.Parameter(np.ones(1, np.int64), requires_grad=False)
    before = look(module)
    with pytest.raises(RuntimeError, match="floating or complex dtype, got int64"):
        module.requires_grad_()
    assert_same(look(module), before)


def test_what_is_one_array_stays_one() -> None:
    shared = np.ones(2, F32)
    module = Net()
    module.mean = shared
    module.twice = nn.Parameter(shared)
    module.half()
    assert module.twice.data is module.mean
    assert module.mean.dtype == np.float16


# -- parameters exchanged ---------------------------------------------------------------------------


def zeros(module: Any) -> Any:
    return TensorDict.from_module(module).data.clone().zero_()


def exchange(change: Callable[[Any], Any] = lambda params: None, **options: Any) -> Callable[[Any], Any]:
    def run(module: Any) -> None:
        params = zeros(module)
        change(params)
        with params.to_module(module, **options):
            forward(module)
            fail()

    return run


def setting(key: Any, value: Any) -> Callable[[Any], Any]:
    return lambda params: params.set(key, value)


OPTIONS = ({}, {"inplace": True}, {"preserve_module_state": False}, {"use_state_dict": True})
EXCHANGES = [
    *((exchange(**options), Hit, "inside") for options in OPTIONS),
    *(
        (exchange(setting(("b", "0", "q"), np.ones(1, F32)), **options), KeyError, "Linear has no .* 'q'")
        for options in OPTIONS
    ),
    (exchange(setting("q", TensorDict(x=np.ones(1)))), KeyError, "Net has no .* 'q'"),
    (exchange(setting("b", np.ones(1))), KeyError, "'b' is a child of Net"),
    (exchange(setting(("a", "weight"), TensorDict())), TypeError, "must be an array, got a TensorDict"),
    (exchange(setting(("a", "weight"), "text")), TypeError, "must be an array, got a NonTensorData"),
    (
        exchange(setting(("b", "0", "bias"), np.ones(7, F32)), inplace=True),
        RuntimeError,
        r"'bias' has \(2,\), the entry \(7,\)",
    ),
    (exchange(inplace=True, use_state_dict=True), RuntimeError, "inplace cannot be chosen together"),
    (exchange(memo={}), RuntimeError, "memo cannot be passed"),
    (exchange(return_swap=False, inplace=True, swap_dest=TensorDict().lock_()), RuntimeError, "locked"),
]


@pytest.mark.parametrize(("action", "error", "match"), EXCHANGES)
def test_exchanges(action: Any, error: type[Exception], match: str) -> None:
    module = Net()
    before = look(module)
    with pytest.raises(error, match=match):
        action(module)
    assert_same(look(module), before)


def test_vmap_over_parameters() -> None:
    module = Net()
    before = look(module)

    def run(params: Any, x: Any) -> Any:
        with params.to_module(module):
            return fail(module(x))

    with pytest.raises(Hit):
        vmap(run, (0, None))(from_modules(Net(), Net()), np.ones(2, F32))
    assert_same(look(module), before)


def test_kinds_are_kept_or_not() -> None:
    layer = nn.Linear(1, 1)
    plain = TensorDict.from_module(layer).data
    with pytest.warns(FutureWarning, match="None means False"):
        plain.to_module(layer, preserve_module_state=None)
    assert type(layer.weight) is np.ndarray


# -- TensorDict modules -----------------------------------------------------------------------------

Mod, Seq = nn.TensorDictModule, nn.TensorDictSequential


def add(x: Any) -> Any:
    return x + 1


CALLS: dict[str, tuple[Any, type[Exception], str]] = {
    "function": (Mod(fail, ["x"], ["y"]), Hit, "inside"),
    "more results": (Mod(lambda x: (x, x), ["x"], ["y"]), RuntimeError, r"more results \(2\) than out_keys"),
    "fewer results": (Mod(add, ["x"], ["y", "z"]), RuntimeError, r"fewer results \(1\) than out_keys"),
    "no result": (Mod(lambda x: None, ["x"], ["y"]), RuntimeError, r"fewer results \(0\) than out_keys"),
    "batch size": (Mod(lambda x: x[:2], ["x"], ["y"]), RuntimeError, "batch dimension mismatch"),
    "second result": (
        Mod(lambda x: (x, x[:2]), ["x"], ["y", ("n", "z")]),
        RuntimeError,
        "batch dimension mismatch",
    ),
    "missing key": (Mod(lambda x, q: x + q, ["x", "q"], ["y"]), KeyError, r"inputs are None: \['q'\]"),
    "missing key, strict": (Mod(add, ["q"], ["y"], strict=True), KeyError, "q"),
    "method": (Mod(3, ["x"], ["y"], method="nope"), AttributeError, "nope"),
    "unknown keyword": (lambda td: Mod(add, ["x"], ["y"])(td, q=1), TypeError, "'q'"),
    "more arguments": (lambda td: Mod(add, ["x"], ["y"])(td, 1), ValueError, "got 1 more arguments"),
    "keyword of a sequence": (lambda td: Seq(Mod(add, ["x"], ["y"]))(td, q=1), RuntimeError, "'q'"),
    "selection of a sequence": (
        Seq(Mod(add, ["x"], ["y"]), Mod(fail, ["y"], ["z"])).select_out_keys("z"),
        Hit,
        "inside",
    ),
    "other output": (
        lambda td: Seq(Mod(add, ["x"], ["y"]), Mod(fail, ["y"], ["z"]))(td, TensorDict()),
        Hit,
        "inside",
    ),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("hooked_too", [False, True])
def test_tensordicts(name: str, hooked_too: bool) -> None:
    call, error, match = CALLS[name]
    td = TensorDict({"x": np.ones(3, F32), "n": {"k": np.ones((3, 2))}}, [3])
    before = [(key, value) for key, value in td.items(True, True)]
    if hooked_too and isinstance(call, nn.Module):  # the long way
        with call.register_forward_hook(lambda *args: None), pytest.raises(error, match=match):
            call(td)
    else:
        with pytest.raises(error, match=match):
            call(td)
    after = list(td.items(True, True))
    assert [key for key, _ in after] == [key for key, _ in before]
    assert all(a is b for (_, a), (_, b) in zip(after, before, strict=True))
    np.testing.assert_array_equal(td["x"], np.ones(3, F32))
    assert td.batch_size == (3,)


@pytest.mark.parametrize("keys", [("q",), ("y", "q"), (["y"],)])
def test_selections_that_fail(keys: Any) -> None:
    module = Mod(lambda x: (x, x), ["x"], ["y", "z"]).select_out_keys("y")
    with pytest.raises((ValueError, RuntimeError)):
        module.select_out_keys(*keys)
    assert module.out_keys == ["y"]
    assert module.out_keys_source == ["y", "z"]
    assert sorted(module(TensorDict(x=np.ones(1))).keys()) == ["x", "y"]


@pytest.mark.parametrize("change", [lambda p: p.set("b", 1.0), lambda p: p.del_("a"), lambda p: p.zero()])
def test_locked_params(change: Any) -> None:
    params = nn.TensorDictParams(TensorDict(a=np.ones(2, F32))).lock_()
    leaf = params["a"]
    with pytest.raises((RuntimeError, AttributeError)):
        change(params)
    assert list(params.keys()) == ["a"]
    assert params["a"] is leaf
    np.testing.assert_array_equal(leaf, 1)
