"""Parameters as one vector."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from lite._arrays.types import Array, is_array
from lite.nn._modules.parameter import Parameter


def parameters_to_vector(parameters: Iterable[Any]) -> Array:
    """All numbers of Parameters, or arrays, one after the other.

    Under `lite.enable_grad()` the vector depends on the Parameters.

    Args:
        parameters: such as `module.parameters()`.

    Returns:
        (n,), of the promoted dtype.

    Raises:
        ValueError: there are none.

    Source:
        torch.nn.utils.parameters_to_vector.

    Example:
        >>> from lite import nn
        >>> nn.utils.parameters_to_vector(nn.Linear(2, 3).parameters()).shape
        (9,)
    """
    parts = [parameter.reshape(-1) for parameter in parameters]
    if not parts:
        raise ValueError("parameters must not be empty, got none.")
    return np.concatenate(parts)


def vector_to_parameters(vec: Any, parameters: Iterable[Parameter]) -> None:
    """Write the numbers of a vector into Parameters, one after the other.

    Args:
        vec: (n,), or longer: what is left is not used.
        parameters: such as `module.parameters()`; their arrays are replaced, and keep their dtypes.

    Raises:
        TypeError: `vec` is no array.
        RuntimeError: it is too short; nothing has changed then.

    Source:
        torch.nn.utils.vector_to_parameters.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> layer = nn.Linear(2, 1)
        >>> nn.utils.vector_to_parameters(np.arange(3.0), layer.parameters())
        >>> layer.weight.data, layer.bias.data
        (array([[0., 1.]], dtype=float32), array([2.], dtype=float32))
    """
    if not is_array(vec):
        raise TypeError(f"vec must be an array, got {type(vec).__name__}.")
    given = list(parameters)
    sizes = [math.prod(parameter.shape) for parameter in given]
    if vec.ndim != 1 or vec.shape[0] < sum(sizes):
        raise RuntimeError(f"vec must be a vector of {sum(sizes)} numbers, got shape {tuple(vec.shape)}.")
    start = 0
    for parameter, size in zip(given, sizes, strict=True):
        part: Any = vec[start : start + size]
        parameter.data = part.reshape(parameter.shape).astype(parameter.dtype)
        start += size
