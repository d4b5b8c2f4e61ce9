"""Target parameters that follow others slowly."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite import TensorDict
from lite.nn import Module
from lite.optim.leaves import advance, by_dtype, is_writeable
from lite.optim.trees import pair


def soft_update(target: Any, source: Any, tau: float) -> None:
    """Move `target` a share `tau` of the way to `source`, in place: target + tau (source - target).

    Args:
        target: a TensorDict of parameters, or a module, whose parameters and buffers are meant.
        source: one with the same keys and shapes. Leaves that are not floating numbers are left alone.
        tau: in [0, 1]; 1 makes `target` equal to `source`.

    Raises:
        TypeError: neither TensorDicts nor modules.
        ValueError: `tau` out of its range, other keys or shapes, a read-only target. Nothing has changed
            then.

    Source:
        Lillicrap et al. (2016), Continuous control with deep reinforcement learning.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, optim
        >>> target, source = TensorDict(w=np.zeros(2)), TensorDict(w=np.ones(2))
        >>> optim.soft_update(target, source, tau=0.25)
        >>> target["w"]
        array([0.25, 0.25])
    """
    if not 0 <= tau <= 1:
        raise ValueError(f"tau must be from 0 to 1, got {tau}.")
    rows = pair(_tree(target), _tree(source), {}, names=("target", "source"))
    if not all(is_writeable(array) for array, _ in rows):
        raise ValueError("target is written in place, but some of its arrays are read-only.")
    if tau == 1:  # exactly, also where source is infinite
        for array, value in rows:
            np.copyto(array, value, casting="unsafe")
        return
    once = {id(row[0]): row for row in rows}  # what a module has at two places
    for dtype, leaves in by_dtype([*once.values()]).items():
        advance("lerp", leaves, (float(tau),), dtype)


def _tree(value: Any) -> Any:
    plain = isinstance(value, Module) and TensorDict._as_node(value) is None
    return TensorDict.from_module(value) if plain else value
