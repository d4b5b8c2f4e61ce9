"""Operations on trees of parameters: those of `TensorDictParams` (convert, copy, replace), maps, vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import numpy as np

from lite import TensorDict
from lite._arrays.dtypes import is_floating
from lite._arrays.types import Array, Path, Unbatched, is_array, raw
from lite._tree.collection import TensorCollection
from lite._tree.walks import like_leaf, map_tree
from lite.nn._modules.initial import UninitializedParameter, is_uninitialized
from lite.nn._modules.module import Module
from lite.nn._modules.parameter import Parameter
from lite.nn._modules.state_dict import StateDictMethods, remember_values


def as_parameter(leaf: Any) -> Any:
    """Convert a floating array to a Parameter; unbatched and other arrays are buffers and stay unchanged."""
    batched = isinstance(leaf, np.ndarray) and not isinstance(leaf, Unbatched)
    return Parameter(leaf) if batched and is_floating(leaf.dtype) else leaf


def convert_node(node: Any) -> None:
    """Convert floating arrays to Parameters at any depth; nested TensorDictParams stay unchanged."""
    for key, entry in list(node._data.items()):
        inner = node._as_node(entry)
        if inner is None:
            converted = as_parameter(entry)
            if converted is not entry:
                node._data[key] = converted
        elif not isinstance(inner, Module):
            convert_node(inner)


def replace_arrays(node: Any, fn: Callable[[Any], Any]) -> None:
    """Replace every array by `fn` of it; Parameters stay the same objects."""
    for key, entry in list(node._data.items()):
        inner = node._as_node(entry)
        if inner is not None:
            replace_arrays(inner, fn)
        elif isinstance(entry, Parameter):
            entry.data = fn(entry.data)
        elif not isinstance(entry, TensorCollection):
            node._data[key] = like_leaf(entry, fn(entry))


def kept(node: Any, fn: Callable[[Any], Any], memo: dict[int, Any]) -> Any:
    """A tree with `fn` of every array; Parameters stay Parameters, and tied ones stay tied."""
    entries = {}
    for key, entry in node._data.items():
        inner = node._as_node(entry)
        if inner is not None:
            entries[key] = node._rewrap(entry, kept(inner, fn, memo))
        elif isinstance(entry, TensorCollection):
            entries[key] = entry._clone(True)
        else:
            if id(entry) not in memo:
                new = like_leaf(entry, fn(raw(entry)))
                memo[id(entry)] = Parameter(new, entry.requires_grad) if isinstance(entry, Parameter) else new
            entries[key] = memo[id(entry)]
    return TensorDict._make(entries, node._batch_size, node._device, node._names)


def with_parameters_of(moved: Any, before: Any) -> Any:
    """`moved` with Parameters where `before`, of the same keys, has them and the dtype is still a float."""
    for key, entry in before._data.items():
        inner = before._as_node(entry)
        if inner is not None:
            with_parameters_of(moved._as_node(moved._data[key]), inner)
        elif isinstance(entry, Parameter) and is_floating(moved._data[key].dtype):
            array = raw(moved._data[key])
            moved._data[key] = entry if array is entry.data else Parameter(array, entry.requires_grad)
    return moved


def flattened(state: Any, prefix: str) -> Any:
    """A state dict with nested mappings and TensorDicts flattened to dotted names."""
    tree = TensorDict._as_node(state)
    if tree is None and not any(map(_is_nested, state.values())):
        return {prefix + name: value for name, value in state.items()} if prefix else state
    out: dict[str, Any] = {}
    for name, value in state.items() if tree is None else tree._items():
        if _is_nested(value):
            out.update(flattened(value, f"{prefix}{name}."))
        elif tree is None or is_array(value):  # a state dict has no objects
            out[prefix + name] = value
    return out


def _is_nested(value: Any) -> bool:
    return isinstance(value, dict) or TensorDict._as_node(value) is not None


def nodes(node: Any) -> Iterator[Any]:
    """A TensorDict and all nested ones."""
    yield node
    for entry in node._data.values():
        inner = node._as_node(entry)
        if inner is not None:
            yield from nodes(inner)


def refuse_lazy(node: Any) -> None:
    """Raise RuntimeError if there is a lazy stack at any depth."""
    if node._parts() is not None:
        raise RuntimeError(
            "a LazyStackedTensorDict cannot be in a TensorDictParams, which names one array per entry; "
            "make it dense first (contiguous())."
        )
    for _, entry in node._items():
        inner = node._as_node(entry)
        if inner is not None:
            refuse_lazy(inner)


class ParamsState(StateDictMethods):
    """Saving and loading, as a base class of `TensorDictParams`."""

    data: Any
    _param_td: Any
    _as_node: Any
    _save: Any
    _reset: Any

    def _named_leaves(self) -> Iterator[tuple[str, Path, Any]]:
        for key, leaf in self._param_td.items(True, True):
            path = (key,) if isinstance(key, str) else key
            yield ".".join(path), path, leaf

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, _, leaf in self._named_leaves():
            itself = keep_vars or isinstance(leaf, UninitializedParameter)
            destination[prefix + name] = leaf if itself else raw(leaf)

    def _local_state(self) -> dict[str, Any]:
        return {name: leaf for name, _, leaf in self._named_leaves()}

    def _unexpected(self, state_dict: dict[str, Any], prefix: str, local: dict[str, Any]) -> list[str]:
        return [key for key in state_dict if key.startswith(prefix) and key[len(prefix) :] not in local]

    def _replace_entry(self, name: str, leaf: Any) -> None:
        path = next(path for found, path, _ in self._named_leaves() if found == name)
        node = self._param_td if len(path) == 1 else self._as_node(self._param_td._get_entry(path[:-1]))
        node._put(path[-1], leaf)

    def _assign_entry(self, name: str, current: Any, value: Any) -> None:
        if isinstance(current, Parameter):
            self._replace_entry(name, Parameter(value, current.requires_grad))
        else:
            self._replace_entry(name, raw(value))

    def _copy_entry(self, name: str, current: Any, value: Any) -> None:
        array = raw(current)
        if isinstance(current, Parameter) or (not is_uninitialized(array) and array.flags.writeable):
            super()._copy_entry(name, current, value)
        else:
            self._replace_entry(name, value.copy())

    def _restorer(self) -> Callable[[], None]:
        nodes_before = self._save()
        values = remember_values(self._local_state().values())

        def restore() -> None:
            self._reset(nodes_before)
            values()

        return restore

    def state_dict(  # type: ignore[override]
        self, destination: Any = None, prefix: str = "", keep_vars: bool = False, flatten: bool = True
    ) -> Any:
        """The arrays by dotted name, in the order of the keys; or nested, if not `flatten`."""
        if not flatten:
            return self.data.state_dict(destination, prefix, keep_vars, False)
        return StateDictMethods.state_dict(self, destination=destination, prefix=prefix, keep_vars=keep_vars)

    def load_state_dict(  # type: ignore[override]
        self, state_dict: Any, strict: bool = True, assign: bool = False, from_flatten: bool | None = None
    ) -> Self:
        """Copy the values of a state dict, flat or nested, into the entries; returns self.

        Raises:
            RuntimeError: key sets differ (with `strict`), or shapes do; nothing is loaded then.
        """
        StateDictMethods.load_state_dict(self, flattened(state_dict, ""), strict, assign)
        return self


def tree_of(value: Any, name: str) -> Any:
    """The TensorDict behind an argument: itself, or that of a tensorclass."""
    node = TensorDict._as_node(value)
    if node is None:
        raise TypeError(f"{name} must be a TensorDict, got {type(value).__name__}.")
    return node


def map_floats(tree: Any, fn: Callable[[Array], Array]) -> Any:
    """The same tree with `fn` of every floating array; all others stay as they are."""

    def of_leaf(array: Array, _: object) -> Array:
        if not is_floating(array.dtype):
            return array
        out = fn(raw(array))
        return np.asarray(out) if isinstance(out, np.generic) else out  # of an array without dimensions

    return map_tree(tree_of(tree, "grads"), of_leaf)


def parameters_to_vector(parameters: Iterable[Any]) -> Array:
    """All numbers of Parameters, or arrays, one after the other.

    Under `lite.enable_grad()` the vector depends on the Parameters.

    Args:
        parameters: such as `module.parameters()`.

    Returns:
        (n,), of the promoted dtype.

    Raises:
        ValueError: there are none.

    Source:
        torch.nn.utils.parameters_to_vector.

    Example:
        >>> from lite import nn
        >>> nn.utils.parameters_to_vector(nn.Linear(2, 3).parameters()).shape
        (9,)
    """
    parts = [parameter.reshape(-1) for parameter in parameters]
    if not parts:
        raise ValueError("parameters must not be empty, got none.")
    return np.concatenate(parts)


def vector_to_parameters(vec: Any, parameters: Iterable[Parameter]) -> None:
    """Write the numbers of a vector into Parameters, one after the other.

    Args:
        vec: (n,), or longer: what is left is not used.
        parameters: such as `module.parameters()`; their arrays are replaced, and keep their dtypes.

    Raises:
        TypeError: `vec` is not an array.
        RuntimeError: it is too short; nothing has changed then.

    Source:
        torch.nn.utils.vector_to_parameters.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> layer = nn.Linear(2, 1)
        >>> nn.utils.vector_to_parameters(np.arange(3.0), layer.parameters())
        >>> layer.weight.data, layer.bias.data
        (array([[0., 1.]], dtype=float32), array([2.], dtype=float32))
    """
    if not is_array(vec):
        raise TypeError(f"vec must be an array, got {type(vec).__name__}.")
    given = list(parameters)
    sizes = [math.prod(parameter.shape) for parameter in given]
    if vec.ndim != 1 or vec.shape[0] < sum(sizes):
        raise RuntimeError(f"vec must be a vector of {sum(sizes)} numbers, got shape {tuple(vec.shape)}.")
    start = 0
    for parameter, size in zip(given, sizes, strict=True):
        part: Any = vec[start : start + size]
        parameter.data = part.reshape(parameter.shape).astype(parameter.dtype)
        start += size
