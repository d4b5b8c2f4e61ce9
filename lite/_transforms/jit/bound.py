"""Objects among the arguments of a step: for each object there is a function of the arrays alone."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from lite._arrays.types import ArrayHolder, HostArray
from lite._tree.collection import TensorCollection
from lite._tree.nontensor import NonTensorBase
from lite._tree.unbatched import UnbatchedTensor

_OTHERS = (
    *(TensorCollection, NonTensorBase, UnbatchedTensor, ArrayHolder, HostArray, np.ndarray, np.generic),
    *(type, types.ModuleType, np.ufunc),
)
_CONTAINERS = (list, tuple, dict)
_FUNCTIONS = (types.FunctionType, types.MethodType)


class ObjectTypes(dict[type, bool]):
    """Whether values of a type are objects, compared by identity, whose contents may change between calls.

    These are modules, optimisers, functions and the caller's own objects, and lists and dicts of them. Values
    that are compared by content, such as texts and frozen dataclasses, are constants of the graph.
    """

    def __missing__(self, kind: type) -> bool:
        found = (
            kind in _CONTAINERS
            or issubclass(kind, _FUNCTIONS)
            or (
                kind.__hash__ is object.__hash__
                and (kind.__dictoffset__ != 0 or any("__slots__" in vars(base) for base in kind.__mro__))
                and not issubclass(kind, _OTHERS)
                and not hasattr(kind, "__cuda_array_interface__")
                and not hasattr(kind, "bit_generator")
            )
        )
        self[kind] = found
        return found


is_object_type = ObjectTypes()


def object_key(value: Any) -> Any:
    """A key that is equal for the same objects, also in lists and dicts; None for other values."""
    kind = type(value)
    if not is_object_type[kind]:
        return None
    if kind not in _CONTAINERS:
        return value
    names, items = (tuple(value), value.values()) if kind is dict else ((), value)
    found = []
    for item in items:
        key = object_key(item)
        if key is None:
            return None
        found.append(key)
    return (kind, names, *found) if found else None


class Bound:
    """A function with some arguments bound, as `functools.partial`, but at any position.

    Args:
        func: the function.
        places: bound positional arguments by their position.
        keywords: bound keyword arguments.
        names: names of the positional parameters of the function.
    """

    def __init__(
        self, func: Callable[..., Any], places: dict[int, Any], keywords: dict[str, Any], names: list[str]
    ) -> None:
        self.func = func
        self._places = places
        self._keywords = keywords
        self.given = {names[i] if i < len(names) else f"args[{i}]": x for i, x in places.items()} | keywords
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        rest = [inspect.Parameter(name, kind) for name in names if name not in self.given]
        self.__signature__ = inspect.Signature(rest)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        rest, places = iter(args), self._places
        whole = [places[i] if i in places else next(rest) for i in range(len(args) + len(places))]
        return self.func(*whole, **kwargs, **self._keywords)
