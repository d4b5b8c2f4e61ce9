"""What becomes of a row of logits when a token is drawn from it."""

import numpy as np
from helpers.cases import raises

from lite.kernels._outcomes import DRAWN, NOTHING, UNKNOWN, check, uniform


def test_the_first_row_without_a_token_is_named():
    check(np.array([DRAWN, DRAWN]))
    raises(ValueError, r"logits\[1\] has no token left", check, np.array([DRAWN, NOTHING, DRAWN]))
    raises(ValueError, r"logits\[0\] contains NaN", check, np.array([UNKNOWN, DRAWN]))


def test_numbers_of_a_seed_stay_from_version_to_version():
    seeds, steps = np.array([0, 1, 2**63], np.uint64), np.array([0, 5, 7], np.uint64)
    expected = ["0x1.2086089bfcf34p-2", "0x1.c0bf6eefc92b8p-3", "0x1.3c3020b8b99fbp-1"]
    assert [number.hex() for number in uniform(seeds, steps).tolist()] == expected
