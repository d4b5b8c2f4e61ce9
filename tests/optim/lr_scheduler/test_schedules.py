"""Schedules: which of the two ways, errors, and what is saved."""

import numpy as np
from helpers.cases import each_case, raises

import lite
from lite import nn, optim


def sgd(lr=0.1):
    return optim.SGD([nn.Parameter(np.ones(2))], lr=lr)


@each_case(
    ("make", "error", "message"),
    [
        (lambda: optim.LinearLR("adam"), TypeError, "must be an optimiser or a learning rate, got str"),
        (lambda: optim.LinearLR(optim.SGD(0.1)), TypeError, "this SGD has no parameters"),
        (lambda: optim.LinearLR(sgd(), start_factor=0.0), ValueError, "start_factor must be above 0"),
        (lambda: optim.LinearLR(sgd(), end_factor=1.5), ValueError, "end_factor must be from 0 to 1"),
        (lambda: optim.ConstantLR(sgd(), factor=-1), ValueError, "factor must be from 0 to 1"),
        (lambda: optim.LambdaLR(sgd(), [abs, abs]), ValueError, "lr_lambda must be one or 1, got 2"),
        (lambda: optim.LinearLR(sgd(), last_epoch=3), ValueError, "has no 'initial_lr'"),
        (lambda: optim.StepLR(sgd(), 0), ValueError, "step_size must be at least 1, got 0"),
        (lambda: optim.StepLR(sgd(), 1.5), TypeError, "step_size must be an integer, got 1.5"),
        (lambda: optim.SequentialLR(sgd(), [], []), ValueError, "schedulers must not be empty"),
        (lambda: optim.SequentialLR(None, [optim.LinearLR(1.0)], [3]), ValueError,
            "one less than schedulers, 0"),
        (lambda: optim.SequentialLR(sgd(), [optim.LinearLR(sgd())], []), ValueError,
            "not of the optimiser"),
        (lambda: optim.SequentialLR(None, [abs], []), TypeError, r"schedulers\[0\] must be a schedule"),
        (lambda: optim.LinearLR(0.1).step(), RuntimeError,
            "has no optimiser: call it with the step's number"),
        (lambda: optim.SequentialLR(None, [optim.LinearLR(1.0)], []).step(), RuntimeError,
            "has no optimiser"),
    ],
)  # fmt: skip
def test_errors(make, error, message):
    raises(error, message, make)


@each_case(
    "make",
    [
        lambda given: optim.ConstantLR(given, 0.25, total_iters=3),
        lambda given: optim.LinearLR(given, 0.5, 0.2, total_iters=3),
        lambda given: optim.CosineAnnealingLR(given, 3, eta_min=0.01),
        lambda given: optim.LambdaLR(given, lambda step: 1 / (step + 1)),
        lambda given: optim.StepLR(given, 3, gamma=0.5),
        lambda given: optim.ExponentialLR(given, 0.9),
        lambda given: optim.MultiStepLR(given, [2, 5, 5], gamma=0.5),
        lambda given: optim.CosineAnnealingWarmRestarts(given, 2, eta_min=0.01),
        lambda given: optim.CosineAnnealingWarmRestarts(given, 2, T_mult=3),
        lambda given: optim.OneCycleLR(given, 0.2, 12, cycle_momentum=False),
        lambda given: optim.OneCycleLR(given, 0.2, 12, three_phase=True, cycle_momentum=False),
    ],
)
def test_steps_of_an_optimiser_follow_the_function(make):
    optimizer, by_step = sgd(), make(0.1)
    schedule = make(optimizer)
    for step in range(10):
        np.testing.assert_allclose(optimizer.param_groups[0]["lr"], by_step(step), rtol=1e-12)
        assert schedule.get_last_lr() == [optimizer.param_groups[0]["lr"]]
        schedule.step()


def test_a_cosine_that_goes_on_asks_for_the_rate_of_its_step():
    optimizer, by_step = sgd(), optim.CosineAnnealingLR(0.1, 5, eta_min=0.01)
    optimizer.param_groups[0]["initial_lr"] = 0.1
    schedule = optim.CosineAnnealingLR(optimizer, 5, eta_min=0.01, last_epoch=6)
    np.testing.assert_allclose(schedule.get_lr(), [by_step(7)], rtol=1e-12)


def test_a_sequence_in_a_sequence():
    def make(given):
        inner = [optim.ConstantLR(given, 0.5, total_iters=2), optim.LinearLR(given, 0.2, total_iters=4)]
        return optim.SequentialLR(
            given, [optim.SequentialLR(given, inner, [3]), optim.ConstantLR(given, 1.0)], [6]
        )

    optimizer = sgd()
    schedule, rates = make(optimizer), []
    for _ in range(8):
        rates += schedule.get_last_lr()
        schedule.step()
    np.testing.assert_allclose(rates, [0.05, 0.05, 0.02, 0.04, 0.06, 0.08, 0.1, 0.1])  # as in torch


def test_what_is_saved_leads_on():
    first, second = sgd(), sgd()
    a = optim.SequentialLR(
        first, [optim.LinearLR(first, 0.5, total_iters=3), optim.CosineAnnealingLR(first, 4)], [3]
    )
    for _ in range(5):
        a.step()
    b = optim.SequentialLR(
        second, [optim.LinearLR(second, 0.9, total_iters=1), optim.CosineAnnealingLR(second, 9)], [1]
    )
    second.load_state_dict(first.state_dict())
    b.load_state_dict(a.state_dict())
    for _ in range(3):
        a.step()
        b.step()
        assert first.param_groups[0]["lr"] == second.param_groups[0]["lr"]
    assert "optimizer" not in a.state_dict()


def test_milestones_from_a_file(tmp_path):
    first, second = (optim.MultiStepLR(sgd(), [1, 3], gamma=0.5) for _ in range(2))
    lite.save(first.state_dict(), tmp_path / "state")
    second.load_state_dict(lite.load(tmp_path / "state"))
    for _ in range(4):
        first.step()
        second.step()
        assert second.get_last_lr() == first.get_last_lr()


@each_case("state", [{}, {"base_lrs": [2.0]}, {"_last_lr": [2.0], "_schedulers": []}])
def test_a_state_that_does_not_say_where_it_stands_is_none(state):
    optimizer = sgd()
    parts = [optim.ConstantLR(optimizer), optim.LambdaLR(optimizer, lambda step: 1.0)]
    for schedule in (*parts, optim.SequentialLR(optimizer, parts, [2])):
        before = schedule.state_dict()
        raises(KeyError, r"last_epoch|_schedulers", schedule.load_state_dict, state)
        assert schedule.state_dict() == before


def test_names_that_a_schedule_does_not_have_are_left_out():
    schedule = optim.LinearLR(sgd())
    schedule.load_state_dict({"get_lr": None, "last_epoch": 3, "optimizer": None})
    assert schedule.last_epoch == 3
    schedule.step()
