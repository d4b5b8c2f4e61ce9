"""The three settings of TensorDict modules: blocks, decorators, threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case

from lite import TensorDict, nn
from lite.nn import (
    InteractionType,
    TensorDictModule,
    TensorDictSequential,
    interaction_type,
    set_interaction_type,
    set_skip_existing,
    skip_existing,
)
from lite.nn.settings import _set_dispatch_td_nn_modules, dispatching

SETTINGS: list[tuple[Callable[[Any], Any], Callable[[], Any], Any, Any]] = [
    (set_skip_existing, skip_existing, False, True),
    (set_interaction_type, interaction_type, None, InteractionType.RANDOM),
    (_set_dispatch_td_nn_modules, dispatching, True, False),
]


@each_case(("setting", "current", "before", "other"), SETTINGS)
def test_a_value_holds_inside_a_block(setting: Any, current: Any, before: Any, other: Any) -> None:
    assert current() == before
    block = setting(other)
    with block, setting(before), block:
        assert current() == other
    with pytest.raises(ZeroDivisionError), block:
        _ = 1 / 0
    assert current() == before


@each_case(("setting", "current", "before", "other"), SETTINGS)
def test_other_threads_keep_theirs(setting: Any, current: Any, before: Any, other: Any) -> None:
    seen = []
    asked = {} if setting is _set_dispatch_td_nn_modules else {"thread_local": True}  # as with or without
    with setting(other, **asked):
        thread = threading.Thread(target=lambda: seen.append(current()))
        thread.start()
        thread.join()
    assert seen == [before]


@pytest.mark.parametrize(("setting", "current", "before", "other"), SETTINGS[1:])
def test_decorated_functions(setting: Any, current: Any, before: Any, other: Any) -> None:
    @setting(other)
    def look() -> Any:
        """Says what holds."""
        return current()

    assert (look(), look.__doc__, current()) == (other, "Says what holds.", before)


def test_names_of_interaction_types() -> None:
    with set_interaction_type("Mean"):
        assert interaction_type() is InteractionType.MEAN
    with pytest.raises(ValueError, match="'best' is not a valid InteractionType"):
        set_interaction_type("best")


def test_without_dispatch_arrays_are_no_tensordict() -> None:
    module = TensorDictModule(lambda x: x + 1, ["x"], ["y"])
    assert module(np.ones(1)) == [2]
    with _set_dispatch_td_nn_modules(False), pytest.raises(TypeError, match="expected a TensorDict"):
        module(np.ones(1))


def test_the_environment_switches_dispatch_off() -> None:
    code = "from lite.nn.settings import dispatching; print(dispatching())"
    environment = {**os.environ, "DISPATCH_TDNN_MODULES": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout == "False\n"


class Counting:
    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return x + 1


def test_none_is_no_context():
    with pytest.raises(RuntimeError, match="It seems you are using"), set_skip_existing(None):
        pass


@each_case("make", [lambda m: m, TensorDictSequential], ids=["module", "sequence"])
def test_modules_obey_the_flag(make):
    payload = Counting()
    module = make(TensorDictModule(payload, ["x"], [("n", "y")]))
    td = TensorDict({"x": 1, "n": {"y": 7}})
    with set_skip_existing():
        assert module(td) is td
        assert payload.calls == 0
        module(TensorDict(x=1))
    assert payload.calls == 1
    module(td)
    assert payload.calls == 2
    assert td["n", "y"] == 2


def test_partly_present_outputs_are_all_computed():
    module = TensorDictModule(lambda x: (x, x), ["x"], ["y", "z"])
    with set_skip_existing():
        assert module(TensorDict(x=1, y=5))["y"] == 1


@each_case(("mode", "outside", "expected"), [(True, False, 0), (None, False, 1), (None, True, 0)])
def test_decorator(mode, outside, expected):
    class Mod(nn.TensorDictModuleBase):
        in_keys = []  # noqa: RUF012
        out_keys = ["out"]  # noqa: RUF012
        calls = 0

        @set_skip_existing(mode)
        def forward(self, tensordict):
            self.calls += 1
            self.flag = skip_existing()
            return tensordict.set("out", 1)

    module = Mod()
    with set_skip_existing(outside):
        module(TensorDict(out=0))
    assert module.calls == expected
    if expected:
        assert module.flag is False
    assert not skip_existing()


def test_decorator_reads_other_attributes():
    class Mod:
        reads, writes = ("a",), ("b",)

        @set_skip_existing(in_key_attr="reads", out_key_attr="writes")
        def run(self, tensordict):
            return None

    td = TensorDict(a=1, b=2)
    assert Mod().run(td) is td
    assert Mod().run(tensordict=TensorDict(a=1)) is None


def test_decorator_checks_the_argument_name():
    with pytest.raises(RuntimeError, match="tensordict"):
        set_skip_existing()(lambda self, td: td)
