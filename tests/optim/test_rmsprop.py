"""RMSprop in each of its forms."""

import numpy as np

from lite import TensorDict, optim


def test_what_the_state_has():
    params = TensorDict(x=np.ones(2))
    for options, more in (
        ({}, set()),
        ({"momentum": 0.5}, {"momentum_buffer"}),
        ({"centered": True}, {"grad_avg"}),
    ):
        new, state = optim.RMSprop(0.1, alpha=0.75, eps=0.0, **options).update(params, params)
        assert set(state.keys()) == {"step", "square_avg", *more}
        first = 0.25 - 0.25**2 if "centered" in options else 0.25
        np.testing.assert_allclose(new["x"], 1 - 0.1 / np.sqrt(first))
