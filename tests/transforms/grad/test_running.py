"""What code that serves differentiated functions, too, asks."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

import lite
from lite import nn
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.running import leaf, state


def test_what_a_parameter_computes_as() -> None:
    weight = nn.Parameter(np.ones(2))
    assert leaf(weight) is weight.data
    with lite.enable_grad():
        assert type(leaf(weight)) is TracedArray
        assert leaf(weight).value is weight.data
        with lite.no_grad():
            assert leaf(weight) is weight.data
            assert state.paused
    assert not state.paused


def test_nothing_is_loaded_before_it_is_used() -> None:
    code = (
        "import sys, lite; a = [m for m in sys.modules if m.startswith('lite._transforms.grad')]; "
        "import lite.nn; "
        "b = 'lite._transforms.grad.ufuncs' in sys.modules; lite.grad; "
        "print(a, b, 'lite._transforms.grad.ufuncs' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "False", "True"]
