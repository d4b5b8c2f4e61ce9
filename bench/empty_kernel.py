"""What the first call of any function that Numba caches takes."""

from typing import Any

import numba


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def empty(x: Any) -> Any:
    return x[0]
