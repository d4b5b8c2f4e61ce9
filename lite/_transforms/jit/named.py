"""What a function takes from elsewhere: names in closures and globals, and what they stand for."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from contextlib import suppress
from operator import is_
from typing import Any

import numpy as np

from lite._transforms.jit.stateful import is_module, is_optimizer, is_schedule, is_updater
from lite._tree.protocol import Container


class Named:
    """The modules, optimisers and updaters that a function takes from closures and globals.

    What these names stand for is looked at in each call, also where it is a number, an array, a generator, a
    function, an item of a list, of a dict or of a TensorDict, or an attribute.

    Args:
        fn: the function.

    Attributes:
        objects: these.
        names: of these, by their identity, as the function has them.
        words: all names that its code has, in their order.
        changed: the name that stands for something else, where `is_current` gives False.
    """

    def __init__(self, fn: Any) -> None:
        self.words: dict[str, None] = {}
        self.names: dict[int, str] = {}
        self.changed = ""
        self._found: dict[int, Any] = {}
        self._methods: list[Any] = []
        self._sources: list[tuple[Callable[[], Any], Any, str]] = []
        self._look(fn, 5, "function")
        self.objects = list(self._found.values())
        modules = [one for one in self.objects if is_module(one)]
        self._assignments = getattr(modules[0], "_assignments", [None]) if modules else [None]
        self._assigned, self._tree = self._assignments[0], _parts(modules)
        self._modules = modules
        self._settled = False

    def is_current(self) -> bool:
        """Whether the names still stand for the same, and the modules have the parts that they had."""
        for read, value, name in self._sources:
            now = read()
            if now is not value and (
                type(now) not in _NUMBERS or type(now) is not type(value) or now != value
            ):
                self.changed = name
                return False
        if self._assigned is not self._assignments[0]:  # to some module, perhaps to one of these
            self._assigned, tree = self._assignments[0], _parts(self._modules)
            self.changed = "a part of a module"
            return len(tree) == len(self._tree) and all(map(is_, tree, self._tree))
        return True

    def settle(self) -> None:
        """Forget, after the first trace, the numbers that the function itself changes."""
        if not self._settled:
            self._settled = True
            self._sources = [
                one for one in self._sources if type(one[1]) not in _NUMBERS or one[0]() == one[1]
            ]
            self._assigned, self._tree = self._assignments[0], _parts(self._modules)

    def _follow(self, read: Callable[[], Any], depth: int, name: str) -> None:
        with suppress(ValueError):  # a cell whose name has no value yet
            value = read()
            count = len(self._found)
            self._look(value, depth, name)
            if len(self._found) > count or id(value) in self._found or _is_value(value):
                self._sources.append((read, value, name))

    def _look(self, value: Any, depth: int, name: str) -> None:
        kinds = is_optimizer, is_updater, is_schedule
        if isinstance(getattr(value, "training", None), bool) or any(is_one(value) for is_one in kinds):
            self._found[id(value)] = value
            while id(value) not in self.names and name in self.names.values():
                name += "_"  # of another object, as in another function
            self.names.setdefault(id(value), name)
        elif hasattr(type(value), "_runner"):  # a function under `lite.jit`
            self._look(value.fn, depth, name)
        elif depth and isinstance(value, functools.partial):
            self._look(value.func, depth - 1, name)
            for key, item in _bound(value).items():
                self._look(item, depth - 1, key)
        elif depth and isinstance(value, list | tuple):
            self._sources.append((value.__len__, len(value), name))
            for place in range(min(len(value), _ENTRIES)):
                self._follow(functools.partial(_item, value, place), depth - 1, f"{name}.{place}")
        elif depth and isinstance(value, dict | Container):
            entries = value if isinstance(value, dict) else getattr(value, "_data", {})
            self._sources.append((entries.__len__, len(entries), name))
            for key in list(entries)[:_ENTRIES]:
                self._follow(functools.partial(entries.get, key), depth - 1, f"{name}.{key}")
        elif depth and inspect.ismethod(value):
            if value in self._methods:
                return
            self._methods.append(value)
            self._look(value.__self__, depth - 1, "self")
            self._look(value.__func__, depth - 1, name)
            words = list(self.words)
            for word in words:  # those of its other methods, too
                function = inspect.getattr_static(type(value.__self__), word, None)
                names = function.__code__.co_names if inspect.isfunction(function) else ()
                words += [other for other in names if other not in words]
            attributes = getattr(value.__self__, "__dict__", {})
            for key, attribute in attributes.items():
                if key in words or type(attribute) not in _NUMBERS:
                    self._follow(functools.partial(attributes.get, key), 1, key)
        elif depth and inspect.isfunction(value):
            self.words.update(dict.fromkeys(value.__code__.co_names))
            for key, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
                self._follow(lambda cell=cell: cell.cell_contents, depth - 1, key)  # type: ignore[misc]
            own = str(value.__globals__.get("__name__")).partition(".")[0] not in _LIBRARIES
            for key in value.__code__.co_names if own else ():
                if key in value.__globals__:
                    self._follow(functools.partial(value.__globals__.get, key), depth - 1, key)
        elif depth and not isinstance(value, type | types.ModuleType):
            attributes = getattr(value, "__dict__", {})
            for key in self.words:
                if key in attributes:
                    self._follow(functools.partial(attributes.get, key), 0, f"{name}.{key}")


_NUMBERS = frozenset((bool, int, float, str))  # and texts, which are compared by their values
_ENTRIES = 256  # of a list or a dict that are looked at
_LIBRARIES = ("lite", "numpy")  # whose globals are none of the caller's


def _item(items: Any, place: int) -> Any:
    return items[place] if place < len(items) else None


def _is_value(value: Any) -> bool:
    """Whether a trace reads a value once, where the function itself would read it at each call."""
    kind = type(value)
    return (
        kind in _NUMBERS
        or kind is np.ndarray
        or isinstance(value, Container | np.generic)
        or hasattr(kind, "bit_generator")
        or callable(value)
    )


def _bound(value: functools.partial[Any]) -> dict[str, Any]:
    """The arguments that a partial function has, by name."""
    names = parameters(value.func)
    places = [names[i] if i < len(names) else f"args[{i}]" for i in range(len(value.args))]
    return {**dict(zip(places, value.args, strict=True)), **value.keywords}


def _parts(modules: list[Any]) -> list[Any]:
    """All that graphs know of modules: their submodules, parameters, and attributes that are numbers."""
    parts = [x for one in modules for walk in (one.modules, one.parameters) for x in walk()]
    kinds = (float, str, bool)  # not counters, which are no part of what is computed
    return parts + [
        x
        for one in parts
        if is_module(one)
        for key, x in vars(one).items()
        if type(x) in kinds and key != "training" and key not in getattr(one, "_graph_numbers", ())
    ]


def parameters(fn: Callable[..., Any]) -> list[str]:
    """Names of the positional parameters of a function."""
    try:
        found = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return []
    return [x.name for x in found if x.kind in (x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD)]
