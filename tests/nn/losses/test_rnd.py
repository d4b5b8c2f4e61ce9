"""RNDLoss."""

from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.nn.transitions import linear, transitions

from lite import TensorDict, default_dtype, enable_grad, jit, nn
from lite.nn.losses import RNDLoss

OBSERVATION = ("next", "observation")


@pytest.fixture(autouse=True)
def double() -> Iterator[None]:
    with default_dtype(np.float64):
        yield


def test_errors_of_features_and_which_network_learns() -> None:
    predictor, target, td = linear(4, 3), linear(4, 3, seed=1), transitions(6)
    error = predictor(td[OBSERVATION]) - target(td[OBSERVATION])
    each = RNDLoss(predictor, target, reduction="none", update_fraction=1.0)
    np.testing.assert_allclose(each(td)["loss_predictor"], (error**2).mean(-1))
    with enable_grad():
        RNDLoss(predictor, target, update_fraction=1.0)(td)["loss_predictor"].backward()
    np.testing.assert_allclose(predictor.bias.grad, 2 * error.mean(0) / 3)
    assert target.bias.grad is None
    each.set_keys(observation="observation")
    assert each.in_keys == ["observation"]
    np.testing.assert_array_equal(each(observation=td[OBSERVATION]), (error**2).mean(-1))


def test_a_fraction_of_the_steps_counts() -> None:
    predictor, target, td = linear(4, 3), linear(4, 3, seed=1), transitions(400)
    whole = RNDLoss(predictor, target, reduction="none", update_fraction=1.0)(td)["loss_predictor"]
    loss = RNDLoss(predictor, target, reduction="none", generator=0)
    first, second = (loss(td)["loss_predictor"] for _ in range(2))
    assert 0.15 < np.mean(first > 0) < 0.35
    assert np.any((first > 0) != (second > 0))
    np.testing.assert_array_equal(first[first > 0], whole[first > 0])
    mean = RNDLoss(predictor, target, generator=0)
    np.testing.assert_allclose(mean(td)["loss_predictor"], first.sum() / np.count_nonzero(first))
    compiled = RNDLoss(predictor, target, generator=0)
    np.testing.assert_allclose(jit(compiled)(td)["loss_predictor"], first.sum() / np.count_nonzero(first))


def test_normalised_observations_are_clipped() -> None:
    predictor, target, td = linear(4, 3), linear(4, 3, seed=1), transitions(6)
    rms = SimpleNamespace(normalize=lambda x: 10 * x)
    found = RNDLoss(predictor, target, obs_rms=rms, obs_clip=2.0, update_fraction=1.0)(td)["loss_predictor"]
    td[OBSERVATION] = np.clip(10 * td[OBSERVATION], -2, 2)
    assert found == RNDLoss(predictor, target, update_fraction=1.0)(td)["loss_predictor"]


def test_images_of_bytes() -> None:
    td = TensorDict({"next": {"observation": np.full((2, 4), 200, np.uint8)}}, [2])
    net, target = nn.Linear(4, 3, rng=0), nn.Linear(4, 3, rng=1)
    with default_dtype(np.float32):
        found = RNDLoss(net, target, update_fraction=1.0)(td)["loss_predictor"]
    error = net(np.full((2, 4), 200.0)) - target(np.full((2, 4), 200.0))
    np.testing.assert_allclose(found, (error**2).mean(), 1e-5)


def test_errors() -> None:
    with pytest.raises(ValueError, match=r"update_fraction must be from 0 to 1, got 1\.5"):
        RNDLoss(linear(4, 3), linear(4, 3), update_fraction=1.5)
    with pytest.raises(ValueError, match="reduction must be"):
        RNDLoss(linear(4, 3), linear(4, 3), reduction="max")
    with pytest.raises(KeyError, match="RNDLoss reads the entry"):
        RNDLoss(linear(4, 3), linear(4, 3))(transitions(6).exclude(OBSERVATION))
