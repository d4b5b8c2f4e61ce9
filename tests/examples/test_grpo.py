"""A few steps of GRPO show on held-out problems; `bench/test_learn_grpo.py` has the rest."""

import pytest


@pytest.mark.depth
def test_it_learns_what_it_was_not_trained_for() -> None:
    from examples.grpo import train

    _, start, end = train(steps=8, held_out=100)
    assert 0 < start < 0.3
    assert end > start + 0.2
