"""Networks that were trained together agree where they were trained, and differ elsewhere."""

import pytest


@pytest.mark.depth
def test_the_spread_grows_outside_of_what_was_learned() -> None:
    from examples.ensemble_of_values import doubt, train

    params, each = train(5, steps=100)
    assert params["0", "weight"].shape == (5, 32, 1)
    known, unknown = doubt(params, each, -1, 1), doubt(params, each, 3, 4)
    assert known < 0.1
    assert unknown > 3 * known
