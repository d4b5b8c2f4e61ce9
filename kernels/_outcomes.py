"""What becomes of a row of logits when a token is drawn from it."""

from typing import Any

from numpy.typing import NDArray

DRAWN, NOTHING, UNKNOWN = 0, 1, 2  # there is a token; none may be drawn; there is NaN


def check(outcomes: NDArray[Any]) -> None:
    """Raise ValueError for the first row from which nothing was drawn."""
    if outcomes.any():
        row = int(outcomes.argmax())
        why = "contains NaN" if outcomes[row] == UNKNOWN else "has no token left that may be drawn"
        raise ValueError(f"logits[{row}] {why}")
