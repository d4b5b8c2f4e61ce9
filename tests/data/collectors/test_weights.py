"""The weights that collectors take: one source of three kinds."""

from typing import Any

import numpy as np
from helpers.cases import raises

from lite import TensorDict, nn
from lite.data.collectors.weights import only_source, weights_of


def test_one_source_is_taken_and_several_are_refused() -> None:
    assert only_source(None, None, None) is None
    assert only_source(None, 3, None) == 3
    raises(ValueError, "give one of", only_source, 1, None, 2)


def test_modules_tensordicts_and_dicts_give_the_same_arrays() -> None:
    module = nn.Linear(2, 3, rng=0)
    params = TensorDict.from_module(module)
    sources: list[Any] = [module, params, {"weight": module.weight, "bias": module.bias}]
    for source in sources:
        found = weights_of(source)
        assert type(found["weight"]) is np.ndarray
        np.testing.assert_array_equal(found["weight"], module.weight.data)
        np.testing.assert_array_equal(found["bias"], module.bias.data)
    raises(TypeError, "got int", weights_of, 3)
