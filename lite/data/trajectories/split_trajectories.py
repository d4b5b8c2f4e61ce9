"""split_trajectories: one row per trajectory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import NestedKey, TensorDictBase, lazy_stack
from lite._arrays.types import Path
from lite._tree.keys import require_path
from lite.nn.values.entries import require_array, require_time

_NAME = "split_trajectories"


def split_trajectories(
    rollout_tensordict: TensorDictBase,
    *,
    prefix: NestedKey | tuple[()] | None = None,
    trajectory_key: NestedKey | None = None,
    done_key: NestedKey | None = None,
    as_nested: bool = False,
) -> TensorDictBase:
    """Cut a batch of steps into its trajectories, and pad these to the longest.

    Time is the last batch dimension; each row along it starts a trajectory, and each step whose id differs
    from the one before it. Without ids, each step after a done one does, and ids are counted from 0.

    Args:
        rollout_tensordict: steps, with at least one batch dimension. It is not modified.
        prefix: key of the node of `"traj_ids"` and `"mask"`. None: `"collector"` if that exists, otherwise
            `()`, the root.
        trajectory_key: key of the ids, integers of the shape of the batch, or that and a last dimension
            of 1; the mask is then beside them. Replaces `prefix`.
        done_key: key in `"next"`, read if there are no ids. Booleans or integers, shaped as the ids
            are. None: `"done"`.
        as_nested: return unpadded trajectories, as a lazy stack, instead of padded ones and a mask.

    Returns:
        A TensorDict of batch size (trajectories, steps of the longest) in new memory, in the order of the
        rows; time keeps its name. Padding is 0, False, or None for objects; the boolean mask is False there.
        With `as_nested`, a lazy stack of views, or of copies where rows are not contiguous.

    Raises:
        KeyError: ids and done are both missing.
        TypeError: ids are not integers, done has another dtype, or the input is not a TensorDict.
        RuntimeError: ids or done have another shape; `as_nested` without any step.
        ValueError: there is no batch dimension.

    Source:
        `split_trajectories` of TorchRL, https://github.com/pytorch/rl.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import split_trajectories
        >>> done = np.array([False, False, True, False, False])
        >>> td = TensorDict({"obs": np.arange(1, 6), "next": {"done": done}}, batch_size=[5])
        >>> out = split_trajectories(td)
        >>> out["obs"].tolist(), out["traj_ids"].tolist()
        ([[1, 2, 3], [4, 5, 0]], [[0, 0, 0], [1, 1, 0]])
    """
    require_time(rollout_tensordict, _NAME)
    if not isinstance(as_nested, bool):
        raise TypeError(
            f"as_nested must be True or False, got {as_nested!r}: there is one kind of lazy stack."
        )
    source: Any = rollout_tensordict.clone(False)
    size = source.batch_size
    ids_path = _ids_path(source, prefix, trajectory_key)
    starts = np.ones(size, np.bool_)
    if source.get(ids_path, None) is None:
        starts[..., 1:] = _done(source, ids_path, "done" if done_key is None else done_key)[..., :-1]
        source.set(ids_path, np.cumsum(starts).reshape(size) - 1)
    else:
        ids = _per_step(source, ids_path, "iu", "integers")
        starts[..., 1:] = ids[..., 1:] != ids[..., :-1]

    first = np.flatnonzero(starts)
    lengths = np.diff(first, append=starts.size)
    steps = source.reshape(-1)
    names = [None, source.names[-1]]
    if as_nested:
        if not len(first):
            raise RuntimeError(f"as_nested needs at least one step, got a batch of size {size}.")
        stack = lazy_stack(list(steps.split(lengths.tolist(), 0)), 0)
        stack.names = names
        return stack
    offset = np.arange(lengths.max(initial=0))
    mask = offset < lengths[:, None]
    # All padding is one more element, after the last.
    out: TensorDictBase = steps.pad([0, 1])[np.where(mask, first[:, None] + offset, starts.size)]
    out.names = names
    return out.set((*ids_path[:-1], "mask"), mask)


def _ids_path(td: TensorDictBase, prefix: Any, trajectory_key: NestedKey | None) -> Path:
    if trajectory_key is not None:
        return require_path(trajectory_key)
    if prefix is None:
        prefix = () if td.get("collector", None) is None else "collector"
    return (*(() if prefix == () else require_path(prefix)), "traj_ids")


def _done(td: TensorDictBase, ids_path: Path, key: NestedKey) -> NDArray[np.bool_]:
    path = ("next", *require_path(key))
    if td.get(path, None) is None:
        raise KeyError(f"{_NAME} reads ids from {ids_path} or done from {path}; the TensorDict has neither.")
    return _per_step(td, path, "biu", "boolean or integers").astype(np.bool_)


def _per_step(td: TensorDictBase, path: Path, kinds: str, what: str) -> NDArray[Any]:
    """The array at `path`, one value per step."""
    array = require_array(td, path, _NAME)
    size = td.batch_size
    if array.dtype.kind not in kinds:
        raise TypeError(f"the entry {path} must be {what}, got {array.dtype}.")
    if array.shape not in (size, (*size, 1)):
        raise RuntimeError(f"the entry {path} must have the shape {size}, got {array.shape}.")
    return array.reshape(size)
