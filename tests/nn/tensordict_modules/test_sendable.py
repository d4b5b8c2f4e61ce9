"""Modules around plain callables in pickles and copies."""

import copy
import functools
import itertools
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case

from lite import TensorDict
from lite.nn import TensorDictModule, TensorDictSequential, WrapModule


def double(x: Any) -> Any:
    return x * 2


class Scale:
    def __init__(self, factor: Any) -> None:
        self.factor = factor

    def __call__(self, x: Any) -> Any:
        return x * self.factor


def value(module: Any) -> Any:
    return module(TensorDict(x=np.ones(2)))["y"].tolist()


def sent(module: Any) -> Any:
    return pickle.loads(pickle.dumps(module))


def test_what_pickle_takes_goes_as_it_is() -> None:
    text = pickle.dumps(TensorDictModule(double, ["x"], ["y"]))
    assert b"double" in text
    assert b"cloudpickle" not in text
    assert b"lite.nn.tensordict_modules" not in text  # pickles outlive the layout
    module = pickle.loads(text)
    assert module.module is double
    assert value(module) == [2, 2]
    shared = Scale(np.full(2, 3.0))
    first, second = sent((TensorDictModule(shared, ["x"], ["y"]), TensorDictModule(shared, ["x"], ["y"])))
    assert first.module is second.module
    assert value(first) == [3, 3]


@each_case(
    ("function", "copied"),
    itertools.product(
        [lambda x: x + 1, functools.partial(lambda a, x: a + x, 1), Scale((lambda: 2.0)())],
        [copy.copy, copy.deepcopy, sent],
    ),
)
def test_lambdas(function: Any, copied: Any) -> None:
    offset = 1.0

    def inner(x: Any) -> Any:
        return function(x) * offset

    for given in (function, inner):
        module = TensorDictModule(given, ["x"], ["y"], inplace=False)
        other = copied(module)
        assert value(other) == value(module) == [2, 2]
        assert (other.in_keys, other.inplace) == (["x"], False)
        assert other.__dict__.keys() == module.__dict__.keys()


def test_copies_keep_the_function() -> None:
    module = TensorDictModule(lambda x: x, ["x"], ["y"])
    assert copy.copy(module).module is copy.deepcopy(module).module is module.module
    scale = TensorDictModule(Scale(np.ones(2)), ["x"], ["y"])
    assert copy.copy(scale).module is scale.module
    assert copy.deepcopy(scale).module is not scale.module


def test_sequences_and_whole_tensordicts() -> None:
    add = TensorDictModule(lambda x: x + 1, ["x"], ["h"])
    seq = sent(TensorDictSequential(add, lambda td: td.set("y", td["h"] * 2)))
    assert isinstance(seq[1], WrapModule)
    assert value(seq) == [4, 4]
    assert sent(add.select_out_keys("h")).out_keys == ["h"]


@pytest.mark.processes
def test_other_processes_take_them() -> None:
    td = TensorDict(x=np.arange(4.0), batch_size=[4])
    result = td.map(TensorDictModule(lambda x: x + 1, ["x"], ["y"]), num_workers=1, chunksize=2)
    assert result["y"].tolist() == [1, 2, 3, 4]


@pytest.mark.processes
def test_without_cloudpickle() -> None:
    program = """
import pickle, sys
sys.modules["cloudpickle"] = None
from lite.nn import TensorDictModule
try:
    pickle.dumps(TensorDictModule(lambda x: x, ["x"], ["y"]))
except pickle.PicklingError as error:
    assert "define it at the top level of a module, or install cloudpickle" in str(error), error
else:
    raise AssertionError("no error")
"""
    done = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
