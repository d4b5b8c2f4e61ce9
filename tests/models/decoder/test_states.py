"""States of fixed size: of each row its own, in the order of a run."""

import numpy as np

from lite.models.decoder.states import States, StateTensor

TENSORS = [
    StateTensor("past_conv.0", "present_conv.0", (2, 3), "tensor(float)"),
    StateTensor("past_ssm.1", "present_ssm.1", (4,), "tensor(float16)"),
]


def test_rows_have_their_own(rng: np.random.Generator) -> None:
    states = States(TENSORS, 2)
    assert [values.shape for values in states.taken()] == [(2, 2, 3), (2, 4)]
    states.resize(4)
    states.rows = [3, 1]
    new = [rng.normal(size=(2, 2, 3)).astype("f4"), rng.normal(size=(2, 4)).astype("f2")]
    states.put(new)
    states.fork(3, 0)
    states.reset(1)
    states.rows = np.array([0, 1, 2, 3])
    for values, given in zip(states.taken(), new, strict=True):
        assert values.dtype == given.dtype
        np.testing.assert_array_equal(values, [given[0], 0 * given[0], 0 * given[0], given[0]])
        values[:] = 7  # a copy
    assert not any((values == 7).any() for values in states.taken())
    assert states.nbytes == 4 * (2 * 3 * 4 + 4 * 2)
    states.resize(1)  # rows are never taken away
    assert states.nbytes == 4 * (2 * 3 * 4 + 4 * 2)
