"""The numbers that a loss keeps in buffers."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from lite._arrays.types import Array


class Coefficient(np.ndarray[Any, Any]):
    """A number with the in-place methods of torch's buffers, which schedules in TorchRL's scripts call.

    Example:
        >>> import numpy as np
        >>> from lite.nn.losses.coefficient import Coefficient
        >>> epsilon = np.array(0.2).view(Coefficient)
        >>> float(epsilon.copy_(0.1)), float(epsilon)
        (0.1, 0.1)
    """

    def copy_(self, source: Array | float) -> Self:
        """Set the number; returns self."""
        self[...] = source
        return self

    def fill_(self, value: float) -> Self:
        """Same as `copy_`."""
        return self.copy_(value)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return array[()] if return_scalar else array.view(np.ndarray)  # results are plain
