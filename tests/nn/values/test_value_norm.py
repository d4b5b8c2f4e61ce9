from types import SimpleNamespace

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.nn.transitions import gaussian, linear, transitions

from lite import enable_grad, nn
from lite.nn import PercentileValueNorm, PopArtValueNorm, RunningValueNorm, ValueNorm
from lite.nn.losses import A2CLoss, ClipPPOLoss
from lite.nn.values.value_norm import require_norm, update_where

NORMS = [
    lambda: PopArtValueNorm(beta=0.9),
    RunningValueNorm,
    lambda: PercentileValueNorm(rate=0.5, center=True),
]


@each_case("make", NORMS)
def test_what_is_denormalized_is_what_was_normalized(make, rng):
    norm = make()
    for _ in range(3):
        norm.update(rng.normal(5, 3, (4, 8, 1)))
    values = rng.normal(5, 3, (6, 1))
    np.testing.assert_allclose(norm.denormalize(norm.normalize(values)), values, rtol=1e-6)
    assert norm.scale().shape == (1,)


def test_running_statistics_are_those_of_all_returns(rng):
    norm, rows = RunningValueNorm(shape=(2,)), rng.normal(5, 3, (30, 2))
    for part in np.split(rows, [3, 3, 10]):
        norm.update(part)
    np.testing.assert_allclose(norm.mean, rows.mean(0), rtol=1e-6)
    np.testing.assert_allclose(norm.scale(), rows.std(0), rtol=1e-5)


def test_errors():
    norm = RunningValueNorm(shape=2)
    with pytest.raises(ValueError, match=r"must end with the shape \(2,\), got the shape \(5, 1\)"):
        norm.update(np.zeros((5, 1)))
    assert norm.count == 0
    for options in ({"quantiles": (0.9, 0.1)}, {"rate": 2}, {"min_scale": 0}):
        raises(ValueError, next(iter(options)), PercentileValueNorm, **options)
    raises(TypeError, "advantage_norm must be a ValueNorm", require_norm, SimpleNamespace(update=len))
    raises(NotImplementedError, "ValueNorm defines no scale", ValueNorm().scale)


def test_masks_have_the_shape_of_the_batch_or_one_more_dimension():
    for batch in ((3,), (1,), (3, 1)):
        norm, keep = RunningValueNorm(), np.ones(batch, bool)
        norm.normalize(np.ones((*batch, 1)))  # before there are any
        keep[1:] = False
        for masks in ([], [keep], [keep[..., None]], [keep[..., None], keep], [np.ones(batch, bool), keep]):
            before = float(norm.count)
            update_where(norm, np.ones((*batch, 1)), masks)
            assert norm.count - before == (keep.sum() if masks else keep.size)


def losses(**options):
    networks = gaussian(), nn.ValueOperator(linear(4, 1))
    return [
        kind(*networks, advantage_norm=PercentileValueNorm(rate=1.0), **options)
        for kind in (A2CLoss, ClipPPOLoss)
    ]


@each_case("kind", [0, 1])
def test_losses_count_the_returns_that_they_estimate(kind, rng):
    loss = losses()[kind]
    rollout = gaussian()(transitions(6)).reshape(1, 6)
    rollout["next", "reward"] *= 100
    rollout["shifted_valid"] = np.arange(6)[None, :, None] < 5
    with enable_grad():
        loss(rollout)
    kept = loss.advantage_norm.high.copy()
    assert kept > 1
    rollout["shifted_valid"] = np.arange(6)[None, :, None] < 2
    loss(rollout)
    assert loss.advantage_norm.high != kept
    kept = loss.advantage_norm.high.copy()
    loss.eval()
    rollout["shifted_valid"] = np.ones((1, 6, 1), bool)
    loss(rollout)
    loss.train()
    rollout["advantage"] = rollout["value_target"] = np.ones((1, 6, 1))
    given = loss(rollout)["loss_objective"]
    assert loss.advantage_norm.high == kept
    loss.advantage_norm.high *= 2
    loss.advantage_norm.low *= 2
    np.testing.assert_allclose(loss(rollout)["loss_objective"], given / 2)


def test_arguments_of_losses():
    with pytest.raises(ValueError, match="exclude each other"):
        ClipPPOLoss(
            gaussian(),
            nn.ValueOperator(linear(4, 1)),
            advantage_norm=RunningValueNorm(),
            normalize_advantage=True,
        )
    with pytest.raises(TypeError, match="advantage_norm must be a ValueNorm or None, got float"):
        A2CLoss(gaussian(), nn.ValueOperator(linear(4, 1)), advantage_norm=2.0)
