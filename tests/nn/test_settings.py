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

from lite.nn import (
    InteractionType,
    TensorDictModule,
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
    with setting(other):
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
