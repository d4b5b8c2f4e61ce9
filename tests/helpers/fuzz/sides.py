"""The sides that run a random program: the model, and a library whose objects are read as the model's."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from helpers.fuzz.given import Listed, Stacked
from helpers.fuzz.model import Array, One, Rows, Tree, copied, dense, elements, is_node, regular
from helpers.fuzz.register import OPERATIONS, Call, Var

import lite


class Model:
    """The side that says what is right."""

    def value(self, given: Any, variables: list[Any]) -> Any:
        if isinstance(given, Var):
            return variables[given.at]
        if isinstance(given, Listed | Stacked):
            return copied(given.array)
        if isinstance(given, list | tuple) and not isinstance(given, One):
            return type(given)(self.value(item, variables) for item in given)
        return copied(given) if is_node(given) or isinstance(given, np.ndarray) else given

    def call(self, call: Call, variables: list[Any], at: int) -> Any:
        args = [self.value(item, variables) for item in call.args]
        kwargs = {key: self.value(item, variables) for key, item in call.kwargs.items()}
        return self.run(call.name, variables[at], args, kwargs)

    def run(self, name: str, td: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return OPERATIONS[name](td, *args, **kwargs)

    def read(self, value: Any) -> Any:
        return value

    def clone(self, value: Any) -> Any:
        return copied(value)


class Library(Model):
    """A library with TensorDicts.

    Args:
        lib: its module.
        array: its leaf of an array.
    """

    def __init__(self, lib: Any, array: Callable[[Array], Any]) -> None:
        self.lib = lib
        self.array = array
        fields = {"__annotations__": {"a": Any, "s": Any}, "a": None, "s": None}
        self.point = lib.tensorclass(type("Point", (), fields))

    def value(self, given: Any, variables: list[Any]) -> Any:
        if isinstance(given, Tree):
            entries = {key: self.value(item, variables) for key, item in given.entries.items()}
            if given.kind:
                return self.point(**entries, batch_size=given.shape)
            td = self.lib.TensorDict(entries, batch_size=given.shape, names=given.names)
            return td.lock_() if given.locked else td
        if isinstance(given, Rows):
            parts = np.moveaxis(given.array, given.dim, 0)
            built = [Rows(parts[i, ...], 0) if parts.ndim > 1 else parts[i] for i in range(len(parts))]
            built = [dense(part) if regular(part) else part for part in built]
            parts = [self.value(part, variables) for part in built]
            td = self.lib.LazyStackedTensorDict(*parts, stack_dim=given.dim)
            if any(given.names):
                td.names = given.names
            return td
        if isinstance(given, One):
            return given.value
        if isinstance(given, Listed):
            return given.lists(self.array)
        if isinstance(given, Stacked):
            return given.stacks(self.lib)
        if isinstance(given, np.ndarray):
            return given.tolist() if given.dtype == object else self.array(given.copy())
        if isinstance(given, dict):
            return {key: self.value(item, variables) for key, item in given.items()}
        return super().value(given, variables)

    def run(self, name: str, td: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if name.startswith("operator "):
            return getattr(operator, name[9:])(td, *args)
        if name.startswith("into "):
            return self._into(name[5:], td, args, kwargs)
        if name in FUNCTIONS:
            return FUNCTIONS[name](self.lib, td, *args, **kwargs)
        return getattr(td, name)(*args, **kwargs)

    def _into(self, name: str, td: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        out = self.run(name, td, args, kwargs).clone().zero_()
        held = self._leaves(out)
        got = self.run(name, td, args, {**kwargs, "out": out})
        kept = all(a is b for a, b in zip(held, self._leaves(out), strict=True))
        return [got, got is out and (kept or name.startswith("apply"))]  # which may give other shapes

    def _leaves(self, td: Any) -> list[Any]:
        """The arrays of a tree, and of the parts of lazy stacks."""
        if isinstance(td, self.lib.LazyStackedTensorDict):
            return [leaf for part in td.tensordicts for leaf in self._leaves(part)]
        if isinstance(td, self.point):
            return self._leaves(td._tensordict)
        found = []
        for value in map(td.get, td.keys()):
            if self.lib.is_tensor_collection(value) and not self.lib.is_non_tensor(value):
                found += self._leaves(value)
            elif not self.lib.is_non_tensor(value):
                found.append(value)
        return found

    def clone(self, value: Any) -> Any:
        return value.clone()

    def read(self, value: Any) -> Any:
        """What a value holds, in the model's terms."""
        if isinstance(value, self.point):
            return self._of_class(self.read(value._tensordict))
        if isinstance(value, self.lib.NonTensorData):
            return One(value.data)
        if self.lib.is_non_tensor(value):
            return self._objects(value)
        if isinstance(value, self.lib.LazyStackedTensorDict):
            parts = [elements(self.read(part)) for part in value.tensordicts]
            array = np.stack(parts, value.stack_dim) if parts else np.empty(tuple(value.batch_size), object)
            return Rows(array, value.stack_dim, list(value.names), value.is_locked)
        if isinstance(value, self.lib.TensorDictBase):
            entries = {key: self.read(value.get(key)) for key in list(value.keys())}
            return Tree(tuple(value.batch_size), entries, list(value.names), value.is_locked)
        if isinstance(value, tuple | list):
            return [self.read(item) for item in value]
        if isinstance(value, dict):
            return {key: self.read(item) for key, item in value.items()}
        return value

    def _of_class(self, node: Any) -> Any:
        """The content of an instance of the tensorclass."""
        for tree in node.array.ravel() if isinstance(node, Rows) else [node]:
            tree.kind = "Point"
        return node

    def _objects(self, value: Any) -> Array:
        rows, out = value.tolist(), np.empty(tuple(value.batch_size), object)
        for at in np.ndindex(out.shape):
            row = rows
            for i in at:
                row = row[i]
            out[at] = row
        return out


def _assign(lib: Any, td: Any, index: Any, value: Any) -> None:
    td[index] = value


def _delete(lib: Any, td: Any, key: Any) -> None:
    del td[key]


def _set_names(lib: Any, td: Any, names: Any) -> None:
    td.names = names


def _restored(lib: Any, td: Any) -> Any:
    """Another TensorDict with the same keys that loads the state of this one."""
    new = td.clone().zero_()
    for key in ("s", ("c", "s")):
        if key in new.keys(True) and lib.is_non_tensor(new.get(key)):
            new.set(key, "to be overwritten")
    return new.load_state_dict(td.state_dict())


def _restored_from_nothing(lib: Any, td: Any) -> Any:
    new = lib.TensorDict({}, td.batch_size).load_state_dict(td.state_dict(), strict=False)
    paths = [
        (path,) if isinstance(path, str) else path
        for path in new.keys(True, True, is_leaf=lib.is_leaf_nontensor)
    ]
    return {str(path): new[path] for path in sorted(paths, key=str)}


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "index": lambda lib, td, i: td[i],
    "assign": _assign,
    "set item": _assign,
    "del": _delete,
    "item": lambda lib, td, key: td[key],
    "contains": lambda lib, td, key: key in td.keys(True),
    "key list": lambda lib, td: (sorted(td.keys()), sorted(map(str, td.keys(True))), len(td)),
    "set in place": lambda lib, td, key, value: td.set(key, value, inplace=True),
    "update in place": lambda lib, td, value: td.update(value, inplace=True),
    "set names": _set_names,
    "set lists": lambda lib, td, key, arrays: td.set(key, arrays),
    "state dict": _restored,
    "state dict of nothing": _restored_from_nothing,
    "stack": lambda lib, td, items, d, **out: lib.stack([td, *items], d, **out),
    "cat": lambda lib, td, items, d, **out: lib.cat([td, *items], d, **out),
    "lazy_stack": lambda lib, td, items, d, **out: lib.lazy_stack([td, *items], d, **out),
    "maybe_dense_stack": lambda lib, td, items, d: lib.TensorDict.maybe_dense_stack([td, *items], d),
    "apply double": lambda lib, td, **out: td.apply(lambda x: x + x, **out),
    "apply other": lambda lib, td, other, **out: td.apply(lambda x, y: x + y, other, **out),
    "apply without a": lambda lib, td: td.named_apply(
        lambda key, x: None if key == "a" or key[-1:] == ("a",) else x, nested_keys=True
    ),
}

MODEL, LITE = Model(), Library(lite, lambda array: array)
