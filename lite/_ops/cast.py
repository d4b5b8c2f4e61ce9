"""dtypes, devices and memory: `to`, casts by name, contiguity, and sizes in bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from lite._arrays import dtypes
from lite._arrays.device import move, on_leaves, parse_device, wrap
from lite._arrays.dtypes import as_dtype
from lite._arrays.types import HostArray, stored
from lite._tree.collection import TensorCollection
from lite._tree.lock import LOCK_ERROR
from lite._tree.methods import ArgsMethod, described
from lite._tree.protocol import Container, T
from lite._tree.undo import as_before, remember
from lite._tree.walks import leaves, map_kept, map_tree, nodes

CastFilter: TypeAlias = Callable[[Any, Any], bool] | None


def _astype(td: Any, dtype: np.dtype[Any], cast_filter: CastFilter = None) -> Any:
    # Comparing dtypes is cheaper than `copy=False`.
    def cast(leaf: Any) -> Any:
        return leaf if leaf.dtype == dtype else leaf.astype(dtype)

    if cast_filter is None:
        return map_kept(td, cast)
    require_filter(cast_filter)

    def chosen(key: Any, leaf: Any) -> Any:
        return cast(leaf) if cast_filter(key if isinstance(key, tuple) else (key,), leaf) else leaf

    return td.named_apply(chosen, nested_keys=True, filter_empty=False, propagate_lock=True)


def require_filter(cast_filter: object) -> None:
    """Raise TypeError for a `cast_filter` that cannot be called."""
    if not callable(cast_filter):
        raise TypeError(f"cast_filter must be a function of a key and an array, got {cast_filter!r}.")


def is_inexact(*args: Any) -> bool:
    """Whether the last argument is an array of floats or complex numbers; a `cast_filter`.

    Example:
        >>> from lite import TensorDict, is_inexact
        >>> td = TensorDict({"a": [0.5], "i": [1]}).double(cast_filter=is_inexact)
        >>> td["a"].dtype, td["i"].dtype
        (dtype('float64'), dtype('int64'))
    """
    return dtypes.is_inexact(args[-1].dtype)


def is_floating(*args: Any) -> bool:
    """Whether the last argument is an array of floats; a `cast_filter`."""
    return dtypes.is_floating(args[-1].dtype)


def is_integer(*args: Any) -> bool:
    """Whether the last argument is an array of integers, signed or not; a `cast_filter`."""
    return args[-1].dtype.kind in "iu"


def is_bool(*args: Any) -> bool:
    """Whether the last argument is an array of bools; a `cast_filter`."""
    return args[-1].dtype.kind == "b"


def _cast(name: str, dtype: str) -> ArgsMethod:
    # Extension dtypes, which another package defines.
    known = None if dtype == "bfloat16" else np.dtype(dtype)

    def method(self: Any, *, cast_filter: CastFilter = None) -> Any:
        return _astype(self, as_dtype(dtype) if known is None else known, cast_filter)

    return described(
        method,
        name,
        f"Cast every array to {dtype}; arrays that have it already are not copied. With `cast_filter` only "
        "those for which it is true; see `to`.",
    )


class DtypeCasts(Container):
    """One cast per dtype. It is a class of its own, as names such as `int` hide builtins in its body."""

    __slots__ = ()

    half = _cast("half", "float16")
    float = _cast("float", "float32")
    double = _cast("double", "float64")
    short = _cast("short", "int16")
    int = _cast("int", "int32")
    long = _cast("long", "int64")
    bool = _cast("bool", "bool")
    bfloat16 = _cast("bfloat16", "bfloat16")
    float16 = _cast("float16", "float16")
    float32 = _cast("float32", "float32")
    float64 = _cast("float64", "float64")
    int8 = _cast("int8", "int8")
    int16 = _cast("int16", "int16")
    int32 = _cast("int32", "int32")
    int64 = _cast("int64", "int64")
    uint8 = _cast("uint8", "uint8")
    uint16 = _cast("uint16", "uint16")
    uint32 = _cast("uint32", "uint32")
    uint64 = _cast("uint64", "uint64")
    complex64 = _cast("complex64", "complex64")
    complex128 = _cast("complex128", "complex128")


def to(
    td: T,
    dest: object = None,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
    other: object = None,
    non_blocking: bool = False,
    batch_size: object = None,
    inplace: bool = False,
    non_blocking_pin: bool = False,
    num_threads: int | None = None,
    cast_filter: CastFilter = None,
) -> T:
    """Cast to a dtype, move to a device, or both; or take them from another TensorDict.

    Args:
        dest: a dtype, a device name, or a TensorDict to take the device and dtype from.
        dtype: dtype of every array.
        device: "cpu" or "cuda". "meta" gives zeros that take no memory and cannot be written to, as a place
            for shapes and dtypes.
        other: same as a TensorDict as `dest`.
        non_blocking: accepted for compatibility.
        batch_size: batch size of the result; if nothing else changes, it is set on self.
        inplace: replace the arrays of self and of its nested TensorDicts, and return self.
        non_blocking_pin: accepted for compatibility, as memory is not pinned.
        num_threads: accepted for compatibility, as nothing is pinned by threads.
        cast_filter: called with the key of an array, a tuple, and the array; those for which it is false keep
            their dtype. `lite.is_inexact`, `is_floating`, `is_integer` and `is_bool` are such functions.

    Returns:
        Self if it is on the device already and no dtype is asked for, else a new TensorDict whose
        arrays are copied only where they change.

    Raises:
        RuntimeError: "cuda" without a usable GPU, or `inplace` if self is locked.
        TypeError: `dest` is of another type or also given by keyword; `batch_size` for a lazy stack.
        ValueError: `other` is on another device than the one given.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> td = TensorDict(a=np.arange(3))
        >>> td.to(np.float32)["a"].dtype, td.to("cpu").device
        (dtype('float32'), 'cpu')
        >>> td.to(np.float32, inplace=True)["a"].dtype, td["a"].dtype
        (dtype('float32'), dtype('float32'))
    """
    if isinstance(dest, TensorCollection):
        other = _once("other", other, dest)
    elif isinstance(dest, str) and dest.split(":")[0] in ("cpu", "cuda", "meta"):
        device = _once("device", device, dest)
    elif dest is not None:
        dtype = _once("dtype", dtype, _dtype_of(dest))
    if batch_size is not None and td._parts() is not None:
        raise TypeError("batch_size cannot be set on a lazy stack, whose batch size follows from its parts.")
    is_meta = device == "meta"
    name = None if is_meta else parse_device(device)
    if other is not None:
        node = td._as_node(other)
        if node is None:
            raise TypeError(f"other must be a TensorDict, got {other.__class__.__name__}.")
        if name is not None and node.device != name:
            raise ValueError(f"other and device differ: other is on {node.device}, and device is {name!r}.")
        name = node.device
        dtype = node.dtype if dtype is None else dtype
    if name is not None and name == td.device and dtype is None:
        return remember(td, td, as_before)
    moves = name is not None and name != td.device
    if inplace and (moves or is_meta or dtype is not None) and td.is_locked:
        raise RuntimeError(LOCK_ERROR)
    out: T = td if dtype is None else _astype(td, as_dtype(dtype), cast_filter)
    if is_meta:
        out = map_kept(out, lambda leaf: np.broadcast_to(np.zeros((), leaf.dtype), leaf.shape))
    if moves:
        moved: T = out._on(name)
        out = moved.lock_() if td.is_locked else moved
    if inplace and out is not td:
        _take_leaves(td, out)
        out = td
    if batch_size is not None:
        for node in (td,) if out is td else nodes(out):
            node.batch_size = batch_size
    return td if inplace else remember(td, out, as_before)


def _dtype_of(dest: object) -> Any:
    """A dtype from `dest`, which is neither a TensorDict nor a device; TypeError if it is not a dtype."""
    try:
        return as_dtype(dest)
    except TypeError as error:
        raise TypeError(
            f"dest must be a device ('cpu', or 'cuda' for a GPU), a dtype or a TensorDict, got {dest!r}."
        ) from error


def _once(argument: str, given: object, dest: object) -> Any:
    if given is not None:
        raise TypeError(f"{argument} is given twice, got {dest!r} and {argument}={given!r}.")
    return dest


def _take_leaves(td: Any, made: Any) -> None:
    """Replace the leaves and devices of a tree by those of a result with the same nodes."""
    stacked = td._parts()
    if stacked is not None:
        for part, other in zip(stacked[0], made._parts()[0], strict=True):
            _take_leaves(part, other)
        return
    for key, entry in list(made._items()):
        node = td._as_node(entry)
        if node is None:
            td._put(key, entry)
        else:
            _take_leaves(td._as_node(td._get_entry(key)), node)
    td._device = made.device


def _on(td: T, device: str | None) -> T:
    """An unlocked copy with `device` set and its arrays moved there."""

    def bound(node: Any, entries: dict[str, Any]) -> Any:
        out = node._with(entries)
        out._device = device
        return out

    return map_tree(td, lambda leaf, _: move(leaf, device), node=bound)


def type(td: T, dst_type: DTypeLike, *, cast_filter: CastFilter = None) -> T:
    """Cast every array to a dtype, or those for which `cast_filter` is true; see `to`."""
    out: T = _astype(td, as_dtype(dst_type), cast_filter)
    return out


def cpu(td: T) -> T:
    """Same as `to("cpu")`."""
    return td.to("cpu")


def cuda(td: T, device: int | None = None) -> T:
    """Same as `to("cuda")`; RuntimeError without a usable GPU."""
    return td.to("cuda" if device is None else f"cuda:{device}")


def clear_device_(td: T) -> T:
    """Set `device` to None, also in nested TensorDicts, without moving arrays; returns self."""
    for node in nodes(td):
        if node._parts() is None:
            node._device = None
    return td


def dtype(td: Container) -> np.dtype[Any] | None:
    """The dtype all arrays have, or None if they differ or there are none."""
    found = {leaf.dtype for leaf in leaves(td)}
    return found.pop() if len(found) == 1 else None


def as_tensor(td: T) -> T:
    """A TensorDict with plain NumPy arrays in place of those of subclasses, over the same memory.

    Arrays of class `MemoryMappedTensor` become plain ones too.

    Source:
        tensordict.TensorDict.as_tensor.

    Example:
        >>> import numpy as np
        >>> from lite import MemoryMappedTensor, TensorDict
        >>> td = TensorDict(a=MemoryMappedTensor.from_tensor(np.arange(2)))
        >>> isinstance(td["a"], MemoryMappedTensor), isinstance(td.as_tensor()["a"], MemoryMappedTensor)
        (True, False)
    """
    return map_kept(td, lambda leaf: leaf.view(np.ndarray) if isinstance(leaf, np.ndarray) else leaf)


def is_floating_point(td: Container) -> bool:
    """True if every array has a floating dtype."""
    return all(dtypes.is_floating(leaf.dtype) for leaf in leaves(td))


def is_contiguous(td: Container) -> bool:
    """True if every array is C-contiguous; a lazy stack never is."""
    return td._parts() is None and all(wrap(leaf).flags.c_contiguous for leaf in leaves(td))


def contiguous(td: Container, *, canonical: bool = False, inplace: bool = False) -> Any:
    """A dense TensorDict whose arrays are C-contiguous, copied only where they are not.

    Args:
        canonical: also copy an array whose strides of dimensions of size 1 differ from those of a new array.
            They do not affect contiguity, but matter to code that reads strides.
        inplace: replace the arrays of self, and return it.

    Raises:
        RuntimeError: a lazy stack in it has arrays of different shapes.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> td = TensorDict(a=np.zeros((3, 4))[:1].T)
        >>> td.contiguous()["a"].strides, td.contiguous(canonical=True)["a"].strides
        ((8, 32), (8, 8))
    """
    leaf = _canonical if canonical else _contiguous
    out = map_tree(td, leaf, dense=lambda stack: stack.contiguous(canonical=canonical))
    return td._replace_inplace(out, "contiguous") if inplace else out


def detach(td: T) -> T:
    """A TensorDict of the same arrays, and of the arrays of parameters, without gradients.

    Traced results become read-only arrays.
    """
    return map_kept(td, stored)


def detach_(td: T) -> T:
    """Detach traced results from their computation; parameters stay parameters. Returns self."""
    for node in nodes(td):
        for key, entry in list(node._data.items()):  # a lazy stack has none of its own
            if isinstance(entry, HostArray):
                node._put(key, entry.detach())
    return td


def data(td: T) -> T:
    """Same as `detach()`."""
    return td.detach()


def _view_dtype(td: T, dtype: np.dtype[Any], batch_size: object) -> T:
    return td.apply(lambda x: x.view(dtype), batch_size=batch_size)


def bytes(td: Container, *, count_duplicates: bool = True) -> int:
    """Bytes of all arrays; with `count_duplicates=False` an array held twice counts once.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> x = np.zeros(4, np.float32)
        >>> td = TensorDict(a=x, b=x)
        >>> td.bytes(), td.bytes(count_duplicates=False)
        (32, 16)
    """
    return sum(leaf.nbytes for leaf in _counted(td, count_duplicates))


def param_count(td: Container, *, count_duplicates: bool = True) -> int:
    """Number of elements of all arrays; see `bytes`."""
    return sum(leaf.size for leaf in _counted(td, count_duplicates))


def _counted(td: Container, count_duplicates: bool) -> list[Any]:
    arrays = list(leaves(td))
    return arrays if count_duplicates else list({id(leaf): leaf for leaf in arrays}.values())


def _canonical(leaf: object, node: Container) -> Any:
    if not isinstance(leaf, np.ndarray) or not leaf.size:
        return _contiguous(leaf, node)
    step = leaf.itemsize
    for n, stride in zip(reversed(leaf.shape), reversed(leaf.strides), strict=True):
        if stride != step:
            out = np.empty(leaf.shape, leaf.dtype)
            out[...] = leaf
            return out
        step *= n
    return leaf


def _contiguous(leaf: object, node: Container) -> Any:
    if isinstance(leaf, np.ndarray):
        return leaf if leaf.flags.c_contiguous else np.array(leaf, order="C")
    return leaf if wrap(leaf).flags.c_contiguous else on_leaves(lambda array: array.copy(), leaf)
