"""What scoring writes beside log-probs."""

import numpy as np
import pytest

from lite.models.text.rows import TokenRows
from lite.models.wrapper.input import Inputs
from lite.models.wrapper.options import WrapperOptions
from lite.models.wrapper.output import Layout
from lite.models.wrapper.sampled import rows_with_tokens, scored_entries

ROWS = TokenRows.left_padded([[1, 2], [], [3]], 0)


def test_masks_show_real_tokens_only() -> None:
    said = np.ones((3, 2), bool)
    options = WrapperOptions(input_mode="tokens", generate=False, pad_output=True)
    found = scored_entries(Inputs(ROWS, assistant_mask=said), options, Layout((3,), True))
    assert set(found) == {"tokens", "masks"}
    np.testing.assert_array_equal(found["masks"].all_assistant_mask, [[1, 1], [0, 0], [0, 1]])
    np.testing.assert_array_equal(found["tokens"].full, ROWS.ids)


def test_rows_without_tokens_are_left_out() -> None:
    assert rows_with_tokens(ROWS) == [0, 2]
    assert rows_with_tokens(TokenRows.left_padded([], 0)) == []
    with pytest.raises(ValueError, match="None of the 2 rows has a token"):
        rows_with_tokens(TokenRows.left_padded([[], []], 0))
