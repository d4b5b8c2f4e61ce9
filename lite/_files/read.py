"""Reading saved trees: folders (whole or in part) and archives.

A `Reader` builds containers. Files are untrusted, and inconsistent ones raise ValueError. `load` opens the
files, and reads again if a writer replaced them meanwhile; `fill` replaces the entries of an existing
container.
"""

from __future__ import annotations

import os
import time
from typing import Any
from zlib import crc32

import numpy as np

from lite._arrays.dtypes import dtype_of
from lite._arrays.types import Array, Shape
from lite._files import meta, payload
from lite._files.archive import Archive
from lite._files.commit import COMMIT, outermost
from lite._files.keys import names_of
from lite._files.mapping import bytes_of
from lite._files.stores import Folder, Store
from lite._tree.keys import NestedKey, to_path
from lite._tree.lock import LOCK_ERROR
from lite._tree.names import check_names
from lite._tree.nontensor import MetaData, NonTensorData, NonTensorStack
from lite._tree.protocol import class_registry

_MAX_DEPTH = 200  # of nested folders, well below Python's limit of recursion
_RETRIES = 200  # of a read during which a writer replaced the files
_TYPED = meta.META_DATA.removesuffix("'>") + "["  # typed metadata, whose type the files do not have


class Reader:
    """Reads nodes of one tree.

    Args:
        store: the folder or archive.
        robust: keys are escaped in file names (the unescaped names of old versions are tried too).
        allow_pickle: unpickle objects that JSON could not hold.
        verify: compare arrays with the checksums that were written for them.
    """

    def __init__(self, store: Store, robust: bool, allow_pickle: bool, verify: bool = False) -> None:
        self._store = store
        self._verify = verify
        self._robust = robust
        self._allow_pickle = allow_pickle

    def node(self, at: str, batch_size: Shape = ()) -> Any:
        """The entry saved as the folder `at`; `batch_size` is that of its parent.

        Raises:
            FileNotFoundError: the folder or a file in it is missing.
            ValueError: damaged or foreign files.
            RuntimeError: a pickle while `allow_pickle` is False.
        """
        if at.count("/") > _MAX_DEPTH:
            raise ValueError(f"{self._name(at)[:200]}... is nested more than {_MAX_DEPTH} levels deep.")
        where = self._name(self._join(at, meta.NAME))
        text = self._store.text(self._join(at, meta.NAME))
        if text is None:
            hint = "" if at else ", which each folder has that save or memmap wrote"
            raise FileNotFoundError(f"{where} is missing{hint}.")
        node = meta.loads(text, where)
        kind, place = node.get("_type"), self._store.place(at)
        if kind == meta.TENSORDICT:
            return self._tensordict(at, node, where, meta.is_sealed(text))
        if kind == meta.NON_TENSOR_DATA:
            return NonTensorData._make(self._data(at, node, where), batch_size)._mapped_to(place)
        if kind == meta.META_DATA or (isinstance(kind, str) and kind.startswith(_TYPED)):
            return MetaData._make(self._data(at, node, where), batch_size)._mapped_to(place)
        if kind == meta.NON_TENSOR_STACK and node.get("data") is not None:
            return NonTensorStack._wrap(self._objects(at, node, where))._mapped_to(place)
        if kind in (meta.LAZY_STACK, meta.NON_TENSOR_STACK):
            return self._stack(at, node, where, kind)
        if isinstance(kind, str) and self._store.is_folder(self._join(at, "_tensordict")):
            return self._tensorclass(at, node, kind, batch_size)
        raise ValueError(f"{where} is damaged or foreign: unknown type {kind!r:.80}.")

    # -- containers ---------------------------------------------------------------------------

    def _tensordict(self, at: str, node: meta.Json, where: str, sealed: bool) -> Any:
        size = meta.shape_of([] if isinstance(node.get("shape"), dict) else node.get("shape", []), where)
        entries, names = meta.split(node, where)
        data: dict[str, Any] = {}
        for key, member in entries.items():
            if "type" in member:
                entry = self.node(self.folder(at, key), size)
            elif "dtype" in member and "shape" in member:
                entry = self._leaf(at, key, member, where)
            else:
                raise ValueError(f"{where} is damaged or foreign: the entry {key!r:.80} has no type.")
            if tuple(entry.shape[: len(size)]) != size:
                raise ValueError(
                    f"{where} is damaged or foreign: the entry {key!r} of shape {tuple(entry.shape)} does "
                    f"not start with the batch size {size}."
                )
            data[key] = entry
        if sealed:
            known = {name for key in entries for name in self._names(key)}
            extra = self._store.leaves(at) - known - {f"{name}.memmap" for name in known}
            if extra:
                raise ValueError(f"{where} is damaged or foreign: it has no entries for {sorted(extra)}.")
        try:
            out = class_registry.dense._make(
                data, size, _device(node.get("device")), check_names(names, len(size))
            )
        except (TypeError, ValueError) as error:
            raise ValueError(f"{where} is damaged or foreign: {error}") from error
        out._source = self._store.place(at)
        return out

    def _leaf(self, at: str, key: str, member: meta.Json, where: str) -> Array:
        if member.get("is_nested"):
            raise ValueError(f"{where}: the entry {key!r} is a nested tensor, which arrays cannot hold.")
        try:
            dtype = dtype_of(member["dtype"])
        except ValueError as error:
            raise ValueError(f"{where}: the entry {key!r} has an {error}") from error
        shape = meta.shape_of(member["shape"], where)
        if 0 in shape:
            return np.empty(shape, dtype)
        for name in self._names(key):
            found = self._store.leaf(self._join(at, f"{name}.memmap"), dtype, shape)
            if found is not None:
                if self._verify:
                    self._compare(found, key, member, where)
                return found
        raise FileNotFoundError(f"the file of the entry {key!r} is missing beside {where}.")

    def _compare(self, array: Array, key: str, member: meta.Json, where: str) -> None:
        checksum = member.get("crc32")
        if checksum is None:
            raise ValueError(
                f"{where} has no checksum of the entry {key!r}; verify=True needs what checksums=True writes."
            )
        if crc32(bytes_of(array)) != checksum:
            raise ValueError(
                f"the entry {key!r} beside {where} is not what its checksum was computed from: it is "
                "damaged, or was written in place since."
            )

    def _stack(self, at: str, node: meta.Json, where: str, kind: str) -> Any:
        dim = node.get("stack_dim")
        about = _extension(node)
        count = about.get("count")
        parts: list[Any] = []
        while len(parts) != count and self._store.is_folder(self._join(at, str(len(parts)))):
            parts.append(self.node(self._join(at, str(len(parts)))))
        with meta.damaged(where, RuntimeError, TypeError, ValueError, LookupError, AttributeError):
            if count not in (None, len(parts)):
                raise ValueError(f"{len(parts)} of {count!r:.40} parts are there.")
            if kind == meta.NON_TENSOR_STACK:
                stack = NonTensorStack(*parts, stack_dim=meta.stack_dim_of(dim, parts, where))
                return stack._mapped_to(self._store.place(at))
            if not parts:
                raise ValueError("a lazy stack without parts.")
            out = class_registry.lazy(*parts, stack_dim=meta.stack_dim_of(dim, parts, where))
            name = about.get("name", node.get("stack_dim_name"))
            check_names([name], 1)
            out._dim_name = name
        out._source = self._store.place(at)
        return out

    def _tensorclass(self, at: str, node: meta.Json, kind: str, batch_size: Shape) -> Any:
        fields = {key: value for key, value in node.items() if key != "_type"}
        pickled = self._store.text(self._join(at, "other.pickle"))
        if pickled is not None:
            fields |= payload.from_pickle(pickled, self._allow_pickle, self._name(at))
        inner = self.node(self._join(at, "_tensordict"), batch_size)
        for key, value in fields.items():
            if value is not None:
                inner._put(key, NonTensorData._make(value, inner.batch_size))
        cls = tensorclass_named(kind)
        is_known = cls is not None and set(inner._keys()) <= set(cls._fields)
        return cls._wrap_tensordict(inner) if is_known else inner

    # -- objects ------------------------------------------------------------------------------

    def _data(self, at: str, node: meta.Json, where: str) -> Any:
        if "data" in node:
            extra: Any = node.get("_metadata")
            tagged = isinstance(extra, dict) and "lite" in extra
            try:
                return payload.from_tagged(extra["lite"]) if tagged else node["data"]
            except ValueError as error:
                raise ValueError(f"{where} is damaged or foreign: {error}") from error
        return self._unpickled(at, "other.pickle", where)["data"]

    def _objects(self, at: str, node: meta.Json, where: str) -> Array:
        data, extension = node["data"], node.get("_lite")
        if data == "pickle.pkl":
            data = self._unpickled(at, "pickle.pkl", where)
        if not isinstance(data, list):
            raise ValueError(f"{where} is damaged or foreign: 'data' is not a list.")
        if extension is None:
            return NonTensorStack.from_list(data)._objects()
        with meta.damaged(where, TypeError, ValueError, KeyError):
            (content,) = extension
            shape, items = meta.shape_of(content["shape"], where), content["items"]
            if items is None:
                items = data
                for size in shape[1:]:
                    if any(len(row) != size for row in items):
                        raise ValueError("'data' is ragged.")
                    items = [item for row in items for item in row]
            else:
                items = payload.from_tagged(items)
            return np.fromiter(items, object, len(items)).reshape(shape)

    def _unpickled(self, at: str, name: str, where: str) -> Any:
        data = self._store.text(self._join(at, name))
        if data is None:
            raise FileNotFoundError(f"{name} is missing beside {where}.")
        return payload.from_pickle(data, self._allow_pickle, self._name(self._join(at, name)))

    # -- paths --------------------------------------------------------------------------------

    def folder(self, at: str, key: str) -> str:
        """The folder of a nested entry."""
        found = [self._join(at, name) for name in self._names(key)]
        return next((path for path in found if self._store.is_folder(path)), found[0])

    def _names(self, key: str) -> tuple[str, ...]:
        return names_of(key, self._robust)

    @staticmethod
    def _join(at: str, name: str) -> str:
        return f"{at}/{name}" if at else name

    def _name(self, path: str) -> str:
        return f"{self._store.where}/{path}" if path else self._store.where


def _extension(node: meta.Json) -> meta.Json:
    """lite's extension of the node of a stack."""
    extension = node.get("_lite")
    found = extension[0] if isinstance(extension, list) and extension else {}
    return found if isinstance(found, dict) else {}


def _device(value: Any) -> str | None:
    # Arrays are read to host memory, whatever their device was.
    return None if value in (None, "None") or not isinstance(value, str) else "cpu"


def tensorclass_named(name: str) -> Any:
    """The tensorclass of a name in a file. Classes of lite are found by their last name, as modules move."""
    own = name.rpartition(".")[2] if name.startswith("<class 'lite.") else None
    waiting: list[Any] = [class_registry.tensorclass]
    while waiting:
        cls = waiting.pop()
        if str(cls) == name or (cls.__module__.startswith("lite.") and f"{cls.__qualname__}'>" == own):
            return cls
        waiting.extend(cls.__subclasses__())
    return None


# -- whole trees ------------------------------------------------------------------------------------


def load(
    prefix: str,
    subpath: NestedKey | None,
    mode: str | None,
    robust: bool,
    allow_pickle: bool,
    verify: bool = False,
) -> Any:
    """The entry saved at `prefix`; see `TensorDict.load_memmap`."""
    if mode not in (None, "r", "r+"):
        raise ValueError(f"mode must be None, 'r' or 'r+', got {mode!r}.")
    if not isinstance(allow_pickle, bool):
        raise TypeError(f"allow_pickle must be a bool, got {allow_pickle!r}.")
    keys = _subpath(subpath)
    if os.path.isfile(prefix):
        archive = Archive(prefix, mode == "r+")
        try:
            if verify:
                archive.verify()
            return _read(Reader(archive, robust, allow_pickle), "", keys, prefix)
        finally:
            archive.close()
    folder = os.path.abspath(prefix)
    top, subfolder = outermost(folder)
    for attempt in range(_RETRIES):
        # New files that wait in the outermost folder are also newer than those of nested folders.
        waiting = subfolder and os.path.isdir(f"{top}/{COMMIT}")
        root, at = (top, subfolder) if waiting else (folder, "")
        store = Folder(root, mode)
        try:
            try:
                out, failure = _read(Reader(store, robust, allow_pickle, verify), at, keys, prefix), None
            except (OSError, ValueError, RuntimeError) as error:
                out, failure = None, error
            begun = subfolder and not waiting and os.path.isdir(f"{top}/{COMMIT}")
            if store.is_current() and not begun:
                if isinstance(failure, FileNotFoundError) and not (waiting or os.path.lexists(folder)):
                    raise FileNotFoundError(f"there is no file or folder {folder!r}.")
                if failure is not None:
                    raise failure
                return out
        finally:
            store.close()
        time.sleep(min(0.001 * attempt, 0.02))
    raise RuntimeError(f"{prefix} was replaced during each of {_RETRIES} attempts to read it.")


def _read(reader: Reader, at: str, keys: tuple[str, ...], prefix: str) -> Any:
    for key in keys:
        at = reader.folder(at, key)
    try:
        return reader.node(at)
    except FileNotFoundError as error:
        if keys:
            raise ValueError(
                f"there is no tensordict under {'/'.join(keys)!r} in {prefix}: {error}"
            ) from error
        raise


def _subpath(subpath: NestedKey | None) -> tuple[str, ...]:
    if subpath is None:
        return ()
    path = tuple(p for p in subpath.split("/") if p) if isinstance(subpath, str) else to_path(subpath)
    if not path:
        raise ValueError(f"subpath must be a key or a path with '/', got {subpath!r}.")
    return path


# -- into an existing container ---------------------------------------------------------------------


def fill(out: Any, found: Any) -> Any:
    """Replace the entries of `out` by those of `found`; returns `out`.

    Raises:
        RuntimeError: `out` is locked, or the batch size of `found` does not start with that of `out`.
        ValueError: lazy stacks of different length.
    """
    target, source = getattr(out, "_tensordict", out), getattr(found, "_tensordict", found)
    if target.is_locked:
        raise RuntimeError(LOCK_ERROR)
    _check(target, source)
    _replace(target, source)
    return out


def _check(target: Any, source: Any) -> None:
    """Raise if the batch size or the number of stacked parts of `source` does not fit `target`."""
    ours, theirs = target._parts(), source._parts()
    if ours is not None and theirs is not None and ours[1] == theirs[1] and len(ours[0]) != len(theirs[0]):
        raise ValueError(f"cannot load {len(theirs[0])} stacked tensordicts into a stack of {len(ours[0])}.")
    size = target.batch_size
    if source.batch_size[: len(size)] != size:
        raise RuntimeError(
            f"batch dimension mismatch, got self.batch_size={size} and value.shape={source.batch_size}."
        )


def _replace(target: Any, source: Any) -> None:
    ours, theirs = target._parts(), source._parts()
    if ours is not None and theirs is not None:
        for mine, its in zip(ours[0], source.unbind(ours[1]), strict=True):
            _replace(mine, its)
    else:
        for key in list(target._keys()):
            if source._peek_entry(key) is None:
                target._remove(key)
        for key, entry in source._items():
            mine, its = target._as_node(target._get_entry(key)), target._as_node(entry)
            if mine is None or its is None or (mine._parts() is None) != (its._parts() is None):
                target._put(key, target._convert(entry))
            else:
                _check(mine, its)
                _replace(mine, its)
    target._source = getattr(source, "_source", None)
