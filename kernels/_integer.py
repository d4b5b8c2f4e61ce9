"""Integer arguments."""

import operator
from typing import Any


def integer(name: str, value: Any, *, least: int | None = None) -> int:
    """`value` as an int.

    Raises:
        TypeError: it is not an integer; the message names the argument.
        ValueError: it is below `least`; likewise.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None
    if least is not None and number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
    return number
