"""Lazy hooks from containers to modules import `lite.nn` on the first call, not before."""

import subprocess
import sys

import numpy as np
import pytest

from lite import TensorDict, nn

SCRIPT = """
import sys, lite
td = lite.TensorDict(a=[1, 2])
td.to_module, lite.from_module
assert "lite.nn" not in sys.modules
try:
    td.to_module(None)
except TypeError:
    assert "lite.nn" in sys.modules
"""


def test_modules_are_imported_on_the_first_call() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)


def test_packages_need_no_import_of_their_own() -> None:
    script = """
import sys, lite
assert "lite.nn" not in sys.modules and "nn" in dir(lite)
lite.nn.Linear(2, 1), lite.optim.Adam, lite.data.GAE, lite.kernels.gae, lite.models.History
assert not {"numba", "onnxruntime", "tokenizers", "jinja2", "gymnasium"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_there_and_back() -> None:
    net = nn.Linear(2, 1)
    before = net.weight
    params = TensorDict.from_module(net)
    assert params["weight"] is before
    with params.apply(np.zeros_like).to_module(net):
        np.testing.assert_array_equal(net(np.ones(2, np.float32)), [0])
    assert net.weight is before
    assert TensorDict.from_modules(net, nn.Linear(2, 1))["weight"].shape == (2, 1, 2)


def test_what_is_refused_or_told() -> None:
    net = nn.Linear(2, 1)
    params = TensorDict.from_module(net)
    with pytest.raises(RuntimeError, match="memo"):
        params.to_module(net, memo={})
    with pytest.warns(FutureWarning, match="preserve_module_state"):
        params.to_module(net, preserve_module_state=None)
