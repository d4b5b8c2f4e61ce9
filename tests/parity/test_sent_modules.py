"""Modules of plain functions in pickles, and probabilistic sequences over bases of one's own."""

import copy
import functools
import pickle

import pytest
import torch
from parity.functional import LITE, QUIET, raw, same

from lite.nn.distributions import Normal

pytestmark = QUIET


PAYLOADS = {
    "a lambda": lambda lib: lambda x: x * 2,
    "a function in a function": lambda lib: of(2),
    "a partial of a lambda": lambda lib: functools.partial(lambda n, x: x * n, 2),
    "a function of a module": lambda lib: doubled,
}


def of(factor):
    def scaled(x):
        return x * factor

    return scaled


def doubled(x):
    return x * 2


@pytest.mark.parametrize("copied", [lambda m: pickle.loads(pickle.dumps(m)), copy.copy, copy.deepcopy])
@pytest.mark.parametrize("name", PAYLOADS)
def test_modules_of_functions_are_sent(name, copied):
    def program(lib):
        module = lib.tdnn.TensorDictModule(PAYLOADS[name](lib), ["x"], ["y"])
        other = copied(lib.tdnn.TensorDictSequential(module.select_out_keys("y")))
        return raw(other(lib.TD({"x": lib.ones(2)}))["y"]).tolist(), other.in_keys, other.out_keys

    assert same(program) == ([2, 2], ["x"], ["y"])


def test_sequences_over_bases_without_selected_out_keys():
    def program(lib):
        class Base(lib.tdnn.TensorDictSequential):
            def __init__(self, *modules, partial_tolerant=False, inplace=None):
                super().__init__(*modules, partial_tolerant=partial_tolerant, inplace=inplace)

        class Both(lib.tdnn.ProbabilisticTensorDictSequential, Base):
            pass

        module = lib.tdnn.TensorDictModule(doubled, ["x"], ["loc"])
        scale = lib.tdnn.TensorDictModule(doubled, ["x"], ["scale"])
        normal = Normal if lib is LITE else torch.distributions.Normal
        sample = lib.tdnn.ProbabilisticTensorDictModule(["loc", "scale"], ["y"], distribution_class=normal)
        made = Both(module, scale, sample)
        found = raw(made(lib.TD({"x": lib.ones(2)}))["y"]).tolist(), made.out_keys
        try:
            return found, Both(module, scale, sample, selected_out_keys=["y"]).out_keys
        except TypeError:
            return found, "TypeError"

    assert same(program) == (([2, 2], ["loc", "scale", "y"]), "TypeError")
