"""What a process is given, and how it reads and writes its rows."""

import pickle
import threading

import numpy as np
import pytest
from helpers.counting_env import CountingEnv

from lite import TensorDict
from lite.envs.env_worker import Rows, packed


def test_functions_are_sent_with_their_arguments():
    make, keywords = pickle.loads(packed(CountingEnv, {"limit": 5}))
    assert make(**keywords).limits == 5
    try:
        import cloudpickle  # noqa: F401
    except ImportError:
        with pytest.raises(TypeError, match="top of a module"):
            packed(lambda: CountingEnv(), {})
    else:
        assert pickle.loads(packed(lambda: CountingEnv(), {}))[0]().batch_size == ()


def test_what_cannot_be_sent_is_said_with_the_way_out():
    with pytest.raises(TypeError, match=r"cannot be sent to it \(.*lock.*(Give|define) functions"):
        packed(CountingEnv, {"limit": threading.Lock()})


def test_rows():
    root = TensorDict({"x": np.zeros((2, 3)), "a": np.ones((2, 1))}, [2])
    following = TensorDict({"x": np.zeros((2, 3))}, [2])
    rows = Rows(root[1], following[1])
    rows.write_root(TensorDict(x=np.full(3, 5.0), other=1))
    rows.write_next(TensorDict(x=np.full(3, 6.0)))
    np.testing.assert_array_equal(root["x"][:, 0], [0.0, 5.0])
    np.testing.assert_array_equal(following["x"][:, 0], [0.0, 6.0])
    td = TensorDict()
    rows.read({"a"}, td)
    assert list(td.keys()) == ["a"]
    root["a"][1] = 0
    np.testing.assert_array_equal(td["a"], [1.0])
