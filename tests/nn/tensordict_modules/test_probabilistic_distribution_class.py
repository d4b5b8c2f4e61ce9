"""Which distribution a module makes, and what is said where it cannot be made."""

import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict
from lite.nn import ProbabilisticTensorDictModule
from lite.nn.distributions import Normal, TanhNormal
from lite.nn.tensordict_modules.probabilistic import distribution_of


def test_by_class_or_name() -> None:
    assert distribution_of(Normal) is Normal
    assert distribution_of("TanhNormal") is distribution_of("tanhnormal") is TanhNormal
    raises(ValueError, "'gauss' is unknown", distribution_of, "gauss")
    with pytest.raises(ValueError, match="a class, a function or a name, got 3"):
        distribution_of(3)  # type: ignore[arg-type]


def test_errors_name_keys_and_keywords() -> None:
    keywords = ProbabilisticTensorDictModule(["loc", "width"], ["x"], distribution_class=Normal)
    with pytest.raises(TypeError, match="in_keys must name the keywords of Normal"):
        keywords(TensorDict(loc=np.zeros(2), width=np.ones(2)))
    module = ProbabilisticTensorDictModule(["loc", "scale"], ["x"], distribution_class=Normal)
    raises(KeyError, r"not in the tensordict: \['scale'\]", module, TensorDict(loc=np.zeros(2)))
    with pytest.raises(ValueError) as error:
        module(TensorDict(loc=np.zeros(2), scale=-np.ones(2)))
    assert error.value.__notes__ == ["while making Normal from the entries ['loc', 'scale']"]
