"""The safetensors format, through the package of that name."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._collection import Array
from lite._files.commit import new_file

_METADATA = "lite"


def _package() -> Any:
    try:
        import safetensors.numpy
    except ImportError as error:
        raise ImportError(
            'files of type .safetensors need the package safetensors: pip install "tensordict-lite[files]"'
        ) from error
    return safetensors


def write(path: str, arrays: dict[str, Array], description: str) -> None:
    """Write arrays, and their description as metadata.

    Raises:
        ImportError: without the package.
        ValueError: a dtype that the format does not have.
    """
    package = _package()
    dense = {
        name: np.ascontiguousarray(a, a.dtype.newbyteorder("<")).reshape(a.shape)
        for name, a in arrays.items()
    }
    with new_file(path) as file:
        try:
            package.numpy.save_file(dense, file.name, {_METADATA: description})
        except package.SafetensorError as error:
            raise ValueError(f"{path} cannot be written: {error}") from error


def read(path: str) -> tuple[dict[str, Array], str | None]:
    """Arrays and description (None in a file that something else wrote).

    Raises:
        ImportError: without the package.
        ValueError: a damaged file.
    """
    package = _package()
    try:
        with package.safe_open(path, framework="np") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
            metadata = file.metadata() or {}
    except (package.SafetensorError, OSError) as error:
        raise ValueError(f"{path} is damaged or foreign: {error}") from error
    return arrays, metadata.get(_METADATA)
