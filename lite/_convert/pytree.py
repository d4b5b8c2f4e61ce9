"""Trees of lists, tuples and dicts as TensorDicts, and TensorDicts as trees of JAX and optree."""

from __future__ import annotations

import importlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from lite._arrays.namespace import known
from lite._arrays.types import Shape, Size, Unbatched, has_namespace, raw
from lite._convert.from_python import refuse_two_sizes
from lite._tree.collection import TensorCollection
from lite._tree.nontensor import NonTensorBase, NonTensorData, NonTensorStack, same_object
from lite._tree.protocol import Container, class_registry
from lite._tree.unbatched import UnbatchedTensor
from lite._tree.walks import leaves

_TYPE = "_pytree_type"
_PAIR = "<NON_NESTED>"


def from_pytree(
    cls: type[Any],
    pytree: object,
    *,
    batch_size: Size = None,
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
    out = class_registry.dense(values, batch_size)
    if batch_size is None and (auto_batch_size or batch_dims is not None):
        out.auto_batch_size_(batch_dims)
    return out


def to_pytree(td: Container) -> object:
    """The tree `from_pytree` was given, with arrays for its numbers; else the TensorDict itself."""
    if td._get_entry(_TYPE) is None:
        return td
    kind = td._get_entry(_TYPE).data
    items = [(key, _tree_value(td, entry)) for key, entry in td._items() if key != _TYPE]
    if issubclass(kind, Mapping):
        return kind(value if key.startswith(_PAIR) else (key, value) for key, value in items)
    if hasattr(kind, "_fields"):
        return kind(**dict(items))
    return kind(value for _, value in items)


def _tree_value(td: Container, entry: Any) -> object:
    node = td._as_node(entry)
    if node is not None and node is entry:
        return node.to_pytree()
    return entry._export() if isinstance(entry, NonTensorBase) else entry


def _marked(tree: object) -> object:
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


def _pair(key: object, value: object) -> dict[str, object]:
    return {_TYPE: NonTensorData(tuple), "0": NonTensorData(key), "1": _marked(value)}


# -- trees of other libraries -----------------------------------------------------------------------


class _Static:
    """The structure of a flattened container, compared by value, as JAX's caches need it.

    Trees that differ in shapes alone have one structure if they agree in the batch size (statistics of
    parameters) or in the feature shapes (a Jacobian and its argument). Both cases determine the batch size of
    leaves with equal shapes, so no cached trace is used for another batch size. The order of keys is not
    compared, nor the device, which arrays of JAX do not have.
    """

    __slots__ = (
        *("batch_size", "device", "features", "fixed", "keys", "kind", "locked", "names", "order"),
        *("trees", "unbatched"),
    )

    def __init__(
        self, td: Container, children: dict[str, Any], fixed: dict[str, Any], trees: Sequence[int]
    ) -> None:
        self.kind = type(td) if isinstance(td, class_registry.dense) else class_registry.dense
        self.keys = tuple(children)
        self.trees = tuple(trees)  # which children are those of objects
        self.order: tuple[str, ...] = tuple(td._keys())
        self.batch_size: Shape = td.batch_size
        # The feature shape of each child; None if it has no shape, or no array with a shape.
        self.features = tuple([_features(child, td.batch_size) for child in children.values()])
        # While it is traced, only the shape tells a child outside the batch.
        self.unbatched = tuple(
            [
                features is None and (isinstance(child, Unbatched) or has_namespace(child))
                for child, features in zip(children.values(), self.features, strict=True)
            ]
        )
        self.names = None if td._names is None else tuple(td._names)
        self.device = td.device
        self.locked = td.is_locked
        self.fixed = fixed

    def _compared(self) -> tuple[Any, ...]:
        return self.kind, self.keys, self.trees, self.unbatched, self.names, self.locked, tuple(self.fixed)

    def _feature_dims(self) -> list[int | None]:
        return [None if features is None else len(features) for features in self.features]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Static) or self._compared() != other._compared():
            return False
        if self.batch_size != other.batch_size:
            dims = self._feature_dims()
            if dims != other._feature_dims() or all(n is None for n in dims):
                return False
        pairs = zip(self.fixed.values(), other.fixed.values(), strict=True)
        return all(same_object(a, b) for a, b in pairs)

    def __hash__(self) -> int:
        return hash(self._compared())

    def __repr__(self) -> str:
        # JAX shows it where two structures differ.
        shown: dict[str, Any] = {"keys": list(self.keys), "batch_size": self.batch_size}
        shown |= {"names": self.names} if self.names is not None else {}
        shown |= {"locked": True} if self.locked else {}
        shown |= {"objects": list(self.fixed)} if self.fixed else {}
        return ", ".join(f"{name}={value!r}" for name, value in shown.items())


def _shape(value: object) -> Shape | None:
    """The shape of an array or of what stands for one; None for any other object."""
    shape = getattr(value, "shape", None)
    return tuple(shape) if isinstance(shape, tuple) else None


def _has_numbers(leaf: object) -> bool:
    dtype = getattr(leaf, "dtype", None)  # random keys of JAX have one without a kind
    return dtype is not None and _shape(leaf) is not None and getattr(dtype, "kind", "V") in "biufcV"


def _features(child: object, batch_size: Shape) -> Shape | None:
    if isinstance(child, Unbatched):
        return None
    if isinstance(child, TensorCollection) and (
        isinstance(child, NonTensorBase) or next(leaves(class_registry.dense._as_node(child)), None) is None
    ):
        return None
    shape = _shape(child)
    n = len(batch_size)
    return None if shape is None or shape[:n] != batch_size else shape[n:]


def register_pytree(library: str, *classes: type) -> None:
    """Make TensorDicts trees of JAX or optree, so that `jax.tree.map` and `jax.jit` take them.

    Arrays and nested TensorDicts are the children, sorted by key, and objects that are trees of arrays, such
    as a state of optax; batch size, names, lock and other Python objects belong to the structure. Leaves stay
    what a transformation makes of them: arrays of JAX, traced ones, or any object that stands for one.

    The batch size is what comes before the features, so inside `jax.vmap` and `jax.lax.scan` it lacks the
    mapped dim, and outside it has it again, where `in_axes` and `out_axes` say. Where the features change
    (`tree.map(lambda x: x.sum(-1), td)`) it is what the leaves still have of it. With another batch size
    names are dropped, and objects per element that do not fit it. A lazy stack is mapped along the first
    dim of its parts, which comes back in front of the stacked one.

    `jax.jit` traces a function again for each structure it has not met. Strings are part of it, so batches
    with other strings are traced at each sample: leave them out (`td.select(...)`, `td.exclude(...)`).

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
    for cls in (class_registry.dense, class_registry.lazy, *classes):
        _ensure(library, cls)


# (children, structure, names of the children)
_Flat = tuple[tuple[Any, ...], Any, tuple[Any, ...]]
_registered: set[tuple[str, type]] = set()


def _ensure(library: str, cls: type) -> None:
    if (library, cls) in _registered:
        return
    flatten: Callable[[Any], _Flat]
    unflatten: Callable[..., Any]
    if issubclass(cls, class_registry.lazy):
        flatten, unflatten = _flatten_lazy, _unflatten_lazy
    elif hasattr(cls, "_wrap_tensordict"):  # tensorclasses and typed TensorDicts
        flatten, unflatten = _flatten_class, _unflatten_class
    else:
        flatten, unflatten = _flatten_for(library), _unflatten
    _REGISTER[library](cls, flatten, unflatten)
    _registered.add((library, cls))


def _flatten_for(library: str) -> Callable[[Any], _Flat]:
    """The function that flattens a container to its children and its fixed part, for a library of trees."""
    trees = _imported(library)
    tree_leaves = getattr(trees, "tree_util", trees).tree_leaves

    def is_tree(entry: Any) -> bool:
        """Whether the leaves of an object are arrays of numbers, or what stands for them."""
        found = tree_leaves(entry.data) if isinstance(entry, NonTensorData) else []
        return bool(found) and found[0] is not entry.data and all(map(_has_numbers, found))

    def flatten(td: Container) -> _Flat:
        children: dict[str, Any] = {}
        fixed: dict[str, Any] = {}
        trees = []
        for key in sorted(td._keys()):
            entry = td._get_entry(key)
            if isinstance(entry, NonTensorBase):
                if tree := is_tree(entry):
                    trees.append(len(children))
                (children if tree else fixed)[key] = entry
            else:
                if isinstance(entry, TensorCollection):
                    _ensure(library, type(entry))
                children[key] = raw(entry)
        given, static = list(children.values()), _Static(td, children, fixed, trees)
        for i in static.trees:
            given[i] = given[i].data
        return tuple(given), static, static.keys

    return flatten


def _unflatten(static: _Static, children: Sequence[Any]) -> Container:
    # A tree may come back with anything for leaves: None, numbers, axes, descriptions of arrays.
    values = [np.asarray(child) if isinstance(child, np.generic) else child for child in children]
    for i in static.trees:
        values[i] = NonTensorData._make(values[i], static.batch_size)
    size = _batch_size(static, values)
    same = size == static.batch_size
    for i, alone in enumerate(static.unbatched):
        if alone and (array := _host(values[i])) is not None:
            values[i] = UnbatchedTensor(array, size)
    entries = dict(zip(static.keys, values, strict=True))
    for key, entry in static.fixed.items():
        if same or isinstance(entry, NonTensorData) or entry.batch_size[: len(size)] == size:
            entries[key] = entry
    if not same:
        pairs = zip(static.keys, static.features, strict=True)
        untold = [key for key, features in pairs if features is None]
        for key in (*untold, *static.fixed):  # entries without an array that determines their batch size
            entry = entries.get(key)
            if isinstance(entry, TensorCollection) and not isinstance(entry, NonTensorStack):
                entries[key] = entry._rebatch(size + entry.batch_size[len(static.batch_size) :])
    device = static.device if all(_is_on(value, static.device) for value in values) else None
    names = list(static.names) if same and static.names is not None else None
    data = {key: entries[key] for key in static.order if key in entries}
    out = static.kind._make(data, size, device, names)
    return out.lock_() if static.locked else out


def _host(value: object) -> Any:
    """The value as a NumPy array, as an entry outside the batch must be; None if it is traced or another."""
    return value if isinstance(value, np.ndarray) else known(value) if has_namespace(value) else None


def _batch_size(static: _Static, values: list[Any]) -> Shape:
    """The shape before the features of every leaf, which stay when a dimension is mapped or restored.

    If features have changed, the part of the batch size that the leaves still share.
    """
    found = [
        (shape, features)
        for value, features, alone in zip(values, static.features, static.unbatched, strict=True)
        if not alone
        and (shape := _shape(value)) is not None
        and not (features is None and isinstance(value, TensorCollection))
    ]
    if not found:
        return static.batch_size
    most = len(static.batch_size)
    told = [(shape, features) for shape, features in found if features is not None]
    sizes = [len(shape) - len(features) for shape, features in told]
    kept = [n >= 0 and shape[n:] == features for n, (shape, features) in zip(sizes, told, strict=True)]
    if sizes and all(kept):
        most = min(sizes)
    return _shared([shape for shape, _ in found], most)


def _shared(shapes: list[Shape], most: int) -> Shape:
    out: list[int] = []
    for sizes in zip(*shapes, strict=False):
        if len(out) == most or len(set(sizes)) > 1:
            break
        out.append(sizes[0])
    return tuple(out)


def _is_on(value: object, device: str | None) -> bool:
    """Whether a container of a device can hold a value; the device of arrays of JAX is unknown."""
    return value.device == device if isinstance(value, TensorCollection) else not has_namespace(value)


def _flatten_lazy(td: Any) -> _Flat:
    parts = tuple(td.tensordicts)
    ndim = parts[0].ndim if parts else 0
    return parts, (td.stack_dim, ndim, td._dim_name, td._empty_size), tuple(range(len(parts)))


def _unflatten_lazy(static: tuple[Any, ...], parts: Sequence[Any]) -> Container:
    stack_dim, ndim, *rest = static
    # A mapped dim is the first one of each part, before the dim of the stack unless that is first, too.
    moved = parts[0].ndim - ndim if parts else 0
    return class_registry.lazy._make(list(parts), max(stack_dim + moved, 0), *rest)


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


def _imported(library: str) -> ModuleType:
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise ImportError(f"register_pytree({library!r}) needs it: pip install {library}") from error


_REGISTER: dict[str, Callable[..., None]] = {"jax": _register_jax, "optree": _register_optree}
