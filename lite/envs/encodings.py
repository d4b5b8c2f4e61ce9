"""How values of gymnasium's spaces are entries of a TensorDict: classes as integers, or one-hot vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.envs.spaces import Leaf
from lite.specs.arrays import ArraySpec
from lite.specs.classes import Categorical, OneHot
from lite.specs.multi_categorical import MultiCategorical, MultiOneHot


class Encoding:
    """The values of one leaf of a space as entries.

    Attributes:
        key: the key of the entry.
        spec: spec of one environment's entry.
        plain: whether entries are the values, in their dtype.

    Args:
        leaf: the leaf.
        key: the key.
        categorical: give classes as they are; False gives one-hot vectors, int64.
    """

    def __init__(self, leaf: Leaf, key: tuple[str, ...], categorical: bool) -> None:
        from gymnasium import spaces

        self.key = key[0] if len(key) == 1 else key
        self.spec: ArraySpec = leaf.spec
        self.plain = True
        self._start: Any = None  # of the classes, where that is not 0
        space = leaf.space
        if isinstance(space, spaces.Discrete):
            self._start = int(space.start) or None
            if not categorical:
                self.plain = False
                self.spec = OneHot(int(space.n), dtype=np.int64)
        elif isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
            self._start = space.start if space.start.any() else None
            several = len(set(space.nvec.tolist())) > 1
            if not categorical:
                self.plain = False
                n, count = int(space.nvec[0]), len(space.nvec)
                one_n = OneHot(n, (count, n), dtype=np.int64)
                self.spec = MultiOneHot(space.nvec.tolist(), dtype=np.int64) if several else one_n
            elif not space.start.any():
                dtype = space.dtype
                self.spec = (
                    MultiCategorical(space.nvec, dtype=dtype)
                    if several
                    else Categorical(int(space.nvec[0]), space.shape, dtype=dtype)
                )

    def entry(self, value: Any) -> NDArray[Any]:
        """A copy of the values of the space, with batch dimensions in front, as an entry."""
        if self.plain:
            return np.array(value, self.spec.dtype)
        return self.spec.encode(value if self._start is None else value - self._start)

    def value(self, entry: Any) -> Any:
        """The values of the space that an entry says."""
        if self.plain:
            return entry
        classes = self.spec.to_numpy(entry)
        return classes if self._start is None else classes + self._start
