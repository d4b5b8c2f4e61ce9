"""What a process is given, and how it reads and writes its rows."""

import pickle
import threading

import numpy as np
import pytest
from helpers.cases import raises
from helpers.counting_env import CountingEnv

from lite import TensorDict, lazy_stack
from lite.envs.env_worker import copy_to, packed, rows_of


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
    shared = TensorDict({"x": np.zeros((2, 3)), "a": np.ones((2, 1))}, [2])
    rows = rows_of(shared[1])
    raises(KeyError, '"a"', copy_to, rows, TensorDict(x=np.full(3, 5.0), other=1))
    copy_to(rows, TensorDict(x=np.full(3, 6.0)), default=None)
    np.testing.assert_array_equal(shared["x"][:, 0], [0.0, 6.0])
    np.testing.assert_array_equal(shared["a"][:, 0], [1.0, 1.0])


def test_rows_of_lazy_stacks():
    stack = lazy_stack([TensorDict(x=np.zeros(n), a=np.ones(1)) for n in (1, 3)])
    given = lazy_stack([TensorDict(x=np.full(n, n)) for n in (1, 3)])
    for shared, source in ((stack, given), (TensorDict(n=stack), TensorDict(n=given))):
        rows = rows_of(shared)
        raises(KeyError, "a", copy_to, rows, source)
        for part in stack.tensordicts:
            part["x"][:] = 0
        copy_to(rows, source, default=None)
        assert [(part["x"].tolist(), part["a"].tolist()) for part in stack.tensordicts] == [
            ([1.0], [1.0]),
            ([3.0] * 3, [1.0]),
        ]
