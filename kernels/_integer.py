"""Integer arguments."""

import operator
from typing import Any


def integer(name: str, value: Any) -> int:
    """`value` as an int; TypeError that names the argument where it is not one."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None
