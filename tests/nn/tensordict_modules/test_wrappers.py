"""WrapModule, TensorDictModuleWrapper, as_tensordict_module."""

import numpy as np
import pytest

from lite import TensorDict, nn
from lite.nn import (
    TensorDictModule,
    TensorDictModuleWrapper,
    TensorDictSequential,
    WrapModule,
    as_tensordict_module,
)


def two(x):
    return x + 1, x + 2


class TestWrapModule:
    def test_returns_what_the_function_returns(self):
        td = TensorDict(a=np.zeros((2, 3)), batch_size=[2, 3])
        wrapped = WrapModule(lambda td: td.reshape(-1))
        assert wrapped(td).batch_size == (6,)
        assert wrapped.in_keys == wrapped.out_keys == []

    def test_inplace_writes_into_the_input(self):
        td = TensorDict(a=1)
        assert WrapModule(lambda td: TensorDict(b=td["a"] + 1), inplace=True)(td) is td
        assert td["b"] == 2
        assert WrapModule(lambda td: td.set("c", 3), inplace=True)(td) is td

    def test_keys_inform_the_sequence(self):
        seq = TensorDictSequential(WrapModule(lambda td: td, in_keys=["a"], out_keys=[("b", ("c",))]))
        assert seq.in_keys == ["a"]
        assert seq.out_keys == [("b", "c")]
        assert WrapModule(len).out_keys == []


class TestTensorDictModuleWrapper:
    def wrapper(self):
        return TensorDictModuleWrapper(TensorDictModule(two, ["a"], ["b", "c"]))

    def test_calls_keys_and_attributes(self):
        wrapper = self.wrapper()
        assert wrapper.in_keys == ["a"]
        assert wrapper.out_keys == wrapper.out_keys_source == ["b", "c"]
        assert wrapper(TensorDict(a=1))["c"] == 3
        assert wrapper(a=1) == (2, 3)
        assert wrapper.strict is False
        with pytest.raises(AttributeError, match="nope"):
            _ = wrapper.nope

    def test_state_dict_prefix(self):
        inner = TensorDictModule(nn.Linear(1, 1, bias=False), ["a"], ["b"])
        assert list(TensorDictModuleWrapper(inner).state_dict()) == ["td_module.module.weight"]

    def test_selection(self):
        wrapper = self.wrapper().select_out_keys("c")
        assert wrapper.out_keys == ["c"]
        assert set(wrapper(TensorDict(a=1, other=1)).keys()) == {"a", "c"}
        assert wrapper(a=1) == 3
        assert wrapper.td_module.out_keys == ["b", "c"]
        assert set(wrapper.reset_out_keys()(TensorDict(a=1)).keys()) == {"a", "b", "c"}

    def test_wrapping_a_selected_module(self):
        wrapper = TensorDictModuleWrapper(TensorDictModule(two, ["a"], ["b", "c"]).select_out_keys("c"))
        assert wrapper.out_keys == ["c"]
        assert set(wrapper(TensorDict(a=1)).keys()) == {"a", "c"}
        assert wrapper(a=1) == 3

    def test_hooks_are_copied(self):
        inner = TensorDictModule(two, ["a"], ["b", "c"])
        calls = []
        inner.register_forward_hook(lambda module, args, out: calls.append(type(module).__name__))
        TensorDictModuleWrapper(inner)(TensorDict(a=1))
        assert calls == ["TensorDictModule", "TensorDictModuleWrapper"]

    def test_assigning_keys(self):
        wrapper = self.wrapper()
        wrapper.in_keys = ["x"]
        wrapper.out_keys = ["y", "z"]
        assert wrapper.td_module.in_keys == ["x"]
        assert wrapper(x=1) == (2, 3)
        assert wrapper(TensorDict(x=1))["z"] == 3


class TestAsTensorDictModule:
    def test_function(self):
        @as_tensordict_module(in_keys=["a", "b"], out_keys="c")
        def add(a, b):
            return a + b

        assert add(TensorDict(a=1, b=2))["c"] == 3
        assert add(a=1, b=2) == 3
        assert TensorDictSequential(add).in_keys == ["a", "b"]

    def test_methods_use_the_object_they_are_called_on(self):
        class Adder:
            def __init__(self, n):
                self.n = n

            @as_tensordict_module(in_keys="a", out_keys="b")
            def add(self, a):
                return a + self.n

        one, hundred = Adder(1), Adder(100)
        assert one.add(TensorDict(a=0))["b"] == 1
        assert hundred.add(TensorDict(a=0))["b"] == 100
        assert one.add(0) == 1
        assert Adder.add.__name__ == "add"
