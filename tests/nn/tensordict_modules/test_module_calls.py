"""Calls of a TensorDictModule see what was changed since the last one."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from helpers.cases import noting

from lite import TensorDict, lazy_stack, nn
from lite.nn import TensorDictModule as Mod
from lite.nn import TensorDictSequential as Seq


def one() -> Any:
    return Mod(lambda x: x + 1, ["a"], ["b"])


def value(td: Any, key: Any = "b") -> int:
    return int(td[key])


class TestChangesAreSeen:
    def test_hooks(self) -> None:
        module = one()
        module(TensorDict(a=0))
        with module.register_forward_hook(lambda m, args, out: out.set("b", 7)):
            assert value(module(TensorDict(a=0))) == 7
        with module.register_forward_pre_hook(lambda m, args: TensorDict(a=5)):
            assert value(module(TensorDict(a=0))) == 6
        assert value(module(TensorDict(a=0))) == 1

    def test_keys(self) -> None:
        module = one()
        module(TensorDict(a=0))
        module.in_keys[0] = "c"
        assert value(module(TensorDict(a=0, c=5))) == 6
        module.out_keys[0] = "d"
        assert value(module(TensorDict(c=5)), "d") == 6
        assert module(c=np.ones(1)) == [2]
        module.in_keys = ["e"]
        assert value(module(TensorDict(e=1)), "d") == 2
        assert module(e=np.array([1])) == [2]

    def test_attributes(self) -> None:
        for name, setting, expected in [
            ("inplace", False, ["b"]),
            ("inplace", "empty", ["b"]),
            ("module", lambda x: x - 1, ["a", "b"]),
            ("method_kwargs", {"k": 3}, None),
        ]:
            with noting(name, setting, expected):
                module = Mod(lambda x, k=1: x + k, ["a"], ["b"])
                module(TensorDict(a=0))
                setattr(module, name, setting)
                out = module(TensorDict(a=0))
                assert value(out) == {"module": -1, "method_kwargs": 3}.get(name, 1)
                assert expected is None or list(out.keys()) == expected

    def test_the_payload(self) -> None:
        module = Mod(nn.Identity(), ["a"], ["b"])
        assert value(module(TensorDict(a=3))) == 3

        class Plus(nn.Module):
            def forward(self, x: Any) -> Any:
                return x + 1

        module.add_module("module", Plus())
        assert value(module(TensorDict(a=3))) == 4
        module.module.register_forward_hook(lambda m, args, out: out * 2)
        assert value(module(TensorDict(a=3))) == 8
        module.forward = lambda td: td.set("b", -1)
        assert value(module(TensorDict(a=3))) == -1

    def test_selection_and_skipping(self) -> None:
        module = Mod(lambda x: (x + 1, x + 2), ["a"], ["b", "c"])
        assert value(module(TensorDict(a=0)), "c") == 2
        module.select_out_keys("c")
        assert list(module(TensorDict(a=0, z=1)).keys()) == ["a", "c"]
        assert module(np.array([0])) == [2]
        module.reset_out_keys()
        assert list(module(TensorDict(a=0)).keys()) == ["a", "b", "c"]
        with nn.set_skip_existing():
            assert value(module(TensorDict(a=0, b=9, c=9))) == 9

    def test_sequences(self) -> None:
        seq = Seq(one(), Mod(lambda x: x * 2, ["b"], ["c"]))
        assert value(seq(TensorDict(a=0)), "c") == 2
        seq[1] = Mod(lambda x: x * 3, ["b"], ["d"])
        assert value(seq(TensorDict(a=0)), "d") == 3
        seq.append(Mod(lambda x: x + 1, ["d"], ["e"]))
        assert seq(a=np.array(0)) == (1, 3, 4)
        seq.partial_tolerant = True
        assert list(seq(TensorDict(z=0)).keys()) == ["z"]
        seq.inplace = "empty"
        assert set(seq(TensorDict(a=0)).keys()) == {"b", "d", "e"}


def test_an_overridden_forward_is_called() -> None:
    class Doubled(Mod):
        def forward(self, tensordict: Any) -> Any:  # type: ignore[override]
            return super().forward(tensordict).set("twice", 2)

    assert value(Doubled(lambda x: x, ["a"], ["b"])(TensorDict(a=1)), "twice") == 2


def test_other_containers() -> None:
    module = one()
    stack = lazy_stack([TensorDict(a=0), TensorDict(a=1)])
    np.testing.assert_array_equal(module(stack)["b"], [1, 2])
    with pytest.raises(KeyError, match="necessary for the module call"):
        module(TensorDict(z=0))


def test_copies_have_hooks_of_their_own() -> None:
    module = Mod(nn.Identity(), ["a"], ["b"])
    module(TensorDict(a=1))
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        other.register_forward_hook(lambda m, args, out: out.set("b", 7))
        assert value(other(TensorDict(a=1))) == 7
        assert value(module(TensorDict(a=1))) == 1


def test_inputs_are_not_written() -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    module = Mod(lambda x: x + 1, ["a"], ["a"])
    td = TensorDict(a=array)
    np.testing.assert_array_equal(module(td)["a"], [1, 2, 3])
    np.testing.assert_array_equal(array, [0, 1, 2])
