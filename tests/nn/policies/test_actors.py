"""Actor and ProbabilisticActor."""

from typing import Any

import numpy as np
import pytest

from lite import TensorDict, nn
from lite.data import Bounded, Composite
from lite.nn.distributions import IndependentNormal

SPEC = Bounded(-1, 1, (2,))


def probabilistic(**options: Any) -> Any:
    net = nn.TensorDictModule(lambda x: (x * 0 + 2, x * 0 + 1), ["observation"], ["loc", "scale"])
    return nn.ProbabilisticActor(
        net, ["loc", "scale"], spec=SPEC, distribution_class=IndependentNormal, **options
    )


def test_actor() -> None:
    actor = nn.Actor(lambda x: (x + 1, x), out_keys=["action", "hidden"], spec=SPEC, safe=True)
    td = actor(TensorDict(observation=np.array([0.5, -0.5])))
    np.testing.assert_array_equal(td["action"], [1.0, 0.5])
    assert actor.spec == Composite(action=SPEC)


def test_samples() -> None:
    td = probabilistic(generator=0)(TensorDict(observation=np.zeros((4000, 2)), batch_size=[4000]))
    np.testing.assert_array_equal(td["action"], 2.0)
    with nn.set_interaction_type("random"):
        drawn = probabilistic(generator=0)(td)["action"]
    np.testing.assert_allclose([drawn.mean(), drawn.std()], [2.0, 1.0], rtol=0.05)
    assert abs(probabilistic(safe=True)(td)["action"]).max() == 1


def test_parts() -> None:
    actor = probabilistic(out_keys=["move"])
    assert actor.spec == Composite(move=SPEC)
    part = actor.select_subsequence(out_keys=["loc"])
    assert type(part) is nn.SafeProbabilisticTensorDictSequential or part.out_keys == ["loc", "scale"]
    with pytest.raises(TypeError, match="module must have in_keys and out_keys, got Linear"):
        nn.ProbabilisticActor(nn.Linear(3, 2), ["loc"])


def test_names_of_a_composite_distribution() -> None:
    net = nn.TensorDictModule(lambda x: {}, ["observation"], ["params"])
    names = {"distribution_map": {"a": IndependentNormal, "b": IndependentNormal}}
    options = {"distribution_class": nn.CompositeDistribution, "distribution_kwargs": names}
    assert nn.ProbabilisticActor(net, ["params"], **options).out_keys == ["params", "a", "b"]
