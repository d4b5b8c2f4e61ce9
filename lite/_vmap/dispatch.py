"""From a call of a NumPy function to its batching rule."""

from __future__ import annotations

from typing import Any

from lite._vmap.level import batched_in, level_of
from lite._vmap.registry import RULES, NoRule, loop


def call_function(func: Any, args: Any, kwargs: Any) -> Any:
    """Run a function whose arguments contain mapped arrays; `out` is written afterwards."""
    level = level_of(batched_in(kwargs.values(), batched_in(args, [])))
    out = None
    if kwargs:
        out = kwargs.get("out")
        if out is not None:
            kwargs = {key: value for key, value in kwargs.items() if key != "out"}
    rule = RULES.get(func)
    if rule is None:
        result = loop(level, func, args, kwargs)
    else:
        try:
            result = rule(level, *args, **kwargs)
        except NoRule:
            result = loop(level, func, args, kwargs)
    if out is None:
        return result
    out[...] = result
    return out


# Each module registers its rules.
import lite._vmap.creation  # noqa: E402
import lite._vmap.elementwise  # noqa: E402
import lite._vmap.fourier  # noqa: E402
import lite._vmap.joining  # noqa: E402
import lite._vmap.linalg  # noqa: E402
import lite._vmap.products  # noqa: E402
import lite._vmap.reductions  # noqa: E402
import lite._vmap.shapes  # noqa: E402
import lite._vmap.sorting  # noqa: E402, F401
