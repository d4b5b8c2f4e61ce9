"""Weights from a safetensors file."""

from __future__ import annotations

import os
from typing import Any


def load_safetensors(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the arrays of a safetensors file, by name: the state dict, if the file holds a module's weights.

    Args:
        path: the file.

    Returns:
        names to arrays, for `Module.load_state_dict`. bfloat16 and float8 arrays have the dtypes of
        ml_dtypes; copied into a module's own arrays they take their dtype.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a damaged file, or one of another format.
        ImportError: without the package safetensors, or ml_dtypes for the dtypes that need it.

    Example:
        >>> import tempfile, numpy as np
        >>> from safetensors.numpy import save_file
        >>> from lite import nn
        >>> path = tempfile.mkdtemp() + "/model.safetensors"
        >>> save_file({"weight": np.ones((1, 2), np.float32), "bias": np.zeros(1, np.float32)}, path)
        >>> nn.Linear(2, 1).load_state_dict(nn.load_safetensors(path))
        <All keys matched successfully>
    """
    from lite._files.flat import read_safetensors  # imported on use, as most programs read no files

    os.stat(path)  # raises FileNotFoundError, where the next call would report a damaged file
    return read_safetensors(os.fspath(path))[0]
