"""The examples of the reference documentation for what all modules on TensorDicts inherit (000-10 to 000-14),
one test each, and those of 003 that are the same.
"""

import numpy as np
import pytest
from helpers.documentation_examples import ones, tree, zeros

from lite import TensorDict, nn
from lite.nn import TensorDictModule as Mod
from lite.nn import TensorDictSequential as Seq


def plus_two():
    return Mod(lambda x, y: (x + 2, y + 2), in_keys=["a", "b"], out_keys=["c", "d"])


def test_000_10_reset_out_keys():
    mod = plus_two()
    mod.select_out_keys("d")
    td = mod(TensorDict({"a": zeros(), "b": ones()}, []))
    assert set(td.keys()) == {"a", "b", "d"}
    mod.reset_out_keys()
    td = mod(TensorDict({"a": zeros(), "b": ones()}, []))
    assert set(td.keys()) == {"a", "b", "c", "d"}
    assert (td["c"], td["d"]) == (2, 3)
    assert all(td[key].shape == () for key in "abcd")


def test_000_11_reset_parameters():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    old = net[0].weight.data.copy()
    module = Mod(net, in_keys=["bork"], out_keys=["dork"])
    module.reset_parameters()
    assert not (old == net[0].weight).any()


def test_000_12_reset_given_parameters():
    module = Mod(nn.Sequential(nn.Linear(2, 3, rng=0), nn.ReLU()), in_keys=["bork"], out_keys=["dork"])
    params = TensorDict.from_module(module)
    old_params = params.data.clone()
    own = module.module[0].weight.data.copy()
    copied = params.data.clone()
    module.reset_parameters(copied)
    assert not (old_params == copied).any()
    np.testing.assert_array_equal(module.module[0].weight.data, own)
    module.reset_parameters(params)
    assert not (old_params == params.data).any()
    assert not (module.module[0].weight.data == own).any()


def test_000_13a_select_out_keys():
    mod = plus_two()
    assert set(mod(TensorDict({"a": zeros(), "b": ones()}, [])).keys()) == {"a", "b", "c", "d"}
    mod.select_out_keys("d")
    assert set(mod(TensorDict({"a": zeros(), "b": ones()}, [])).keys()) == {"a", "b", "d"}


def test_000_13b_select_out_keys_with_dispatch():
    # The printout of the reference's document (2.) predates y + 2 with y = 1.
    assert plus_two().select_out_keys("d")(zeros(), ones()) == 3


def test_000_13c_reset_after_selection():
    mod = plus_two().select_out_keys("d").reset_out_keys()
    assert set(mod(TensorDict({"a": zeros(), "b": ones()}, [])).keys()) == {"a", "b", "c", "d"}


def test_000_13d_select_out_keys_of_a_sequence():
    seq = Seq(Mod(lambda x: x + 1, ["x"], ["y"]), Mod(lambda x: x + 1, ["y"], ["z"]))
    assert set(seq(TensorDict({"x": zeros()}, [])).keys()) == {"x", "y", "z"}
    seq.select_out_keys("z")
    td = seq(TensorDict({"x": zeros()}, []))
    assert set(td.keys()) == {"x", "z"}
    assert td["z"] == 2


def test_000_14_set_submodule_strict():
    a, new = tree(), nn.Identity()
    a.set_submodule("net_b.net_c.conv", new)
    a.set_submodule("net_b.net_c.conv", new, strict=True)
    a.set_submodule("net_b.extra", new)
    assert a.net_b.extra is new
    with pytest.raises(AttributeError, match="another"):
        a.set_submodule("net_b.another", new, strict=True)


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(test_000_10_reset_out_keys, id="003-6"),
        pytest.param(test_000_13a_select_out_keys, id="003-7a"),
        pytest.param(test_000_13b_select_out_keys_with_dispatch, id="003-7b"),
        pytest.param(test_000_13c_reset_after_selection, id="003-7c"),
        pytest.param(test_000_13d_select_out_keys_of_a_sequence, id="003-7d"),
    ],
)
def test_003_examples_that_are_those_of_the_base(example):
    example()
