"""The safetensors format, through the package of that name."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.dtypes import dtype_of
from lite._arrays.types import Array
from lite._files.commit import new_file

_METADATA = "lite"
# The format's names of dtypes that NumPy has through ml_dtypes.
_EXTENSION = {
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
}


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
        ImportError: without the package, or ml_dtypes for the dtypes that need it.
        ValueError: a damaged file.
    """
    package = _package()
    try:
        with package.safe_open(path, framework="np") as file:
            names = list(file.keys())
            for kind in {file.get_slice(name).get_dtype() for name in names} & _EXTENSION.keys():
                dtype_of(_EXTENSION[kind])  # NumPy knows the name from then on
            arrays = {name: file.get_tensor(name) for name in names}
            metadata = file.metadata() or {}
    except (package.SafetensorError, OSError) as error:
        raise ValueError(f"{path} is damaged or foreign: {error}") from error
    return arrays, metadata.get(_METADATA)
