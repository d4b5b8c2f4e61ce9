"""Calls of a TensorDictModule see what was changed since the last one."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from lite import TensorDict, lazy_stack, nn
from lite.nn import TensorDictModule as Mod
from lite.nn import TensorDictSequential as Seq


def one() -> Any:
    return Mod(lambda x: x + 1, ["a"], ["b"])


def value(td: Any, key: Any = "b") -> int:
    return int(td[key])


class TestChangesAreSeen:
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
