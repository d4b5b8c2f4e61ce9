"""Schedules that rise again: what torch's do not do; tests/parity has the rest."""

import numpy as np
import pytest
from helpers.cases import each_case, raises

import lite
from lite import optim


@each_case("transform", [lite.vmap, lambda function: lite.jit(lite.vmap(function))])
@each_case(("first", "times"), [(1, 2), (3, 5), (1, 10)])
def test_restarts_far_on_where_steps_are_arrays(first, times, transform):
    """A logarithm that comes out below an integer would be `eta_min` in place of a restart."""
    schedule = optim.CosineAnnealingWarmRestarts(0.1, first, T_mult=times)
    restarts = np.array([first * (times**n - 1) // (times - 1) for n in range(8)])
    steps = np.concatenate([restarts, restarts[1:] - 1, restarts + 1])
    rates = transform(schedule)(steps)
    np.testing.assert_allclose(rates[: len(restarts)], 0.1)
    np.testing.assert_allclose(rates, [schedule(step) for step in steps.tolist()], atol=1e-9)


def test_a_function_of_the_step_has_no_momentum():
    with pytest.raises(ValueError, match="cycle_momentum=True needs an optimiser with momentum or betas"):
        optim.OneCycleLR(0.1, 1.0, 10)
    with pytest.raises(ValueError, match="step 11 comes after the last of total_steps=10"):
        optim.OneCycleLR(0.1, 1.0, 10, cycle_momentum=False)(11)


@each_case(("share", "first"), [(0.1, 1.0), (1.0, 1 / 25)])
def test_a_part_without_steps_is_passed_over(share, first):
    """torch divides by zero."""
    schedule = optim.OneCycleLR(0.1, 1.0, 10, pct_start=share, cycle_momentum=False)
    rates = [schedule(step) for step in range(10)]
    assert rates[0] == pytest.approx(first)
    assert max(rates) == pytest.approx(1.0)


def test_a_cycle_that_follows_another_schedule_begins_at_its_first_rate():
    made, alone = (optim.SGD([lite.nn.Parameter(np.zeros(1))], 0.1, momentum=0.9) for _ in range(2))
    flat, cycle = optim.ConstantLR(made, 0.5, 10), optim.OneCycleLR(made, 1.0, total_steps=5)
    expected = optim.OneCycleLR(alone, 1.0, total_steps=5)
    schedule = optim.SequentialLR(made, [flat, cycle], [2])
    schedule.step()
    for _ in range(3):
        schedule.step()
        np.testing.assert_allclose(schedule.get_last_lr(), expected.get_last_lr())
        expected.step()


def test_steps_of_a_cycle_by_epochs():
    made = [optim.SGD([lite.nn.Parameter(np.zeros(1))], 0.1, momentum=0.9) for _ in range(2)]
    cycles = optim.OneCycleLR(made[0], 1.0, epochs=2, steps_per_epoch=3), optim.OneCycleLR(made[1], 1.0, 6)
    for _ in range(5):
        assert cycles[0].get_last_lr() == cycles[1].get_last_lr()
        for cycle in cycles:
            cycle.step()
    for steps in ({}, {"epochs": 2}, {"steps_per_epoch": 3}, {"epochs": 0, "steps_per_epoch": 3}):
        raises(ValueError, "total_steps must be given|epochs", optim.OneCycleLR, made[0], 1.0, **steps)
    raises(ValueError, "steps_per_epoch", optim.OneCycleLR, made[0], 1.0, epochs=1, steps_per_epoch=0)
