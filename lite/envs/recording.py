"""Rollouts of one gymnasium environment whose actions are known beforehand, written into arrays at once.

With nothing to decide between two steps there need not be a TensorDict for each, which takes most of the
time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import TensorDict
from lite.envs.encodings import Encoding
from lite.envs.environments import Environments


def recorded(
    environments: Environments,
    observations: Sequence[Encoding],
    action: Encoding,
    first: TensorDict,
    actions: NDArray[Any],
    stop: bool,
) -> TensorDict:
    """The steps of an environment that takes one action after the other: what `EnvBase.rollout` returns.

    Args:
        environments: an `Env`.
        observations, action: how its values are entries.
        first: what a reset gave.
        actions: the entries, (steps, ...).
        stop: end with the first episode; False goes on with the next one.

    Raises:
        Fault: the environment failed.
    """
    steps = len(actions)
    roots = [np.zeros((steps, *part.spec.shape), part.spec.dtype) for part in observations]
    nexts = [np.zeros_like(root) for root in roots]
    reward = np.zeros((steps, 1), np.float32)
    terminated, truncated = np.zeros((steps, 1), np.bool_), np.zeros((steps, 1), np.bool_)
    present = [first.get(part.key) for part in observations]
    columns = list(zip(observations, roots, nexts, strict=True))
    values = action.value(actions)
    for t in range(steps):
        for root, entry in zip(roots, present, strict=True):
            root[t] = entry
        outcome = environments.step([values[t]])
        reward[t] = outcome.reward
        for value, (part, _, following) in zip(outcome.reached, columns, strict=True):
            following[t] = value if part.plain else part.entry(value)
        if outcome.terminated or outcome.truncated:
            terminated[t], truncated[t] = outcome.terminated, outcome.truncated
            if stop:
                steps = t + 1
                break
            if t + 1 < steps:
                arrays = environments.reset()
                present = [part.entry(value) for part, value in zip(observations, arrays, strict=True)]
        else:
            present = [following[t] for following in nexts]
    entries: dict[str, Any] = {str(part.key): root[:steps] for part, root, _ in columns}
    later: dict[str, Any] = {str(part.key): following[:steps] for part, _, following in columns}
    for name in ("done", "terminated", "truncated"):
        entries[name] = np.zeros((steps, 1), np.bool_)
    entries[str(action.key)] = actions[:steps]
    later["reward"] = reward[:steps]
    later["done"] = terminated[:steps] | truncated[:steps]
    later["terminated"], later["truncated"] = terminated[:steps], truncated[:steps]
    entries["next"] = TensorDict._make(later, (steps,))
    return TensorDict._make(entries, (steps,))
