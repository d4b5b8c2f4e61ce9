"""Token-level transitions from responses: against a loop, dense and ragged, batched and not."""

import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict, lazy_stack
from lite.data import TokenTransitions


def _row(prompt: list[int], response: list[int], reward: float, **extra: object) -> TensorDict:
    return TensorDict(
        {
            "tokens": {"prompt": np.array(prompt), "response": np.array(response, dtype=np.int64)},
            "log_probs": {"response": -np.arange(1, len(response) + 1, dtype=np.float32)},
            "masks": {"all_attention_mask": np.ones(len(prompt) + len(response), dtype=bool)},
            "reward": np.float32(reward),
            **extra,
        }
    )


def test_ragged_rows() -> None:
    rows = lazy_stack([_row([1], [7, 8, 2], 1.0), _row([3, 4], [9, 2], 0.5)])
    out = TokenTransitions()(rows)
    assert out.batch_size == (2, 3)
    np.testing.assert_array_equal(out["action"], [[7, 8, 2], [9, 2, 0]])
    np.testing.assert_array_equal(out["observation"], [[1, 7, 8], [4, 9, 0]])
    np.testing.assert_array_equal(out["next", "observation"], out["action"])
    np.testing.assert_array_equal(out["next", "reward"], np.float32([[0, 0, 1], [0, 0.5, 0]]))
    np.testing.assert_array_equal(out["next", "done"], [[False, False, True], [False, True, False]])
    np.testing.assert_array_equal(out["next", "terminated"], out["next", "done"])
    np.testing.assert_array_equal(out["collector", "mask"], [[True, True, True], [True, True, False]])
    np.testing.assert_array_equal(out["action_log_prob"], np.float32([[-1, -2, -3], [-1, -2, 0]]))


def test_truncated_responses_end_without_terminating() -> None:
    rows = lazy_stack([_row([1], [7], 1.0, truncated=True), _row([1], [7], 1.0, truncated=False)])
    out = TokenTransitions()(rows)
    np.testing.assert_array_equal(out["next", "truncated"], [[True], [False]])
    np.testing.assert_array_equal(out["next", "terminated"], [[False], [True]])
    np.testing.assert_array_equal(out["next", "done"], [[True], [True]])


def test_missing_entries_and_wrong_rewards_are_named() -> None:
    row = _row([1], [7], 1.0)
    raises(KeyError, "reward", TokenTransitions(), lazy_stack([row.exclude("reward")]))
    with pytest.raises(ValueError, match="one value per response"):
        TokenTransitions()(lazy_stack([row.exclude("reward").set("reward", np.ones(2))]))


def test_what_does_not_fit_is_named() -> None:
    for key, value, error in (
        (("tokens", "response"), np.array([[1.5, 2.0]]), TypeError),
        (("log_probs", "response"), np.zeros((1, 1), np.float32), ValueError),
        (("masks", "all_attention_mask"), np.ones((1, 1), bool), ValueError),
    ):
        td = TensorDict(
            {
                "tokens": {"prompt": np.array([[5]]), "response": np.array([[7, 8]])},
                "log_probs": {"response": np.zeros((1, 2), np.float32)},
                "masks": {"all_attention_mask": np.ones((1, 3), bool)},
                "reward": np.ones(1, np.float32),
            },
            batch_size=[1],
        )
        td.set(key, value)
        raises(error, key[1], TokenTransitions(), td)
