"""Learning rates that follow a metric or a divergence."""

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import nn, optim


def sgd(lr=0.1):
    return optim.SGD([nn.Parameter(np.ones(2))], lr=lr)


def test_a_plateau_is_no_function_of_the_step():
    with pytest.raises(TypeError, match="must be an optimiser over parameters, got float without any"):
        optim.ReduceLROnPlateau(0.1)
    optimizer = sgd()
    schedule = optim.ReduceLROnPlateau(optimizer)
    raises(TypeError, "is not a function of the step", lambda: schedule(3))
    with pytest.raises(ValueError, match=r"schedulers\[0\] must follow the steps alone, got Reduce"):
        optim.SequentialLR(optimizer, [schedule], [])


def test_a_metric_is_a_number_or_an_array_of_one():
    schedule = optim.ReduceLROnPlateau(sgd(), patience=0)
    schedule.step(np.array([2.0]))
    assert schedule.best == 2.0
    schedule.step(float("nan"))
    np.testing.assert_allclose(schedule.get_last_lr(), [0.01])


def test_what_is_better_and_when_a_rate_is_cut_again():
    limits = {("max", "rel"): 3, ("min", "rel"): 1, ("max", "abs"): 2.5, ("min", "abs"): 1.5}
    for (mode, kind), limit in limits.items():
        options = {"patience": 0, "threshold": 0.5, "threshold_mode": kind, "cooldown": 1}
        schedule = optim.ReduceLROnPlateau(sgd(), mode, **options)
        rates = [schedule.step(metric) or schedule.get_last_lr()[0] for metric in (2.0, *[limit] * 4)]
        np.testing.assert_allclose(rates, [0.1, 0.01, 0.01, 0.001, 0.001])
        schedule = optim.ReduceLROnPlateau(sgd(), mode, **options)
        for metric in (2.0, limit + (0.25 if mode == "max" else -0.25)):
            schedule.step(metric)
            assert (schedule.best, schedule.get_last_lr()) == (metric, [0.1])


@each_case("several", [False, True])
def test_groups_that_are_added_to_a_plateau(several):
    optimizer = sgd()
    schedule = optim.ReduceLROnPlateau(optimizer, patience=0, min_lr=[0.05] if several else 0.05)
    optimizer.add_param_group({"params": [nn.Parameter(np.ones(1))], "lr": 4.0})
    schedule.step(1.0)
    if several:
        raises(RuntimeError, "min_lr has 1 numbers, the optimiser now 2 groups", lambda: schedule.step(1.0))
    else:
        schedule.step(1.0)
        np.testing.assert_allclose(schedule.get_last_lr(), [0.05, 0.4])


def test_a_rate_follows_the_divergence():
    optimizer = sgd()
    schedule = optim.KLAdaptiveLR(optimizer, target_kl=0.1, factor=2.0, min_lr=0.04, max_lr=0.3)
    rates = []
    for kl in (0.3, 0.2, 0.3, 0.01, np.array([0.04]), 0.01, 0.05, 0.0):
        schedule.step(kl)
        rates += schedule.get_last_lr()
    np.testing.assert_allclose(rates, [0.05, 0.05, 0.04, 0.08, 0.16, 0.3, 0.3, 0.3])
    again = optim.KLAdaptiveLR(sgd(), target_kl=1.0)
    again.load_state_dict(schedule.state_dict())
    assert again.state_dict() == schedule.state_dict()
    assert set(again.state_dict()) == {"target_kl", "factor", "min_lr", "max_lr", "last_kl"}


@each_case(
    ("options", "message"),
    [
        ({"target_kl": 0}, "target_kl must be positive and finite, got 0"),
        ({"factor": 1.0}, r"factor must be above 1 and finite, got 1\.0"),
        ({"min_lr": 0.1, "max_lr": 0.01}, r"0 < min_lr <= max_lr < inf, got 0\.1 and 0\.01"),
    ],
)
def test_numbers_of_divergences(options, message):
    raises(ValueError, message, lambda: optim.KLAdaptiveLR(sgd(), **{"target_kl": 0.1, **options}))


def test_a_divergence_that_is_not_finite_changes_nothing():
    optimizer = sgd(0.005)
    schedule = optim.KLAdaptiveLR(optimizer, 0.1)
    raises(ValueError, "kl must be finite, got nan", lambda: schedule.step(np.nan))
    assert (schedule.last_kl, schedule.get_last_lr()) == (None, [0.005])
    with pytest.raises(TypeError, match="must be an optimiser over parameters, got SGD without any"):
        optim.KLAdaptiveLR(optim.SGD(0.1), 0.1)
