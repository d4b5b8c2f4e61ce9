"""Single arrays in files: tensordict's `MemoryMappedTensor`."""

from __future__ import annotations

import math
import os
from typing import Any, Self, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from lite._arrays.device import is_cpu
from lite._arrays.dtypes import get_default_dtype
from lite._arrays.public import belong_to
from lite._arrays.types import Array, Device, Shape
from lite._files.blocks import copies
from lite._files.commit import new_file
from lite._files.mapping import FileMap, bytes_of, map_leaf, source_of

_PathLike = str | os.PathLike[str]


class MemoryMappedTensor(np.ndarray[Any, np.dtype[Any]]):
    """A NumPy array whose memory is a file: raw values in row-major order, little-endian.

    The class methods below make such arrays, and so does `MemoryMappedTensor(array, filename=...)`, which is
    `from_tensor`; without a `filename` the latter is a view of the array without a file. Writes change the
    file if permissions allow it. Views by slices are in the file, too; results of computations and of index
    arrays are plain arrays. A pickle holds the path of the file and not the values (`np.array(x)` copies
    these). The class methods without a `filename` use memory that forked processes share.

    The leaves of a mapped TensorDict are plain arrays over their files, which index faster;
    `from_filename` gives this class for the same file.

    Example:
        >>> import tempfile, numpy as np
        >>> from lite import MemoryMappedTensor
        >>> path = tempfile.mkdtemp() + "/x"
        >>> x = MemoryMappedTensor.from_tensor(np.arange(4), filename=path)
        >>> x[1:3] = 7
        >>> np.fromfile(path, np.int64)
        array([0, 7, 7, 3])
    """

    def __new__(
        cls,
        source: ArrayLike,
        *,
        shape: Any = None,
        index: Any = None,
        device: Device = None,
        filename: _PathLike | None = None,
    ) -> Self:
        _require_host(device)
        if isinstance(source, str | os.PathLike):
            raise TypeError(f"source must be an array, got {source!r}; from_filename maps a file.")
        if filename is None:
            array = np.asanyarray(source)
            out = (array if shape is None else array.reshape(_shape((shape,)))).view(cls)
        else:
            out = cls.from_tensor(source, filename=filename, shape=shape)
        return out if index is None else out[index]

    @property
    def filename(self) -> str:
        """The path of the file.

        Raises:
            RuntimeError: the array has no file.
        """
        source = source_of(self)
        if source is None or not source.path:
            raise RuntimeError("The MemoryMappedTensor has no file associated.")
        return source.path

    # -- from values --------------------------------------------------------------------------

    @classmethod
    def from_tensor(
        cls,
        input: ArrayLike,
        *,
        filename: _PathLike | None = None,
        existsok: bool = False,
        copy_existing: bool = False,
        copy_data: bool = True,
        shape: Any = None,
    ) -> Self:
        """Copy an array to a file or to shared memory; an array that is in it already is returned.

        Args:
            input: the array.
            filename: the file, which appears when it is complete; None for shared memory.
            existsok: replace an existing file. Arrays mapped to the old file keep it.
            copy_existing: copy an array that is mapped to another file.
            copy_data: False makes zeros, which take no space in the file until they are written to.
            shape: shape of the result, by default that of the array.

        Raises:
            RuntimeError: a file exists and `existsok` is False; or the array is mapped to another file.
            ValueError: a shape for another number of elements.
        """
        array = np.asanyarray(input)
        path = None if filename is None else os.path.abspath(filename)
        source = source_of(array)
        if isinstance(array, cls) and source is not None and source.path == (path or ""):
            return array
        if source is not None and source.path and path is not None and not copy_existing:
            raise RuntimeError(
                f"A filename was provided but the array already has a file associated ({source.path}). "
                "To copy the array to the new location, pass copy_existing=True."
            )
        plain = np.asarray(array)
        if shape is not None:
            size = _shape((shape,))
            if math.prod(size) != plain.size:
                raise ValueError(f"an array of shape {plain.shape} cannot get the shape {size}.")
            plain = plain.reshape(size)
        if path is None:
            return copies([plain], filled=copy_data, mapped=True)[0].view(cls)
        return _create(path, plain, copy_data, existsok).view(cls)

    @classmethod
    def from_filename(
        cls, filename: _PathLike, dtype: DTypeLike, shape: Any, index: Any = None, mode: str | None = None
    ) -> Self:
        """Map an existing file.

        Args:
            filename: the file.
            dtype: dtype of the array.
            shape: shape of the array in the file.
            index: part of it to return.
            mode: "r" keeps writes in memory, "r+" makes them reach the file, None does so where it can.

        Raises:
            FileNotFoundError: there is no such file.
            PermissionError: it may not be written, and `mode` is "r+".
            ValueError: it is shorter than dtype and shape require, or a symbolic link; an unknown `mode`.
        """
        if mode not in (None, "r", "r+"):
            raise ValueError(f"mode must be None, 'r' or 'r+', got {mode!r}.")
        size, kind = _shape((shape,)), np.dtype(dtype)
        path = os.path.abspath(filename)
        array = map_leaf(path, kind, size, None, mode) if math.prod(size) else np.empty(size, kind)
        out = array.view(cls)
        return out if index is None else out[index]

    # -- filled -------------------------------------------------------------------------------

    @classmethod
    def empty(cls, *shape: Any, **options: Any) -> Self:
        """Zeros that take no space until they are written to; see `full`."""
        return cls._filled(None, shape, **options)

    @classmethod
    def zeros(cls, *shape: Any, **options: Any) -> Self:
        """Zeros; see `full`."""
        return cls._filled(None, shape, **options)

    @classmethod
    def ones(cls, *shape: Any, **options: Any) -> Self:
        """Ones; see `full`."""
        return cls._filled(1, shape, **options)

    @classmethod
    def full(cls, *shape: Any, fill_value: complex, **options: Any) -> Self:
        """An array of one value.

        Args:
            shape: sizes, or one sequence of sizes; also as the keyword `shape`.
            fill_value: the value.
            options: `dtype` (default: the default float dtype), `filename` (default: shared memory),
                `existsok` (default: False) as in `from_tensor`, and `device`, None or "cpu".

        Raises:
            RuntimeError: the file exists and `existsok` is False, or another device.

        Example:
            >>> from lite import MemoryMappedTensor
            >>> MemoryMappedTensor.full(2, 3, fill_value=5, dtype="int8").sum()
            np.int64(30)
        """
        return cls._filled(fill_value, shape, **options)

    @classmethod
    def empty_like(cls, input: ArrayLike, *, filename: _PathLike | None = None) -> Self:
        """As `empty`, with the shape and dtype of an array."""
        return cls._like(None, input, filename)

    @classmethod
    def zeros_like(cls, input: ArrayLike, *, filename: _PathLike | None = None) -> Self:
        """As `zeros`, with the shape and dtype of an array."""
        return cls._like(None, input, filename)

    @classmethod
    def ones_like(cls, input: ArrayLike, *, filename: _PathLike | None = None) -> Self:
        """As `ones`, with the shape and dtype of an array."""
        return cls._like(1, input, filename)

    @classmethod
    def full_like(cls, input: ArrayLike, fill_value: complex, *, filename: _PathLike | None = None) -> Self:
        """As `full`, with the shape and dtype of an array."""
        return cls._like(fill_value, input, filename)

    @classmethod
    def _like(cls, value: Any, input: ArrayLike, filename: _PathLike | None) -> Self:
        array = np.asarray(input)
        return cls._filled(value, (array.shape,), dtype=array.dtype, filename=filename)

    @classmethod
    def _filled(
        cls, value: Any, sizes: tuple[Any, ...], *, shape: Any = None, dtype: DTypeLike | None = None,
        device: Device = None, filename: _PathLike | None = None, existsok: bool = False,
    ) -> Self:  # fmt: skip
        _require_host(device)
        if not sizes and shape is None:
            raise TypeError("Could not find the shape argument in the arguments.")
        kind = np.dtype(get_default_dtype() if dtype is None else dtype)
        one = np.zeros((), kind) if value is None else np.asarray(value).astype(kind)
        like = np.broadcast_to(one, _shape(sizes or (shape,)))
        return cls.from_tensor(like, filename=filename, existsok=existsok, copy_data=value is not None)

    # -- as an array --------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Any:
        return _plain_unless_mapped(super().__getitem__(index))

    def __array_wrap__(self, array: Array, context: Any = None, return_scalar: bool = False) -> Any:
        if return_scalar:
            return array[()]
        return array if array is self else np.asarray(array)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        source = source_of(self)
        reference = source.reference(self) if source is not None and self.size else None
        plain: Any = np.asarray(self) if reference is None else reference
        return _viewed, (type(self), plain)


belong_to("lite", MemoryMappedTensor)


def _require_host(device: Device) -> None:
    if device is not None and not is_cpu(device):
        raise RuntimeError(f"Only CPU arrays can be mapped, got device={device!r}.")


def _viewed(cls: type[MemoryMappedTensor], array: Array) -> MemoryMappedTensor:
    return array.view(cls)


def _plain_unless_mapped(value: object) -> Any:
    return np.asarray(value) if isinstance(value, np.ndarray) and source_of(value) is None else value


def _shape(sizes: tuple[Any, ...]) -> Shape:
    """Sizes given one by one, or as one sequence."""
    given = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int | np.integer) else sizes
    return tuple(int(size) for size in given)


def _create(path: str, array: Array, filled: bool, existsok: bool) -> Array:
    if os.path.islink(path):
        raise RuntimeError(f"Refusing to write through the symbolic link {path}.")
    if not existsok and os.path.exists(path):
        raise RuntimeError(f"The file {path} already exists.")
    if not array.size:
        return np.empty(array.shape, array.dtype)
    with new_file(path) as file:
        if filled:
            file.write(bytes_of(array))
            file.flush()
        else:
            file.truncate(array.nbytes)
        inode = os.fstat(file.fileno()).st_ino
        memory = FileMap(file.fileno(), array.nbytes, False, os.path.realpath(path), inode)
        return memory.array(array.dtype.newbyteorder("<"), array.shape)
