"""Modules that know the specs of what they write."""

import numpy as np
import pytest

from lite import TensorDict, nn
from lite.data import Bounded, Composite
from lite.nn.distributions import IndependentNormal

SPEC = Bounded(-1, 1, (2,))
FAR = np.array([[3.0, -0.5]], np.float32)


def test_module() -> None:
    safe = nn.SafeModule(lambda x: x * 2, ["x"], ["y"], SPEC, safe=True)
    td = TensorDict(x=FAR, batch_size=[1])
    np.testing.assert_array_equal(safe(td)["y"], [[1.0, -1.0]])
    np.testing.assert_array_equal(safe(FAR), [[1.0, -1.0]])
    assert nn.SafeModule(lambda x: x, ["x"], ["y"], SPEC)(FAR) is FAR
    assert safe.spec == Composite(y=SPEC)
    with pytest.raises(RuntimeError, match="SafeModule: safe=True needs specs to project to, got None"):
        nn.SafeModule(lambda x: x, ["x"], ["y"], safe=True)


def test_log_probs_are_those_of_the_draw() -> None:
    options = {"distribution_class": IndependentNormal, "return_log_prob": True}
    module = nn.SafeProbabilisticModule(["loc", "scale"], ["y"], SPEC, safe=True, **options)
    td = module(TensorDict(loc=FAR, scale=np.ones_like(FAR), batch_size=[1]))
    np.testing.assert_array_equal(td["y"], [[1.0, -0.5]])
    np.testing.assert_allclose(td["y_log_prob"], -np.log(2 * np.pi), rtol=1e-6)
    assert module.spec.keys() == ["y"]


def test_sequences() -> None:
    first = nn.TensorDictModule(lambda x: x * 2, ["x"], ["loc"])
    scale = nn.TensorDictModule(np.ones_like, ["x"], ["scale"])
    last = nn.SafeProbabilisticModule(["loc", "scale"], ["y"], SPEC, distribution_class=IndependentNormal)
    both = nn.SafeProbabilisticTensorDictSequential(first, scale, last)
    assert both.spec == Composite(y=SPEC)
    np.testing.assert_array_equal(both.get_dist(TensorDict(x=FAR)).mean, FAR * 2)
    assert nn.SafeSequential(first, nn.SafeModule(abs, ["loc"], ["z"], SPEC)).spec == Composite(z=SPEC)
