"""Methods that `lite.nn` registers: no call imports more than it needs."""

import subprocess
import sys

import numpy as np
import pytest

from lite import TensorDict, nn

SCRIPT = """
import sys, lite
td = lite.TensorDict(a=[1, 2])
for call in (td.to_module, lite.from_module, lite.from_modules):
    try:
        call(None)
        raise AssertionError
    except TypeError as error:
        assert str(error) == "module must be a Module, got NoneType.", error
assert "lite.nn" not in sys.modules and {"nn", "__version__"} <= set(dir(lite))
net = lite.nn.Identity()
lite.nn.TensorDictSequential(lite.nn.TensorDictModule(lite.nn.MLP(4, 2), ["x"], ["y"]))
unasked = ("lite.nn.distributions", "lite.nn.values", "lite.nn.layers.transformer", "lite.kernels",
           "lite._transforms.vmap.transform")
assert not [name for name in sys.modules if name.startswith(unasked)]
assert not any(name.startswith(("lite.nn._parameters", "lite.nn._export")) for name in sys.modules)
lite.from_module(net)
assert "lite.nn._parameters.from_module" in sys.modules
lite.optim.Adam, lite.data.GAE, lite.envs.GymEnv, lite.kernels.gae, lite.models.History  # with no import
assert not {"numba", "onnxruntime", "tokenizers", "jinja2", "gymnasium"} & set(sys.modules)
"""


def test_implementations_are_imported_on_the_first_call() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)


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
