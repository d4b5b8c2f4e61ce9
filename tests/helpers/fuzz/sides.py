"""The sides that run a random program: the model, and a library whose objects are read as the model's."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from helpers.fuzz.model import Array, One, Rows, Tree, copied, dense, elements, is_node, regular
from helpers.fuzz.register import OPERATIONS, Call, Var

import lite


class Model:
    """The side that says what is right."""

    def value(self, given: Any, variables: list[Any]) -> Any:
        if isinstance(given, Var):
            return variables[given.at]
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

    def value(self, given: Any, variables: list[Any]) -> Any:
        if isinstance(given, Tree):
            entries = {key: self.value(item, variables) for key, item in given.entries.items()}
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
        if isinstance(given, np.ndarray):
            return given.tolist() if given.dtype == object else self.array(given.copy())
        if isinstance(given, dict):
            return {key: self.value(item, variables) for key, item in given.items()}
        return super().value(given, variables)

    def run(self, name: str, td: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if name.startswith("operator "):
            return getattr(operator, name[9:])(td, *args)
        if name in FUNCTIONS:
            return FUNCTIONS[name](self.lib, td, *args, **kwargs)
        return getattr(td, name)(*args, **kwargs)

    def clone(self, value: Any) -> Any:
        return value.clone()

    def read(self, value: Any) -> Any:
        """What a value holds, in the model's terms."""
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


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "index": lambda lib, td, i: td[i],
    "assign": _assign,
    "set item": _assign,
    "del": _delete,
    "item": lambda lib, td, key: td[key],
    "contains": lambda lib, td, key: key in td.keys(True),
    "key list": lambda lib, td: (list(td.keys()), sorted(map(str, td.keys(True))), len(td)),
    "set in place": lambda lib, td, key, value: td.set(key, value, inplace=True),
    "update in place": lambda lib, td, value: td.update(value, inplace=True),
    "set names": _set_names,
    "stack": lambda lib, td, items, d: lib.stack([td, *items], d),
    "cat": lambda lib, td, items, d: lib.cat([td, *items], d),
    "lazy_stack": lambda lib, td, items, d: lib.lazy_stack([td, *items], d),
    "maybe_dense_stack": lambda lib, td, items, d: lib.TensorDict.maybe_dense_stack([td, *items], d),
    "apply double": lambda lib, td: td.apply(lambda x: x + x),
    "apply other": lambda lib, td, other: td.apply(lambda x, y: x + y, other),
    "apply without a": lambda lib, td: td.named_apply(
        lambda key, x: None if key == "a" or key[-1:] == ("a",) else x, nested_keys=True
    ),
}

MODEL, LITE = Model(), Library(lite, lambda array: array)
