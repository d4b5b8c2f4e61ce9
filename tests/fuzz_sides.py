"""The two libraries that run a random program, and what can be seen of their objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import lite

torch = pytest.importorskip("torch", reason="needs the parity extra")
tensordict = pytest.importorskip("tensordict", reason="needs the parity extra")

Array = np.ndarray[Any, Any]


class Side:
    """One of the two libraries under common names."""

    def __init__(self, lib: Any, leaf: Callable[[Array], Any], name: str) -> None:
        self.lib = lib
        self.leaf = leaf
        self.name = name

    def value(self, tree: Any) -> Any:
        """Build what a program wrote down: arrays, trees (see `fuzz_programs`), or plain values."""
        if isinstance(tree, np.ndarray):
            return self.leaf(tree.copy())
        if isinstance(tree, Dense):
            entries = {key: self.value(item) for key, item in tree.entries.items()}
            return self.lib.TensorDict(entries, batch_size=tree.batch_size, names=tree.names)
        if isinstance(tree, Lazy):
            return self.lib.LazyStackedTensorDict(*map(self.value, tree.parts), stack_dim=tree.dim)
        if type(tree) is list:
            return [self.value(item) for item in tree]
        if type(tree) is dict:
            return {key: self.value(item) for key, item in tree.items()}
        return tree

    def index(self, index: Any) -> Any:
        if type(index) is tuple:
            return tuple(self.index(item) for item in index)
        return self.leaf(index.copy()) if isinstance(index, np.ndarray) else index


class Dense(NamedTuple):
    """A TensorDict to build."""

    batch_size: tuple[int, ...]
    entries: dict[str, Any]
    names: list[str | None] | None = None

    def __repr__(self) -> str:
        items = ", ".join(f"{key}: {_short(value)}" for key, value in self.entries.items())
        return f"{self.batch_size}{self.names or ''}{{{items}}}"


class Lazy(NamedTuple):
    """A lazy stack to build."""

    dim: int
    parts: list[Any]

    def __repr__(self) -> str:
        return f"lazy[{self.dim}]{self.parts}"


def _short(value: Any) -> str:
    return f"{value.dtype}{value.shape}" if isinstance(value, np.ndarray) else repr(value)


LITE = Side(lite, lambda array: array, "lite")
TORCH = Side(tensordict, torch.from_numpy, "tensordict")


class Mismatch(AssertionError):
    """Where two results differ; `kind` says in what."""

    def __init__(self, kind: str, path: str, text: str) -> None:
        super().__init__(f"{kind} at {path or 'the result'}: {text}")
        self.kind = kind
        self.path = path


def is_container(value: Any) -> bool:
    return isinstance(value, lite.TensorDictBase | tensordict.TensorDictBase)


def is_objects(value: Any) -> bool:
    return lite.is_non_tensor(value) or tensordict.is_non_tensor(value)


def stacked(value: Any) -> bool:
    return isinstance(value, lite.LazyStackedTensorDict | tensordict.LazyStackedTensorDict)


def compare(ours: Any, theirs: Any, path: str = "") -> None:
    """Raise `Mismatch` at the first difference."""
    if isinstance(theirs, torch.Tensor):
        if not isinstance(ours, np.ndarray | np.generic):
            raise Mismatch("kind", path, f"lite {ours!r}, tensordict {theirs!r}")
        compare_arrays(np.asarray(ours), theirs.detach().numpy(), path)
    elif is_objects(theirs):
        if not lite.is_non_tensor(ours):
            raise Mismatch("kind", path, f"lite {ours!r}, tensordict {theirs!r}")
        try:
            listed = _list(theirs.tolist())
        except Exception as error:
            raise Mismatch("unreadable", path, f"tensordict cannot read its own entry: {error!r}") from error
        _equal("objects", _list(ours.tolist()), listed, path)
        _equal("objects batch_size", ours.batch_size, tuple(theirs.batch_size), path)
    elif is_container(theirs):
        _compare_containers(ours, theirs, path)
    elif isinstance(theirs, tuple | list) and not isinstance(theirs, torch.Size):
        if not isinstance(ours, tuple | list) or len(ours) != len(theirs):
            raise Mismatch("value", path, f"lite {ours!r}, tensordict {theirs!r}")
        for i, pair in enumerate(zip(ours, theirs, strict=True)):
            compare(*pair, f"{path}[{i}]")
    elif isinstance(theirs, dict):
        if not isinstance(ours, dict):
            raise Mismatch("kind", path, f"lite {ours!r}, tensordict {theirs!r}")
        _equal("keys", sorted(ours), sorted(theirs), path)
        for key in theirs:
            compare(ours[key], theirs[key], f"{path}.{key}")
    else:
        _equal("value", ours, tuple(theirs) if isinstance(theirs, torch.Size) else theirs, path)


def _list(value: Any) -> Any:
    """Nested lists without the reference's list classes, and without arrays, which cannot be compared."""
    if isinstance(value, torch.Tensor | np.ndarray):
        return "array", value.tolist()
    return [_list(item) for item in value] if isinstance(value, list) else value


def _equal(kind: str, ours: Any, theirs: Any, path: str) -> None:
    if type(ours) is not type(theirs) and isinstance(ours, bool) != isinstance(theirs, bool):
        raise Mismatch(kind, path, f"lite {ours!r}, tensordict {theirs!r}")
    if ours != theirs:
        raise Mismatch(kind, path, f"lite {ours!r}, tensordict {theirs!r}")


def compare_arrays(ours: Array, theirs: Array, path: str) -> None:
    _equal("shape", ours.shape, theirs.shape, path)
    _equal("dtype", str(ours.dtype), str(theirs.dtype), path)
    if ours.tobytes() == theirs.tobytes():
        return
    if not np.allclose(ours, theirs, rtol=2e-5, atol=1e-6, equal_nan=True):
        raise Mismatch("values", path, f"lite {ours.tolist()}, tensordict {theirs.tolist()}")


def _compare_containers(ours: Any, theirs: Any, path: str) -> None:
    if not isinstance(ours, lite.TensorDictBase):
        raise Mismatch("kind", path, f"lite {type(ours).__name__} {ours!r}, tensordict {theirs!r}")
    if stacked(ours) != stacked(theirs):
        raise Mismatch("lazy", path, f"lite {type(ours).__name__}, tensordict {type(theirs).__name__}")
    _equal("batch_size", ours.batch_size, tuple(theirs.batch_size), path)
    if stacked(ours):
        _equal("stack_dim", ours.stack_dim, theirs.stack_dim, path)
        _equal("parts", len(ours.tensordicts), len(theirs.tensordicts), path)
        for i, pair in enumerate(zip(ours.tensordicts, theirs.tensordicts, strict=True)):
            _compare_containers(*pair, f"{path}/<{i}>")
    else:
        _equal("keys", sorted(ours.keys()), sorted(theirs.keys()), path)
        for key in theirs.keys():  # noqa: SIM118
            compare(ours.get(key), _read(theirs, key), f"{path}/{key}")
        _equal("key order", list(ours.keys()), list(theirs.keys()), path)
    _equal("lock", ours.is_locked, theirs.is_locked, path)
    _equal("names", _names(ours), _names(theirs), path)


def _read(theirs: Any, key: str) -> Any:
    try:
        return theirs.get(key)
    except Exception as error:
        raise Mismatch("unreadable", key, f"tensordict cannot read its own entry: {error!r}") from error


def readable(value: Any) -> bool:
    """Whether tensordict can read everything of what it has put together."""
    try:
        _read_all(value)
    except Exception:
        return False
    return True


def _read_all(value: Any) -> None:
    inner = value if isinstance(value, tuple | list) else []
    if is_objects(value):
        value.tolist()
    elif is_container(value):
        _names(value)
        inner = value.tensordicts if stacked(value) else [value.get(key) for key in list(value.keys())]
    for item in inner:
        _read_all(item)


def _names(td: Any) -> Any:
    try:
        return list(td.names)
    except (ValueError, IndexError):  # parts that disagree; a stack without parts in tensordict
        return "different"


def in_order(value: Any) -> bool:
    """Whether every array below a value is C-contiguous."""
    if isinstance(value, np.ndarray):
        return bool(value.flags.c_contiguous)
    if isinstance(value, torch.Tensor):
        return bool(value.is_contiguous())
    if is_objects(value) or not is_container(value):
        return True
    return all(map(in_order, value.tensordicts if stacked(value) else value.values()))


# -- lite alone -------------------------------------------------------------------------------


def arrays(value: Any) -> Iterator[Array]:
    """Every array that lite holds below a value, object arrays of non-tensor data included."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, lite.NonTensorStack):
        yield value._array
    elif isinstance(value, lite.LazyStackedTensorDict):
        for part in value.tensordicts:
            yield from arrays(part)
    elif isinstance(value, lite.TensorDictBase):
        for _, entry in value._items():
            yield from arrays(entry)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from arrays(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from arrays(item)


def snapshot(value: Any) -> Any:
    """Everything there is to know about lite's side of a value."""
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tolist() if value.dtype == object else value.tobytes())
    if lite.is_non_tensor(value):
        return (value.batch_size, value.tolist())
    if isinstance(value, lite.LazyStackedTensorDict):
        return (value.stack_dim, value.is_locked, _names(value), [snapshot(p) for p in value.tensordicts])
    if isinstance(value, lite.TensorDictBase):
        content = [(key, snapshot(entry)) for key, entry in value._items()]
        return (value.batch_size, value.names, value.is_locked, value.device, content)
    return value


class Frozen:
    """Makes the arrays below some values read-only for a while, so that a stray write raises."""

    def __init__(self, *values: Any) -> None:
        owners: dict[int, Array] = {}
        views: dict[int, Array] = {}
        for value in values:
            for array in arrays(value):
                views[id(array)] = array
                base = array.base
                while isinstance(base, np.ndarray):
                    owners[id(base)] = base
                    base = base.base
        # Owners first when thawing: a view can only be writable if its owner is.
        self.arrays = [a for a in (*owners.values(), *views.values()) if a.flags.writeable]

    def __enter__(self) -> None:
        for array in self.arrays:
            array.flags.writeable = False

    def __exit__(self, *error: object) -> None:
        for array in self.arrays:
            array.flags.writeable = True


def thaw(result: Any) -> None:
    """Make arrays writable again that are views of arrays which were read-only when they were made."""
    for array in arrays(result):
        if not array.flags.writeable and not _expanded(array) and isinstance(array.base, np.ndarray):
            chain = [array]
            while isinstance(chain[-1].base, np.ndarray):
                chain.append(chain[-1].base)
            for view in reversed(chain):
                if not _expanded(view):
                    try:
                        view.flags.writeable = True
                    except ValueError:
                        break


def _expanded(array: Array) -> bool:
    """Whether elements share memory."""
    return array.size > 0 and any(s == 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True))
