"""More answers, and a verifier that picks, give more right ones."""

import numpy as np
import pytest


@pytest.mark.depth
def test_the_best_of_several_is_right_more_often() -> None:
    from examples.best_of_n import best_of

    rewards, best = best_of(4, 3.0)
    np.testing.assert_array_equal(best["reward"], rewards.max(1))
    assert best.batch_size == (16,)
    assert rewards.max(1).mean() > rewards.mean() > 0
    assert len(best["text", "response"]) == 16
