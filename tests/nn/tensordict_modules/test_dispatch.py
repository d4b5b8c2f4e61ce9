"""dispatch: arrays in, arrays out."""

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import TensorDict, nn
from lite.nn import TensorDictModule, dispatch
from lite.nn.settings import _set_dispatch_td_nn_modules


class Add(nn.Module):
    in_keys = [("a", "c"), "d"]  # noqa: RUF012
    out_keys = ["b"]  # noqa: RUF012

    @dispatch
    def forward(self, tensordict, extra=0):
        self.batch_size = tensordict.batch_size
        return tensordict.set("b", tensordict["a", "c"] + tensordict["d"] + extra)


def one(*shape):
    return np.ones(shape, dtype=np.float32)


def test_duplicated_argument():
    raises(RuntimeError, "Duplicated argument", lambda: Add()(one(1), one(1), a_c=one(1)))


def test_the_rest_goes_to_the_function():
    assert Add()(1, 2, 3) == 6
    assert Add()(1, 2, extra=3) == 6
    raises(TypeError, "", lambda: Add()(1, 2, unknown=3))


@each_case(("auto", "expected"), [(True, (2, 3)), (False, ())])
def test_batch_size(auto, expected):
    class Mod(nn.Module):
        in_keys = ["a", "b"]  # noqa: RUF012
        out_keys = []  # noqa: RUF012

        @dispatch(auto_batch_size=auto)
        def forward(self, tensordict):
            self.batch_size = tensordict.batch_size
            return tensordict

    module = Mod()
    assert module(a=one(2, 3, 4), b=one(2, 3)) == ()
    assert module.batch_size == expected


def test_plain_functions_need_lists():
    @dispatch(source=["a"], dest=["b"])
    def listed(tensordict):
        return tensordict.set("b", tensordict["a"] + 1)

    @dispatch
    def unlisted(tensordict):
        return tensordict

    assert listed(1) == 2
    assert listed(a=1) == 2
    assert listed(TensorDict(a=1))["b"] == 2
    assert listed(tensordict=TensorDict(a=1))["b"] == 2
    td = TensorDict()
    assert unlisted(td) is td
    raises(RuntimeError, "in keys must be passed", lambda: unlisted(a=1))


def test_first_argument_must_be_called_tensordict():
    raises(RuntimeError, r"named 'tensordict'\. Got td", lambda: dispatch(lambda td: td))
    with pytest.raises(RuntimeError, match=r"named 'tensordict'\. Got td"):

        class Mod(nn.Module):
            @dispatch
            def forward(self, td):
                return td


def test_missing_output_and_missing_input():
    class Mod(nn.Module):
        in_keys = ["a"]  # noqa: RUF012
        out_keys = ["b"]  # noqa: RUF012

        @dispatch
        def forward(self, tensordict):
            return tensordict

    raises(KeyError, "b", lambda: Mod()(a=1))
    raises(KeyError, "b", lambda: Mod()())


def test_switching_off():
    module = TensorDictModule(lambda x: x, ["x"], ["y"])
    with _set_dispatch_td_nn_modules(False):
        raises(TypeError, "tensordict", lambda: module(x=1))
        raises(TypeError, "expected a TensorDict, got int", lambda: module(1))
        assert module(TensorDict(x=1))["y"] == 1
    assert module(x=1) == 1

    @_set_dispatch_td_nn_modules(False)
    def call():
        return module(x=1)

    raises(TypeError, "", call)
    assert module(x=1) == 1
