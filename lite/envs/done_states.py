"""The entries done, terminated and truncated at every level of a TensorDict, and resets by them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import NestedKey, TensorDictBase, is_tensor_collection
from lite._tree.keys import to_path
from lite.specs.composite import Composite

_ENDS = ("terminated", "truncated", "done")
_Reset = tuple[Any, NDArray[Any]]  # a node, and where it ended


class DoneStates:
    """The done entries of a spec, listed once, so that steps do not read specs.

    Attributes:
        leaves: the names and shapes of the entries at this level.
        nested: the nested levels, by name.
        ndim: batch dimensions of the environment.
    """

    def __init__(
        self, leaves: Sequence[tuple[str, tuple[int, ...]]], nested: dict[str, DoneStates], ndim: int
    ) -> None:
        self.leaves = list(leaves)
        self.nested = nested
        self.ndim = ndim
        self.names = {name for name, _ in leaves}

    @classmethod
    def of_spec(cls, spec: Composite) -> DoneStates:
        """The done entries of a `full_done_spec`."""
        leaves = [(name, part.shape) for name, part in spec.items() if not isinstance(part, Composite)]
        nested = {str(name): cls.of_spec(part) for name, part in spec.items() if isinstance(part, Composite)}
        return cls([(str(name), shape) for name, shape in leaves], nested, spec.ndim)

    @classmethod
    def of_data(cls, data: TensorDictBase) -> DoneStates:
        """The entries called done, terminated or truncated in a TensorDict."""
        leaves, nested = [], {}
        for name, value in data.items():
            if name in _ENDS:
                leaves.append((name, tuple(value.shape)))
            elif is_tensor_collection(value) and isinstance(value, TensorDictBase):
                nested[name] = cls.of_data(value)
        return cls(leaves, nested, data.ndim)

    def complete(self, data: Any) -> None:
        """Reshape the entries to their specs, and add the missing ones.

        A missing "terminated" is "done"; a missing "done" is "terminated" or "truncated"; others are False.

        Raises:
            RuntimeError: "terminated" is missing, but there are "done" and "truncated".
        """
        lead = tuple(data.batch_size[: data.ndim - self.ndim])
        missing = []
        for name, shape in self.leaves:
            value, wanted = data.get(name, None), (*lead, *shape) if lead else shape
            if value is None:
                missing.append((name, wanted))
            elif value.shape != wanted:
                data.set(name, value.reshape(wanted))
        for name, nested in self.nested.items():
            node = data.get(name, None)
            if node is not None:
                nested.complete(node)
        if not missing:
            return
        made = {name: np.zeros(shape, np.bool_) for name, shape in missing}
        if "terminated" in made and "done" in self.names and "done" not in made:
            if "truncated" in data:
                raise RuntimeError("terminated cannot be told where only done and truncated are given.")
            made["terminated"] = data.get("done").copy()
        if "done" in made and "terminated" in self.names and "terminated" not in made:
            truncated = data.get("truncated", None)
            terminated = data.get("terminated")
            made["done"] = terminated.copy() if truncated is None else terminated | truncated
        for name, value in made.items():
            data.set(name, value)

    def any(self, data: Any) -> bool:
        """Whether any environment ended; a level with done entries decides for its nested levels."""
        if self.leaves:
            values = (data.get(name, None) for name, _ in self.leaves)
            return any(bool(value.any()) for value in values if value is not None)
        return any(nested.any(data.get(name)) for name, nested in self.nested.items())

    def mark(self, data: Any, key: str, always: bool = False) -> bool:
        """Write the mask of ended environments at each level, if any ended; returns whether any did.

        Args:
            data: has the done entries.
            key: the last part of the key that is written at each level.
            always: write the mask if no environment ended, too.
        """
        found = self.any(data)
        for node, ended in list(self._levels(data)):
            if found or always:
                node.set(key, ended)
            elif key in node:
                node.del_(key)
        return found

    def ended(self, data: Any) -> NDArray[np.bool_] | None:
        """The mask of environments that ended at this level; None if it has no done entries."""
        if not self.leaves:
            return None
        ended = np.zeros((*data.batch_size, 1), np.bool_)
        for name, _ in self.leaves:
            value = data.get(name, None)
            ended = ended if value is None else ended | value
        return ended

    def _levels(self, data: Any) -> Iterator[_Reset]:
        for name, nested in self.nested.items():
            yield from nested._levels(data.get(name))
        ended = self.ended(data)
        if ended is not None:
            yield data, ended


def terminated_or_truncated(
    data: TensorDictBase,
    full_done_spec: Composite | None = None,
    key: str | None = "_reset",
    write_full_false: bool = False,
) -> bool:
    """Whether any environment ended; writes the mask of those that did at each level with done entries.

    Args:
        data: a TensorDict such as the "next" of a step.
        full_done_spec: the specs of the done entries; by default they are all entries called done, terminated
            or truncated. A level with done entries decides for its nested levels.
        key: the entry of the mask: done, terminated or truncated; None to write nothing.
        write_full_false: write the mask if no environment ended, too.

    Returns:
        Whether any of the entries is True.

    Source:
        torchrl.envs.utils.terminated_or_truncated.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import terminated_or_truncated
        >>> td = TensorDict({"done": np.array([[True], [False]])}, [2])
        >>> terminated_or_truncated(td), td["_reset"].ravel()
        (True, array([ True, False]))
    """
    states = DoneStates.of_data(data) if full_done_spec is None else DoneStates.of_spec(full_done_spec)
    return states.any(data) if key is None else states.mark(data, key, write_full_false)


def update_where_reset(tensordict: Any, tensordict_reset: Any, reset_keys: Sequence[NestedKey]) -> Any:
    """Write the result of a reset into a TensorDict where its "_reset" entries are True, and remove these.

    The entry of a level decides for its nested levels.
    """
    if not reset_keys:
        return tensordict.update(tensordict_reset)
    done_above: list[tuple[str, ...]] = []
    for key in reset_keys:
        *root, name = to_path(key)
        level = tuple(root)
        mask = tensordict.pop(key, None)
        nested = any(level[: len(above)] == above for above in done_above)
        done_above.append(level)
        if nested:
            continue
        node = tensordict.get(level) if level else tensordict
        given = tensordict_reset.get(level) if level else tensordict_reset
        if name in given:
            given = given.exclude(name)
        if mask is None or mask.all():
            node.update(given, update_batch_size=True)
            continue
        if mask.ndim > node.ndim:
            mask = mask.reshape(*mask.shape[: node.ndim], -1).any(-1)
        # False takes the dtype of an entry that the node lacks; 0 would make integers of flags.
        node.where(~mask.reshape(node.batch_size), given, out=node, pad=False, update_batch_size=True)
    return tensordict
