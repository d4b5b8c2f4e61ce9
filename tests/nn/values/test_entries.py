"""What the transforms ask of their input."""

import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict, nn
from lite.nn.values.entries import detached, require_array, require_time


def test_time_and_arrays() -> None:
    td = TensorDict(next={"reward": np.zeros((2, 3))}, note="x", batch_size=[2])
    require_time(td, "Reader")
    assert require_array(td, ("next", "reward"), "Reader") is td["next", "reward"]


def test_errors_name_the_reader_and_the_entry() -> None:
    raises(TypeError, "Reader needs a TensorDict, got dict", require_time, {}, "Reader")
    with pytest.raises(ValueError, match="Reader needs a TensorDict with a time dimension"):
        require_time(TensorDict(), "Reader")
    raises(KeyError, "Reader reads the entry", require_array, TensorDict(), ("done",), "Reader")
    with pytest.raises(TypeError, match="as an array, got TensorDict"):
        require_array(TensorDict(done={"a": 1}), ("done",), "Reader")


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
