"""What the transforms ask of their input."""

import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict
from lite.nn.values.entries import require_array, require_time


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
