"""Storages of rows in arrays: of a TensorDict, one array, or a tuple or dict of arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import lite
from lite import NestedKey, TensorDict
from lite._arrays.device import is_cpu
from lite._arrays.public import belong_to
from lite._arrays.types import Array, host_array, is_array, stored
from lite.data.replay.columns import Columns, blank, is_container
from lite.data.replay.next_observations import APART, NextObservations
from lite.data.replay.storages import METADATA, PathLike, Position, Storage, read_json, write_json
from lite.data.replay.trees import (
    Tree,
    as_rows_of,
    as_table,
    is_tree,
    joined,
    leaves_of,
    length_of_tree,
    load_leaves,
)

SINGLE = "_-single-tensor-_"  # the one entry of the folder of a storage that is one array


class TensorStorage(Storage):
    """Rows in the arrays of a TensorDict or tensorclass that is there already, or in one array.

    Args:
        storage: the TensorDict, tensorclass or array; it is not copied, and all its rows count as filled.
        max_size: its number of rows, if given.
        device: "cpu", the only one, or None.
        ndim: the number of first dimensions that an index spans. Rows are along the first of them.
        compilable: for TorchRL's signature.

    Raises:
        ValueError: no storage, or `max_size` is another number.
        TypeError: neither a TensorDict, nor a tensorclass, nor an array.

    Source:
        `TensorStorage` of TorchRL, https://github.com/pytorch/rl.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import TensorStorage
        >>> storage = TensorStorage(TensorDict({"obs": np.zeros((10, 3))}, [10]))
        >>> storage.set(range(2), TensorDict({"obs": np.ones((2, 3))}, [2]))
        >>> storage.get([1, 2])["obs"].sum(-1)
        array([3., 0.])
    """

    def __init__(
        self,
        storage: Any,
        max_size: int | None = None,
        *,
        device: Any = "cpu",
        ndim: int = 1,
        compilable: bool = False,
    ) -> None:
        if storage is None and type(self) is TensorStorage:
            raise ValueError("Expected storage to be non-null.")
        if device not in (None, "auto") and not is_cpu(device):
            raise ValueError(f"device must be 'cpu', where NumPy's arrays are, got {device!r}.")
        if storage is not None:
            storage = np.asarray(storage) if is_array(storage) else storage
            if not isinstance(storage, np.ndarray) and not is_container(storage):
                raise TypeError(f"storage must be a TensorDict or an array, got {type(storage).__name__}.")
            if max_size not in (None, storage.shape[0]):
                raise ValueError(
                    f"max_size must be the {storage.shape[0]} rows of the storage, got {max_size}."
                )
            max_size = math.prod(storage.shape[:ndim])
        super().__init__(max_size or 0)
        self.ndim = ndim
        self.device = "cpu"
        self._ring = Position()
        self._columns: Columns | None = None
        self._next: NextObservations | None = None
        self._tree: Tree | None = None  # the nesting of rows that are tuples or dicts
        if storage is not None:
            self._use(storage)
            self._ring.commit(self.max_size, 0, 0)

    @property
    def initialized(self) -> bool:
        """Whether the arrays exist, so that the structure of the data is known."""
        return self._columns is not None

    @property
    def _position(self) -> Position:
        return self._ring

    def __len__(self) -> int:
        return self._position.length

    # -- the shape --------------------------------------------------------------------------------

    @property
    def shape(self) -> Any:
        """The shape of the part that is filled; with `ndim` > 1 and no data yet, None."""
        if self.ndim == 1:
            return (len(self),)
        if self._columns is None:
            return None
        inner = self._columns.table.shape[1 : self.ndim]
        return (-(len(self) // -math.prod(inner)), *inner)

    def _rows(self) -> int:
        return self.max_size if self._columns is None else self._columns.rows

    def _rows_for(self, data: Any, many: bool) -> int:
        if self.ndim == 1 or self._columns is not None:
            return self._rows()
        inner = data.shape[1 : self.ndim] if many else data.shape[: self.ndim - 1]
        return -(self.max_size // -math.prod(inner))

    def _filled_rows(self) -> int:
        return len(self) if self.ndim == 1 else self.shape[0]

    # -- reading ----------------------------------------------------------------------------------

    def get(self, index: Any) -> Any:
        """The rows at an index; views of the storage where the index is an int or a slice.

        Raises:
            RuntimeError: there is no data yet.
            IndexError: a row is not filled.
        """
        columns = self._require_columns()
        filled = self._filled_rows()
        if self._next is not None:
            rows = rows_at(index, filled)
            found = self._taken(rows) if rows.ndim else self._taken(rows[None])[0]
        else:
            found = columns.table[:filled][index]
        return found if self._tree is None else as_rows_of(found, self._tree)

    def _read(self, index: Any) -> Any:
        found = self._taken(index)
        return found if self._tree is None else as_rows_of(found, self._tree)

    def _taken(self, index: Any) -> Any:
        columns = self._require_columns()
        if type(index) is not np.ndarray:
            return columns.table[index]
        found = columns.take(index)
        return found if self._next is None else self._next.add(found, index)

    def entry(self, key: NestedKey) -> Array | None:
        """The array of a key, (rows, ...), uncopied; None without one."""
        if self._columns is None:
            return None
        table = self._columns.table
        if isinstance(table, np.ndarray):
            return None
        found = table.get(key, None)
        return found if isinstance(found, np.ndarray) else None

    def _require_columns(self) -> Columns:
        if self._columns is None:
            raise RuntimeError("Cannot get elements out of a storage that has no data yet.")
        return self._columns

    # -- writing ----------------------------------------------------------------------------------

    def set(self, cursor: Any, data: Any) -> None:
        """Write one row at an int, or one for each item of a slice, a range or an array of ints.

        Rows beyond those that are filled count as filled from then on, with all before them.

        Raises:
            IndexError: a row beyond `max_size`.
            KeyError, RuntimeError, TypeError: the structure of the data differs from that of the storage.
        """
        many = not isinstance(cursor, int | np.integer)
        data = self._as_rows(data, many)
        self._start(data, many)
        rows = self._rows()
        index = np.arange(rows)[cursor] if isinstance(cursor, slice) else np.atleast_1d(np.asarray(cursor))
        if index.dtype.kind not in "iu" or index.ndim != 1:
            raise IndexError(f"cursor must be an int, a slice or a sequence of ints, got {cursor!r}.")
        if index.size and not 0 <= index.min() <= index.max() < rows:
            raise IndexError(f"cursor must be in the {rows} rows of the storage, got {cursor!r}.")
        self._write_at(index, data, many)

    def _as_rows(self, data: Any, many: bool) -> Any:
        """Data as a container or an array, also data of rows that are tuples and dicts.

        Raises:
            TypeError: it cannot be converted, or is nested differently than the stored rows.
        """
        if many and isinstance(data, list) and data and all(map(is_tree, data)):
            data = joined(data)
        tree = None
        if is_tree(data):
            data, tree = as_table(data, self.ndim if many else self.ndim - 1)
        else:
            data = as_rows(data)
        if self._columns is None:
            self._tree = tree
        elif tree != self._tree:
            raise TypeError(f"the storage holds rows {_form(self._tree)}, got rows {_form(tree)}.")
        return data

    def _length_of(self, data: Any) -> int:
        return length_of_tree(data) if is_tree(data) else super()._length_of(data)

    def _write_rows(self, index: Any, data: Any, written: int) -> None:
        self._start(data, True)
        self._write_at(index, data, True, written)

    def _replace(self, index: Any, data: Any) -> None:
        self._require_columns()
        many = np.ndim(index) > 0 or isinstance(index, slice | tuple) or index is Ellipsis
        data = self._as_rows(data, many)
        if self.ndim > 1 and isinstance(index, tuple):
            return self._write_into((), lambda rows: rows.__setitem__(index, data))
        where = rows_at(index, self._filled_rows())
        return self._write_at(np.atleast_1d(where), data, bool(where.ndim))

    def _write_at(self, index: Array, data: Any, many: bool, written: int | None = None) -> None:
        """Write rows at any index; all are checked before the first is written."""
        self._refuse_apart()
        pairs = self._require_columns().pairs(data, many)
        for _, value in pairs if many else ():
            if value.shape[:1] != index.shape:
                rows = value.shape[0] if value.ndim else "no"
                raise RuntimeError(f"{rows} rows do not fit {len(index)} places.")
        if not index.size:
            return
        length, cursor, writes = self._position.now()
        inner = self.max_size // self._rows()
        length = max(length, (int(index.max()) + 1) * inner)
        if written is not None:
            cursor, writes = length % self._rows(), writes + written
        where: Any = index if many else _place(int(index[0]))
        try:
            self._before_anywhere(index)
            for array, value in pairs:
                array[where] = value
            self._commit(length, cursor, writes)
        except BaseException:
            self._roll_back()
            raise

    def _write_into(self, index: Any, write: Callable[[Any], object]) -> None:
        """Let a function write into the filled rows: at `index`, or anywhere if that is a tuple."""
        self._refuse_apart()
        filled, columns = self._filled_rows(), self._require_columns()
        rows = columns.table[:filled]
        where = np.zeros(0, np.int64) if isinstance(index, tuple) else rows_at(index, filled)
        try:
            self._before_anywhere(where)
            write(rows)
            objects = [pair for pair in columns.pairs(rows, True) if pair[0].dtype == object]
            for array, value in objects:  # rows are not views of them
                array[:filled] = value
            self._commit(*self._position.now())
        except BaseException:
            self._roll_back()
            raise

    def _refuse_apart(self) -> None:
        if self._next is not None:
            raise RuntimeError("a storage with compress_next=True is written by extend and add alone.")

    def _append(self, data: Any, count: int | None) -> int:
        """Write one row (`count` None) or `count` rows at the cursor; returns where they start."""
        many = count is not None
        data = self._as_rows(data, many)
        columns = self._columns
        if columns is None:
            columns = self._start(data, many)
        length, start, writes = self._position.now()
        rows, n = self._rows(), 1 if count is None else count
        if self._next is None:
            pairs = columns.pairs(data, many)
        else:
            pairs = self._next.pairs(columns, data, many, n, start, length)
        first, written = start, n
        if n > rows:  # the first ones would be written over
            pairs = [(array, value[n - rows :]) for array, value in pairs]
            first, n = (start + n - rows) % rows, rows
        stop = first + n
        inner = 1 if self.ndim == 1 else self.max_size // rows
        try:
            self._before(first, n, length)
            if stop <= rows:
                where: Any = slice(first, stop) if many else _place(first)
                for array, value in pairs:
                    array[where] = value
            else:
                cut = rows - first
                for array, value in pairs:
                    array[first:] = value[:cut]
                    array[: stop - rows] = value[cut:]
            if self._next is not None:
                self._next.link()
            self._commit(max(length, min(stop, rows) * inner), stop % rows, writes + written)
        except BaseException:
            self._roll_back()
            raise
        if self._next is not None:
            self._next.committed()
        return start

    def _roll_back(self) -> None:
        """Called after an interrupted write, as by Ctrl-C: restore the state as far as possible."""
        if self._next is not None:
            self._next.find_free(len(self))

    def _before(self, first: int, count: int, length: int) -> None:
        """Called before `count` rows are written from `first` on; `length` elements are filled."""

    def _before_anywhere(self, index: Array) -> None:
        """Called before rows at any index are written."""
        self._ring.changes += 1

    # -- the arrays -------------------------------------------------------------------------------

    def _start(self, data: Any, many: bool) -> Columns:
        """The arrays, which are created if they do not exist."""
        if self._columns is not None:
            return self._columns
        raise RuntimeError("a TensorStorage has its arrays from the start.")

    def _use(self, table: Any) -> Columns:
        """Use the arrays of a table as the storage."""
        for key, leaf in table.items(True, True) if not isinstance(table, np.ndarray) else ():
            if is_array(leaf) and not isinstance(leaf, np.ndarray):
                raise TypeError(
                    f"the storage needs arrays of NumPy, got {type(leaf).__name__} at {key!r}; "
                    "td.detach().clone() has those of Parameters and of results of gradients."
                )
        if not isinstance(table, np.ndarray) and table.get(APART, None) is not None:
            self._next = NextObservations(table)
            self._columns = Columns(self._next.plain)
        else:
            self._columns = Columns(table)
        self._table = table
        self.max_size = math.prod(table.shape[: self.ndim])
        return self._columns

    def _empty(self, empty_write_count: bool = True) -> None:
        self._commit(0, 0, 0 if empty_write_count else self._position.writes)
        if self._next is not None:
            self._next.forget()

    # -- saving -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Copies: `_storage`, the state dict of the TensorDict (or the array), `initialized` and `_len`."""
        table: Any = {}
        if self._columns is not None:
            table = self._table.copy() if isinstance(self._table, np.ndarray) else self._table.clone()
            table = table if isinstance(table, np.ndarray) else table.state_dict()
        tree = {} if self._tree is None else {"_tree": self._tree.to_json()}
        return {"_storage": table, "initialized": self.initialized, "_len": len(self)} | tree

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        found, length = state_dict["_storage"], int(state_dict["_len"])
        if not state_dict["initialized"]:
            return None if self._only_checks else self._empty()
        table: Any = found
        if not isinstance(found, np.ndarray):
            like = self._table.empty(recurse=True) if self.initialized else TensorDict()
            table = like.load_state_dict(found, strict=False)
        tree = state_dict.get("_tree")
        self._fill(table, length, None if tree is None else Tree.from_json(tree))

    def _fill(self, table: Any, length: int, tree: Tree | None = None) -> None:
        """Copy the rows of a table, of which `length` elements are filled."""
        if not 0 <= length <= math.prod(table.shape[: self.ndim]):
            raise ValueError(f"{length} elements cannot be filled in a table of shape {table.shape}.")
        if self._columns is None:
            self._make(table)
            if self._only_checks:
                return
            self._tree = tree
        elif (tree is None) != (self._tree is None) or not (
            tree is None or self._tree is None or tree.like(self._tree)
        ):
            raise RuntimeError(f"the storage holds rows {_form(self._tree)}, what is loaded {_form(tree)}.")
        target = self._table
        if target.shape != table.shape:
            raise RuntimeError(f"the storage has the shape {target.shape}, what is loaded {table.shape}.")
        pairs = Columns(target).pairs(table, True)
        if self._only_checks:
            return
        self._empty()  # an interrupted load must not leave a mixture
        self._before_anywhere(np.arange(0))
        for array, value in pairs:
            array[...] = value
        inner = self.max_size // self._rows()
        self._commit(length, -(length // -inner) % self._rows(), length)
        if self._next is not None:
            self._next.find_free(length)

    def _make(self, table: Any) -> None:
        """Make arrays like those of a whole table."""
        raise RuntimeError("a TensorStorage has its arrays from the start.")

    def dumps(self, path: PathLike) -> None:
        """Write the folder of `TensorDict.memmap`, with the number of elements in a file of its own.

        Raises:
            RuntimeError: there is no data yet.
        """
        self.dumps_to(Path(path).absolute(), Path(path).absolute())

    def dumps_to(self, folder: Path, final: Path, checksums: bool = False) -> None:
        """As `dumps`, into a folder that the caller moves to `final` afterwards."""
        if self._columns is None:
            raise RuntimeError("Cannot save a storage that has no data yet.")
        table = self._table
        if isinstance(table, np.ndarray):
            table = TensorDict({SINGLE: table}, [table.shape[0]])
        table.memmap(folder, copy_existing=True, checksums=checksums)
        about: dict[str, Any] = {"metadata": {}, "is_pytree": False, "len": len(self)}
        if self._tree is not None:
            about |= {"is_pytree": True, "tree": self._tree.to_json(), "metadata": leaves_of(table)}
        write_json(folder / METADATA, about)

    def loads(self, path: PathLike) -> None:
        """Read what `dumps` wrote, here or in torchrl.

        Raises:
            FileNotFoundError, ValueError: the folder was not written by `dumps`, or is damaged.
            RuntimeError: the storage has another shape, or `max_size`.
        """
        folder = Path(path).absolute()
        about = read_json(folder / METADATA)
        length, tree = about.get("len"), about.get("tree")
        if type(length) is not int:
            raise ValueError(f"{folder / METADATA} is damaged or foreign: no length.")
        nested = self._tree if tree is None else Tree.from_json(tree)
        if about.get("is_pytree") is not True:
            nested = None
        elif nested is None:
            raise RuntimeError(f"{folder} does not say how its rows are nested; load it once there are rows.")
        elif tree is None:  # torchrl's
            self._fill(load_leaves(folder, about.get("metadata")), length, nested)
            return
        table: Any = lite.load_memmap(folder)
        if isinstance(table, TensorDict) and set(table.keys()) == {SINGLE}:
            table = table[SINGLE]
        self._fill(table, length, nested)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape}, len={len(self)}, max_size={self.max_size})"


class LazyTensorStorage(TensorStorage):
    """Rows in memory, in arrays that are allocated for the first data.

    Args:
        max_size: the largest number of elements. With `ndim` > 1, elements of all these dimensions are
            counted, and the size is rounded up to whole rows.
        device: "cpu", the only one, or None.
        ndim: the number of dimensions of the data that an index spans; rows are added along the first.
        compress_next: store entries that are both in `"next"` and at the root once. They are read from the
            following row; only those at the ends of episodes, and of data added by one call, are stored
            besides. Samples are equal, bit by bit. Needs `ndim=1`, and rows in the order of time.
        compilable: for TorchRL's signature.

    Source:
        `LazyTensorStorage` of TorchRL, https://github.com/pytorch/rl; `next_of` of cpprb,
            https://github.com/ymd-h/cpprb.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import LazyTensorStorage, ReplayBuffer
        >>> buffer = ReplayBuffer(storage=LazyTensorStorage(1000, compress_next=True), batch_size=4)
        >>> obs = np.arange(6.0)
        >>> buffer.extend(TensorDict({"obs": obs[:-1], "next": {"obs": obs[1:]}}, [5]))
        array([0, 1, 2, 3, 4])
        >>> buffer[:]["next", "obs"]
        array([1., 2., 3., 4., 5.])
    """

    def __init__(
        self,
        max_size: int,
        *,
        device: Any = "cpu",
        ndim: int = 1,
        compress_next: bool = False,
        compilable: bool = False,
    ) -> None:
        super().__init__(None, max_size, device=device, ndim=ndim)
        if compress_next and ndim != 1:
            raise ValueError(f"compress_next needs ndim=1, got {ndim}.")
        self.compress_next = compress_next

    def _start(self, data: Any, many: bool) -> Columns:
        if self._columns is not None:
            return self._columns
        if many and not data.shape[0]:
            raise RuntimeError("Expected at least one element to begin with, got none.")
        example = data if many else data[None]
        rows = self._rows_for(data, many)
        if self.compress_next:
            example = NextObservations.example(example)
        return self._use(self._arrays(example, rows))

    def _make(self, table: Any) -> None:
        apart = not isinstance(table, np.ndarray) and table.get(APART, None) is not None
        if apart != self.compress_next:
            raise RuntimeError(
                f"compress_next must be {apart}, as what is loaded was stored with; got {self.compress_next}."
            )
        rows = self._rows_for(table, True)
        if rows != table.shape[0]:
            raise RuntimeError(
                f"the storage has room for {rows} rows, what is loaded for {table.shape[0]}: load that into a"
                " storage of its size, and extend this one by its rows."
            )
        if not self._only_checks:
            self._use(self._arrays(table, table.shape[0]))

    def _arrays(self, example: Any, rows: int) -> Any:
        """A table of zeros with rows like those of `example`."""
        return blank(example, rows)


belong_to("lite.data", TensorStorage, LazyTensorStorage)


def rows_at(index: Any, filled: int) -> NDArray[np.int64]:
    """The numbers of the rows at an index; IndexError for rows from `filled` on."""
    if isinstance(index, tuple):
        if len(index) != 1:
            raise IndexError(f"rows have one dimension, got an index of {len(index)}.")
        (index,) = index
    rows = np.asarray(np.arange(filled)[index] if isinstance(index, slice) else index)
    if index is Ellipsis:
        return np.arange(filled)
    if rows.dtype == bool:
        rows = np.arange(filled)[rows]
    if rows.size and rows.dtype.kind not in "iu":
        raise IndexError(f"an index must be of ints, a slice or a mask, got {index!r}.")
    if rows.size and not -filled <= rows.min() <= rows.max() < filled:
        raise IndexError(f"an index must be in the {filled} rows that are filled, got {index!r}.")
    return np.where(rows < 0, rows + filled, rows).astype(np.int64)


def _form(tree: Tree | None) -> str:
    return "that are arrays or TensorDicts" if tree is None else f"like {tree}"


def _place(row: int) -> tuple[Any, ...]:
    """The index of one row; without the ellipsis, NumPy stores the array around an object."""
    return row, ...


def as_rows(data: Any) -> Any:
    """Data as a container or an array: a list of them is stacked.

    Raises:
        TypeError: anything else.
    """
    if is_container(data) or type(data) is np.ndarray:
        return data
    if isinstance(data, list) and data and all(is_container(item) for item in data):
        return lite.stack(data, 0)
    if isinstance(data, list | tuple) and data and is_array(data[0]):
        data = [stored(item) for item in data]
    if isinstance(data, list | tuple | int | float | np.generic | range):
        data = np.asarray(data)
        if data.dtype == object:
            raise TypeError(
                "a storage of arrays needs a TensorDict or numbers; ListStorage holds any object."
            )
        return data
    if is_array(data):
        return host_array(data)
    raise TypeError(
        f"a storage of arrays needs a TensorDict or an array, got {type(data).__name__}; ListStorage holds"
        " any object."
    )
