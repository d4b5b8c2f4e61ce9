"""What becomes of a row of logits when a token is drawn from it."""

import numpy as np
import pytest

from lite.kernels._outcomes import DRAWN, NOTHING, UNKNOWN, check


def test_the_first_row_without_a_token_is_named():
    check(np.array([DRAWN, DRAWN]))
    with pytest.raises(ValueError, match=r"logits\[1\] has no token left"):
        check(np.array([DRAWN, NOTHING, DRAWN]))
    with pytest.raises(ValueError, match=r"logits\[0\] contains NaN"):
        check(np.array([UNKNOWN, DRAWN]))
