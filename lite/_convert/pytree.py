"""Trees of lists, tuples and dicts as TensorDicts, and TensorDicts as trees of JAX and optree."""

from __future__ import annotations

import importlib
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lite._arrays.foreign import from_dlpack, is_foreign
from lite._arrays.numbers import SCALARS
from lite._arrays.types import Shape, Unbatched
from lite._convert.from_python import refuse_two_sizes
from lite._tree.collection import TensorCollection
from lite._tree.names import check_names
from lite._tree.nontensor import NonTensorBase, NonTensorData, same_object
from lite._tree.protocol import Container, kinds
from lite._tree.unbatched import UnbatchedTensor

_TYPE = "_pytree_type"
_PAIR = "<NON_NESTED>"


def from_pytree(
    cls: type[Any],
    pytree: Any,
    *,
    batch_size: Any = None,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
) -> Any:
    """A TensorDict that remembers the lists, tuples and dicts it was made from.

    Sequences become nodes with keys "0", "1", ...; keys that are not strings are kept beside their
    values; the entry "_pytree_type" of every node says which container it was. A tree that is a
    single leaf or a TensorDict is returned as it is.

    Args:
        pytree: nested dicts, lists, tuples, named tuples with arrays or other objects as leaves.
        batch_size: batch size of every node.
        auto_batch_size: find the longest one instead.
        batch_dims: at most this many dimensions of it.

    Raises:
        TypeError: both `batch_size` and `auto_batch_size` are given.
        KeyError: a key of the tree is one that marks containers.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> tree = {"a": [np.zeros(2), (np.ones(2), "text")], 3: np.arange(2)}
        >>> td = TensorDict.from_pytree(tree)
        >>> td["a", "1", "0"]
        array([1., 1.])
        >>> td.to_pytree()
        {'a': [array([0., 0.]), (array([1., 1.]), 'text')], 3: array([0, 1])}
    """

    refuse_two_sizes("from_pytree", auto_batch_size, batch_size)
    values = _marked(pytree)
    if values is pytree:
        return pytree
    out = kinds.dense(values, batch_size)
    if batch_size is None and (auto_batch_size or batch_dims is not None):
        out.auto_batch_size_(batch_dims)
    return out


def to_pytree(td: Container) -> Any:
    """The tree `from_pytree` was given, with arrays for its numbers; else the TensorDict itself."""
    if td._get_str(_TYPE) is None:
        return td
    kind = td._get_str(_TYPE).data
    items = [(key, _tree_value(td, entry)) for key, entry in td._items() if key != _TYPE]
    if issubclass(kind, Mapping):
        return kind(value if key.startswith(_PAIR) else (key, value) for key, value in items)
    if hasattr(kind, "_fields"):
        return kind(**dict(items))
    return kind(value for _, value in items)


def _tree_value(td: Container, entry: Any) -> Any:
    node = td._as_node(entry)
    if node is not None and node is entry:
        return node.to_pytree()
    return entry._export() if isinstance(entry, NonTensorBase) else entry


def _marked(tree: Any) -> Any:
    """The tree with every container as a dict that has a type entry; leaves and TensorDicts as they are."""
    if isinstance(tree, TensorCollection):
        return tree
    if isinstance(tree, Mapping):
        kind: type = OrderedDict if isinstance(tree, OrderedDict) else dict
        values = {}
        for i, (key, value) in enumerate(tree.items()):
            if isinstance(key, str) and (key == _TYPE or key.startswith(_PAIR)):
                raise KeyError(f"the key {key!r} marks containers and cannot be a key of the tree.")
            pair = not isinstance(key, str)
            # A tuple marks a pair: from_pytree gives its two items back as a key and its value.
            values[f"{_PAIR}{i}" if pair else key] = _pair(key, value) if pair else _marked(value)
        return {_TYPE: NonTensorData(kind), **values}
    if isinstance(tree, list | tuple):
        names = getattr(tree, "_fields", None) or [str(i) for i in range(len(tree))]
        items = {name: _marked(item) for name, item in zip(names, tree, strict=True)}
        kind = list if isinstance(tree, list) else type(tree)
        return {_TYPE: NonTensorData(kind), **items}
    return tree


def _pair(key: Any, value: Any) -> Any:
    return {_TYPE: NonTensorData(tuple), "0": NonTensorData(key), "1": _marked(value)}


# -- trees of other libraries -----------------------------------------------------------------------


class _Static:
    """What is not a leaf of a flattened container; equal if all of it is, as JAX's caches need it."""

    __slots__ = ("batch_size", "device", "fixed", "keys", "locked", "names", "shapes", "unbatched")

    def __init__(self, td: Any, keys: tuple[str, ...], leaves: Sequence[Any], fixed: dict[str, Any]) -> None:
        self.keys = keys
        # Those of unbatched leaves say nothing about the batch.
        self.unbatched = tuple(isinstance(leaf, Unbatched) for leaf in leaves)
        self.shapes = self.of(leaves)
        self.batch_size: Shape = td.batch_size
        self.names = None if td._names is None else tuple(td._names)
        self.device = td.device
        self.locked = td.is_locked
        self.fixed = fixed

    def of(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """The shapes of leaves that take part in the batch."""
        pairs = zip(leaves, self.unbatched, strict=True)
        return tuple(None if alone else getattr(leaf, "shape", None) for leaf, alone in pairs)

    def _compared(self) -> tuple[Any, ...]:
        return (
            self.keys,
            self.unbatched,
            self.batch_size,
            self.names,
            self.device,
            self.locked,
            tuple(self.fixed),
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Static) or self._compared() != other._compared():
            return False
        pairs = zip(self.fixed.values(), other.fixed.values(), strict=True)
        return all(same_object(a, b) for a, b in pairs)

    def __hash__(self) -> int:
        return hash(self._compared())


def register_pytree(library: str, *classes: type) -> None:
    """Make TensorDicts trees of JAX or optree, so that `jax.tree.map` and `jax.jit` take them.

    Arrays and nested TensorDicts are the children, in the order of the keys; batch size, names, device
    and Python objects belong to the structure. Where leaves come back with other shapes the batch size
    is what they share of it; names are dropped then, and objects per element that no longer fit. Arrays of
    JAX that come back are held as NumPy arrays over the same memory (read-only), those being traced as
    they are.

    Args:
        library: "jax" or "optree".
        classes: tensorclasses and typed TensorDicts to register too; those nested in a TensorDict register
            themselves.

    Raises:
        ValueError: another library.
        ImportError: the library is not installed.

    Example:
        >>> import lite
        >>> lite.register_pytree("numpy")
        Traceback (most recent call last):
        ...
        ValueError: library must be 'jax' or 'optree', got 'numpy'.
    """

    if library not in _REGISTER:
        raise ValueError(f"library must be 'jax' or 'optree', got {library!r}.")
    for cls in (kinds.dense, kinds.lazy, *classes):
        _ensure(library, cls)


# (children, structure, names of the children)
_Flat = tuple[tuple[Any, ...], Any, tuple[Any, ...]]
_registered: set[tuple[str, type]] = set()


def _ensure(library: str, cls: type) -> None:
    if (library, cls) in _registered:
        return
    flatten: Callable[[Any], _Flat]
    unflatten: Callable[..., Any]
    if issubclass(cls, kinds.lazy):
        flatten, unflatten = _flatten_lazy, _unflatten_lazy
    elif hasattr(cls, "_wrap_tensordict"):  # tensorclasses and typed TensorDicts
        flatten, unflatten = _flatten_class, _unflatten_class
    else:
        flatten, unflatten = _flatten_for(library), _unflatten
    _REGISTER[library](cls, flatten, unflatten)
    _registered.add((library, cls))


def _flatten_for(library: str) -> Callable[[Any], _Flat]:
    def flatten(td: Any) -> _Flat:
        keys: list[str] = []
        children: list[Any] = []
        fixed: dict[str, Any] = {}
        for key, entry in td._items():
            if isinstance(entry, NonTensorBase):
                fixed[key] = entry
            else:
                if isinstance(entry, TensorCollection):
                    _ensure(library, type(entry))
                keys.append(key)
                children.append(entry)
        return tuple(children), _Static(td, tuple(keys), children, fixed), tuple(keys)

    return flatten


def _unflatten(static: _Static, children: Sequence[Any]) -> Any:

    values = [_leaf(child) for child in children]
    shapes = static.of(values)
    size, names = static.batch_size, static.names
    if any(new is not None and new != old for new, old in zip(shapes, static.shapes, strict=True)):
        size = _shared([tuple(shape) for shape in shapes if shape is not None], len(size))
        names = names if size == static.batch_size else None
    for i, alone in enumerate(static.unbatched):
        if alone and isinstance(values[i], np.ndarray):
            values[i] = UnbatchedTensor(values[i], size)
    data = dict(zip(static.keys, values, strict=True))
    for key, entry in static.fixed.items():
        fits = entry.batch_size[: len(size)] == size
        if fits or isinstance(entry, NonTensorData):
            data[key] = entry if fits else entry._rebatch(size)
    out = kinds.dense._make(
        data, size, static.device, None if names is None else check_names(names, len(size))
    )
    return out.lock_() if static.locked and size == static.batch_size else out


def _shared(shapes: list[Shape], most: int) -> Shape:
    out: list[int] = []
    for sizes in zip(*shapes, strict=False):
        if len(out) == most or len(set(sizes)) > 1:
            break
        out.append(sizes[0])
    return tuple(out)


def _leaf(value: Any) -> Any:
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer):
        return from_dlpack(value) if is_foreign(value) else value
    return np.asarray(value) if isinstance(value, SCALARS) else value


def _flatten_lazy(td: Any) -> _Flat:
    parts = tuple(td.tensordicts)
    return parts, (td.stack_dim, td._dim_name, td._empty_size), tuple(range(len(parts)))


def _unflatten_lazy(static: Any, parts: Sequence[Any]) -> Any:

    return kinds.lazy._make(list(parts), *static)


def _flatten_class(obj: Any) -> _Flat:
    return (obj._tensordict,), type(obj), ("_tensordict",)


def _unflatten_class(static: Any, children: Sequence[Any]) -> Any:
    return static._wrap_tensordict(children[0])


def _register_jax(cls: type, flatten: Callable[[Any], _Flat], unflatten: Callable[..., Any]) -> None:
    jax = _imported("jax")

    def with_keys(obj: Any) -> Any:
        children, static, names = flatten(obj)
        keys = [
            jax.tree_util.DictKey(name) if isinstance(name, str) else jax.tree_util.SequenceKey(name)
            for name in names
        ]
        return tuple(zip(keys, children, strict=True)), static

    jax.tree_util.register_pytree_with_keys(cls, with_keys, unflatten, lambda obj: flatten(obj)[:2])


def _register_optree(cls: type, flatten: Callable[[Any], _Flat], unflatten: Callable[..., Any]) -> None:
    optree = _imported("optree")
    everywhere = getattr(optree.registry, "__GLOBAL_NAMESPACE")
    optree.register_pytree_node(cls, flatten, unflatten, namespace=everywhere)


def _imported(library: str) -> Any:
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise ImportError(f"register_pytree({library!r}) needs it: pip install {library}") from error


_REGISTER: dict[str, Callable[..., None]] = {"jax": _register_jax, "optree": _register_optree}
