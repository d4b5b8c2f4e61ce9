"""After an error a module is what it was."""

from collections.abc import Callable
from typing import Any

import numpy as np
from helpers.cases import each_case, raises
from helpers.unchanged import F32, Extra, Hit, Net, assert_same, fail, forward, look

from lite import TensorDict, nn


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


LOAD_HOOK, POST_HOOK = "register_load_state_dict_pre_hook", "register_load_state_dict_post_hook"

MODULE: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "forward pre-hook": (hooked("register_forward_pre_hook", fail, forward), Hit, "inside"),
    "forward hook": (hooked("register_forward_hook", fail, forward), Hit, "inside"),
    "state_dict pre-hook": (hooked("register_state_dict_pre_hook", fail, lambda m: m.state_dict()), Hit,
        "inside"),
    "state_dict post-hook": (hooked("register_state_dict_post_hook", fail, lambda m: m.state_dict()), Hit,
        "inside"),
    "load pre-hook": (hooked(LOAD_HOOK, fail, load()), Hit, "inside"),
    "load post-hook": (hooked(POST_HOOK, fail, load()), Hit, "inside"),
    "load post-hook, assign": (hooked(POST_HOOK, fail, load(assign=True)), Hit, "inside"),
    "load post-hook of params": (hooked(POST_HOOK, fail, load(assign=True), "params"), Hit, "inside"),
    "load post-hook returns": (hooked(POST_HOOK, lambda *_: 1, load()), AssertionError, "None"),
    "load post-hook adds a key": (hooked(POST_HOOK, lambda _, keys: keys.missing_keys.append("b.q"),
        load()), RuntimeError, r'Missing key\(s\) in state_dict: "b.q"'),
    "load pre-hook reports": (hooked(LOAD_HOOK, lambda *args: args[-1].append("too old"), load()),
        RuntimeError, "too old"),
    "load a list": (lambda m: m.load_state_dict([1]), TypeError, "must be a mapping, got list"),
    "load an unexpected key": (load(q=np.ones(1)), RuntimeError,
        r'Unexpected key\(s\) in state_dict: "q"'),
    "load a shape": (load(strict=False, b__0__bias=np.ones(5)), RuntimeError,
        r'"b.0.bias": size mismatch: the state dict has shape \(5,\), the module has shape \(2,\)'),
    "load a shape of params": (load(params__scale=np.ones(5)), RuntimeError, r'"params.scale": size'),
    "load a shape of a TensorDict": (load(tree=TensorDict(x=np.ones(5))), RuntimeError, '"tree": size'),
    "load a list of numbers": (load(b__0__bias=[1, 2]), RuntimeError, "expected an array, got list"),
    "load strings": (load(b__0__bias=np.array(["a", "b"])), RuntimeError, "numbers, got the dtype <U1"),
    "load objects": (load(b__0__bias=np.array([None, {}])), RuntimeError, "numbers, got the dtype object"),
    "assign strings": (load(True, b__0__bias=np.array(["a", "b"])), RuntimeError,
        "numbers, got the dtype"),
    "assign integers": (load(True, b__0__bias=np.array([1, 2])), RuntimeError,
        "requires_grad takes floating or complex arrays, got int64"),
    "to of integers": (lambda m: m.to(np.int32), TypeError, "floating or complex dtype, got int32"),
    "to of a device": (lambda m: m.to("cuda:0", np.float64), RuntimeError, "cuda:0"),
    "type of objects": (lambda m: m.type(object), TypeError,
        "numeric dtype or its name, got <class 'object'>"),
    "type of an unknown name": (lambda m: m.type("halff"), TypeError, "dtype or its name, got 'halff'"),
    "train": (lambda m: m.train("yes"), ValueError, "must be a bool, got 'yes'"),
    "apply": (lambda m: m.apply(fail), Hit, "inside"),
    "forward": (lambda m: m(np.ones(7, F32)), RuntimeError, "in_features=2, got"),
}  # fmt: skip


@each_case("name", MODULE)
def test_modules(name: str) -> None:
    action, error, match = MODULE[name]
    module = Net()
    before = look(module)
    raises(error, match, lambda: action(module))
    assert_same(look(module), before)


def test_loading_after_an_error_works() -> None:
    module = Net()
    raises(Hit, "", lambda: MODULE["load post-hook, assign"][0](module))
    module.load_state_dict(other(module))
    assert not any(np.any(value) for value in module.parameters())


@each_case("assign", [False, True])
def test_extra_state_that_cannot_be_set(assign: bool) -> None:
    module = Net()
    module.extra = Extra()
    before = look(module)
    raises(Hit, "", lambda: load(assign)(module))
    assert_same(look(module), before)


def test_a_child_without_data_cannot_move() -> None:
    module = Net()
    module.b[0].to("meta")
    before = look(module)
    for move in (lambda: module.to("cpu", np.float16), module.cpu):
        raises(NotImplementedError, "to_empty", move)
        assert_same(look(module), before)
    raises(RuntimeError, "no data", lambda: forward(module))
    assert_same(look(module), before)


def test_the_gradient_flag_of_integers() -> None:
    module = Net().requires_grad_(False)
    module.count = nn.Parameter(np.ones(1, np.int64), requires_grad=False)
    before = look(module)
    raises(RuntimeError, "floating or complex dtype, got int64", lambda: module.requires_grad_())
    assert_same(look(module), before)


def test_what_is_one_array_stays_one() -> None:
    shared = np.ones(2, F32)
    module = Net()
    module.mean = shared
    module.twice = nn.Parameter(shared)
    module.half()
    assert module.twice.data is module.mean
    assert module.mean.dtype == np.float16
