"""Which episodes of a group are learnt from."""

from typing import Any

import numpy as np
from helpers.cases import raises

from lite import TensorDict
from lite.data import MCAdvantageSelector


def select(values: Any, size: int, bounds: Any = None, **options: Any) -> Any:
    candidates = TensorDict({"return": np.array(values, float)}, batch_size=[len(values)])
    return MCAdvantageSelector(**options).select(candidates, group_size=size, keep_return_bounds=bounds)


def test_strategies() -> None:
    for strategy, bounds, expected in (
        ("first", None, [0, 1]),
        ("first", (0.1, 0.9), None),
        ("uniform", None, [0, 3]),
        ("uniform", (0.6, 0.9), None),
        ("balanced", None, [0, 3]),
        ("balanced", (0.1, 0.9), [0, 3]),
        ("balanced", (0.6, 0.9), None),
    ):
        assert select([0, 0, 0, 1], 2, bounds, strategy=strategy) == expected


def test_balanced_means_close_to_the_middle_and_far_apart() -> None:
    assert select([0.4, 0.6, 0.0, 1.0], 2, (0.0, 1.0)) == [2, 3]  # of the pairs with mean 0.5
    assert select([0.0, 0.1, 0.4, 0.9], 2, (0.0, 0.4)) == [0, 2]


def test_one_of_several() -> None:
    assert select([3.0, 1.0, 2.0], 1) == [2]
    assert select([3.0, 1.0, 2.0, 0.0], 1) == [2]


def test_bounds_are_outside() -> None:
    for bounds in ((0.5, 1.0), (0.0, 0.5)):
        assert select([0.0, 1.0], 2, bounds) is None
    assert select([0.0, 1.0], 2, (0.4, 0.6)) == [0, 1]


def test_many_candidates_are_exchanged_one_by_one() -> None:
    """Returns at equal distances have the mean 1 (or -1): the best other one takes the worst one's place."""
    for sign, expected in ((1, [5, 3, 6]), (-1, [5, 6, 4])):
        values, bounds = sign * np.array([0.0, 0, 0, 0, 0, 3, 3]), sorted([sign * 1.5, sign * 2.5])
        assert select(values, 3, bounds, max_combinations=1) == expected
        assert select(values, 3, sorted([sign * 2.5, sign * 9.0]), max_combinations=1) is None


def test_a_return_that_is_no_number_counts_for_no_mean() -> None:
    assert select([np.nan, 0.0, 1.0], 3, (0.1, 0.9)) == [0, 1, 2]
    assert select([np.nan, np.nan], 2, (0.1, 0.9)) is None


def test_construction_errors() -> None:
    for options, message in (
        ({"strategy": "best"}, "strategy must be one of"),
        ({"max_combinations": 0}, "max_combinations must be at least 1"),
        ({"in_keys": []}, "in_keys must have at least one key"),
    ):
        raises(ValueError, message, MCAdvantageSelector, **options)


def test_candidates_that_do_not_fit() -> None:
    raises(ValueError, "3 candidates are needed, got 2", select, [1.0, 2.0], 3)
    raises(ValueError, r"must be a number for each of 2 candidates, got \(2, 3\)", select, np.ones((2, 3)), 1)
