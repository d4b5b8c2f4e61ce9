"""dtypes, devices and memory: `to`, the casts by name, and what a tree of arrays weighs."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike

from lite._arrays.device import move, parse_device, wrap
from lite._arrays.dtypes import as_dtype, is_floating
from lite._arrays.types import Array, is_array, raw
from lite._ops.methods import SelfMethod, described
from lite._ops.structure import StructureMixin
from lite._tree.collection import TensorCollection
from lite._tree.protocol import TensorDictCore
from lite._tree.undo import as_before
from lite._tree.walks import leaves, map_kept


def _astype(td: Any, dtype: np.dtype[Any]) -> Any:
    # Asking first is cheaper than `copy=False`.
    return map_kept(td, lambda leaf: leaf if leaf.dtype == dtype else leaf.astype(dtype))


def _cast(name: str, dtype: str) -> SelfMethod:
    known = None if dtype == "bfloat16" else np.dtype(dtype)  # which another package has to define

    def method(self: Any) -> Any:
        return _astype(self, as_dtype(dtype) if known is None else known)

    out: SelfMethod = described(
        method, name, f"Cast every array to {dtype}; arrays that have it already are not copied."
    )
    return out


class DtypeMixin(TensorDictCore):
    """One cast per dtype; their names hide builtins, so nothing else lives in this class."""

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


def _make_dense(td: Any) -> None:
    """Replace the lazy stacks nested in a tree that nobody else holds."""
    for key, entry in list(td._items()):
        node = td._as_node(entry)
        if node is not None and node._parts() is not None:
            td._put(key, td._rewrap(entry, node.contiguous()))
        elif node is not None:
            _make_dense(node)


class CastMixin(StructureMixin):
    """`to`, and questions about dtype, device and size in memory."""

    __slots__ = ()

    def to(
        self,
        dest: Any = None,
        dtype: Any = None,
        *,
        device: Any = None,
        other: Any = None,
        non_blocking: bool = False,
    ) -> Self:
        """Cast to a dtype, move to a device, or both; or take them from another TensorDict.

        Args:
            dest: a dtype, a device name, or a TensorDict to take the device and dtype from.
            dtype: dtype of every array.
            device: "cpu" or "cuda".
            other: same as a TensorDict as `dest`.
            non_blocking: accepted for compatibility.

        Returns:
            Self if it is on the device already and no dtype is asked for, else a new TensorDict whose
            arrays are copied only where they change.

        Raises:
            RuntimeError: "cuda" where no GPU can be used.
            TypeError: `dest` is none of these.

        Example:
            >>> import numpy as np
            >>> from lite import TensorDict
            >>> td = TensorDict(a=np.arange(3))
            >>> td.to(np.float32)["a"].dtype, td.to("cpu").device
            (dtype('float32'), 'cpu')
        """
        if isinstance(dest, TensorCollection):
            other = dest
        elif isinstance(dest, str) and dest.split(":")[0] in ("cpu", "cuda"):
            device = dest
        elif dest is not None:
            dtype = dest
        if other is not None:
            node = self._as_node(other)
            if node is None:
                raise TypeError(f"other must be a TensorDict, got {type(other).__name__}.")
            device = node.device if device is None else device
            dtype = node.dtype if dtype is None else dtype
        out: Self = self if dtype is None else _astype(self, as_dtype(dtype))
        name = parse_device(device)
        if name is None or name == out.device:
            return self._remember(out, as_before)
        moved: Self = out._on(name)
        return self._remember(moved.lock_() if self.is_locked else moved, as_before)

    def _on(self, device: str | None) -> Self:
        """An unlocked copy that is bound to a device, its arrays moved there."""
        stacked = self._parts()
        if stacked is not None:
            return self._from_parts([part._on(device) for part in stacked[0]])  # type: ignore[return-value]
        entries: dict[str, Any] = {}
        for key, entry in self._items():
            node = self._as_node(entry)
            if node is not None:
                entries[key] = self._rewrap(entry, node._on(device))
            else:
                entries[key] = move(entry, device) if is_array(entry) else entry
        out = self._with(entries)
        out._set_device(device)
        return out

    def type(self, dst_type: DTypeLike) -> Self:
        """Cast every array to a dtype."""
        return _astype(self, as_dtype(dst_type))  # type: ignore[no-any-return]

    def cpu(self) -> Self:
        """Same as `to("cpu")`."""
        return self.to("cpu")

    def cuda(self, device: int | None = None) -> Self:
        """Same as `to("cuda")`; RuntimeError where no GPU can be used."""
        return self.to("cuda" if device is None else f"cuda:{device}")

    def clear_device_(self) -> Self:
        """Remove the device constraint, here and in nested TensorDicts; arrays stay where they are."""
        stacked = self._parts()
        if stacked is not None:
            for part in stacked[0]:
                part.clear_device_()
            return self
        self._set_device(None)
        for _, entry in self._items():
            node = self._as_node(entry)
            if node is not None:
                node.clear_device_()
        return self

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The dtype all arrays have, or None if they differ or there are none."""
        found = {leaf.dtype for leaf in leaves(self)}
        return found.pop() if len(found) == 1 else None

    def is_floating_point(self) -> bool:
        """True if every array has a floating dtype."""
        return all(is_floating(leaf.dtype) for leaf in leaves(self))

    def is_contiguous(self) -> bool:
        """True if every array is C-contiguous; a lazy stack never is."""
        return self._parts() is None and all(wrap(leaf).flags.c_contiguous for leaf in leaves(self))

    def contiguous(self, *, canonical: bool = False, inplace: bool = False) -> Any:
        """A dense TensorDict whose arrays are C-contiguous, copied only where they are not.

        Args:
            canonical: accepted for compatibility; NumPy's contiguous arrays have canonical strides.
            inplace: give self the arrays, and return it.

        Raises:
            RuntimeError: a lazy stack with arrays of different shapes.
        """
        if self._parts() is None:
            out = self._map_leaves(_contiguous)
            _make_dense(out)
            return self._adopt(out, "contiguous") if inplace else out
        out = self._blank()
        for key, entry in self._items():
            node = self._as_node(entry)
            out._put(key, entry if node is None else self._rewrap(entry, node.contiguous()))
        return out

    def detach(self) -> Self:
        """A TensorDict over the same arrays, those of parameters too; there is no gradient to detach from."""
        return map_kept(self, raw)

    def detach_(self) -> Self:
        """Returns self; there is no gradient to detach from."""
        return self

    @property
    def data(self) -> Self:
        """Same as `detach()`."""
        return self.detach()

    def _view_dtype(self, dtype: np.dtype[Any], batch_size: Any) -> Self:
        out: Self = self.apply(lambda x: x.view(dtype), batch_size=batch_size)  # type: ignore[attr-defined]
        return out

    @property
    def requires_grad(self) -> bool:
        """Whether a parameter among the entries is marked for training; arrays never are."""
        return any(getattr(leaf, "requires_grad", False) for leaf in leaves(self))

    def bytes(self, *, count_duplicates: bool = True) -> int:
        """Bytes of all arrays; with `count_duplicates=False` an array held twice counts once.

        Example:
            >>> import numpy as np
            >>> from lite import TensorDict
            >>> x = np.zeros(4, np.float32)
            >>> td = TensorDict(a=x, b=x)
            >>> td.bytes(), td.bytes(count_duplicates=False)
            (32, 16)
        """
        return sum(leaf.nbytes for leaf in _counted(self, count_duplicates))

    def param_count(self, *, count_duplicates: bool = True) -> int:
        """Number of elements of all arrays; see `bytes`."""
        return sum(leaf.size for leaf in _counted(self, count_duplicates))


def _counted(td: TensorDictCore, count_duplicates: bool) -> list[Any]:
    arrays = list(leaves(td))
    return arrays if count_duplicates else list({id(leaf): leaf for leaf in arrays}.values())


def _contiguous(leaf: Array) -> Array:
    if leaf.flags.c_contiguous:
        return leaf
    return np.array(leaf, order="C") if isinstance(leaf, np.ndarray) else leaf.copy()
