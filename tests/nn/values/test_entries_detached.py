"""Constants out of arrays, Parameters and TensorDicts."""

import numpy as np

from lite import TensorDict, nn
from lite.nn.values.entries import detached


def test_arrays_stay_what_they_are() -> None:
    array = np.ones(3)
    assert detached(array) is array
    assert detached(nn.Parameter(array)) is array


def test_parameters_in_a_tree_become_their_arrays() -> None:
    net = nn.Linear(2, 3)
    params = nn.TensorDictParams(TensorDict.from_module(net), no_convert=True)
    out = detached(params)
    assert type(out) is TensorDict
    assert out["weight"] is net.weight.data
    assert isinstance(params["weight"], nn.Parameter)
