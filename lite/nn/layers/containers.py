"""Modules that hold modules or parameters: Sequential, lists, dicts."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from lite._arrays.foreign import class_name
from lite._arrays.public import belong_to
from lite._arrays.types import Array, is_array
from lite.nn._modules.module import Module, indented
from lite.nn._modules.parameter import Parameter


class _Numbered(Module):
    """List behaviour over children in registration order; what Sequential and ModuleList share."""

    def _make(self, modules: Iterable[Module]) -> Self:
        raise NotImplementedError

    def _key(self, index: Any) -> str:
        position, size = operator.index(index), len(self._modules)
        if not -size <= position < size:
            raise IndexError(f"index {position} is out of range for {size} modules.")
        return list(self._modules)[position]

    def _renumber(self, modules: Iterable[Any]) -> None:
        self.__dict__["_modules"] = {}
        for index, module in enumerate(modules):
            self.add_module(str(index), module)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return self._make(list(self)[index])
        return self._modules[self._key(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._key(index), module)

    def __delitem__(self, index: int | slice) -> None:
        keys = list(self._modules)
        drop = keys[index] if isinstance(index, slice) else [self._key(index)]
        self._drop(drop)

    def _drop(self, keys: list[str]) -> None:
        self._renumber([module for key, module in self._modules.items() if key not in keys])

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._modules.values()))

    def append(self, module: Module) -> Self:
        """Add a module at the end; returns self."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end; returns self.

        Raises:
            TypeError: if `modules` is not an iterable of modules; nothing is added then.
        """
        if not isinstance(modules, Iterable):
            raise TypeError(f"modules must be an iterable of Modules, got {type(modules).__name__}.")
        added = list(modules)
        for module in added:
            if not isinstance(module, Module):
                raise TypeError(f"modules must hold Modules, got {type(module).__name__}.")
        for module in added:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Insert a module before `index`; returns self.

        Raises:
            TypeError: if `module` is not a Module.
        """
        if not isinstance(module, Module):
            raise TypeError(f"module must be a Module, got {class_name(module)}.")
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def pop(self, index: int = -1) -> Module:
        """Remove the module at `index` and return it."""
        module: Module = self[index]
        del self[index]
        return module

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, modules: Iterable[Module]) -> Self:
        return self._make([*self, *modules])


class Sequential(_Numbered):
    """Modules called one after the other, each on what the one before returned.

    Args:
        modules: modules, or one ordered mapping of names to modules.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
        >>> net(np.zeros((5, 2), dtype=np.float32)).shape, len(net[:2])
        ((5, 1), 2)
    """

    def __init__(self, *modules: Any) -> None:
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for name, module in modules[0].items():
                self.add_module(name, module)
        else:
            for index, module in enumerate(modules):
                self.add_module(str(index), module)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return super().__getitem__(index)

    def _make(self, modules: Iterable[Module]) -> Self:
        return type(self)(*modules)

    def _drop(self, keys: list[str]) -> None:
        named = list(self._modules) != [str(i) for i in range(len(self._modules))]
        if named:  # names that the user gave stay
            for key in keys:
                delattr(self, key)
        else:
            super()._drop(keys)

    def __mul__(self, times: int) -> Self:
        """The modules so many times over: the same objects, which share their parameters."""
        return self._make(self._repeated(times))

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Self:
        return self.extend(self._repeated(times)[len(self) :])

    def _repeated(self, times: int) -> list[Module]:
        if not isinstance(times, int):
            raise TypeError(f"a Sequential can be multiplied by an int, got {type(times).__name__}.")
        if times <= 0:
            raise ValueError(f"a Sequential can be multiplied by a positive int, got {times}.")
        return [*self] * times

    def forward(self, input: Array) -> Any:
        """Call the modules in order."""
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(_Numbered):
    """A list of modules whose parameters belong to the module that holds it. It cannot be called.

    Args:
        modules: an iterable of modules.

    Example:
        >>> from lite import nn
        >>> nn.ModuleList([nn.ReLU(), nn.ReLU()])
        ModuleList(
          (0-1): 2 x ReLU()
        )
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def _make(self, modules: Iterable[Module]) -> Self:
        return type(self)(modules)

    def __repr__(self) -> str:
        if not self._modules:
            return f"{type(self).__name__}()"
        groups: list[tuple[int, int, str]] = []
        for index, text in enumerate(repr(module) for module in self):
            if groups and groups[-1][2] == text:
                groups[-1] = (groups[-1][0], index, text)
            else:
                groups.append((index, index, text))
        lines = []
        for first, last, text in groups:
            label = f"({first})" if first == last else f"({first}-{last})"
            count = "" if first == last else f"{last - first + 1} x "
            lines.append(f"{label}: {indented(count + text)}")
        body = "\n  ".join(lines)
        return f"{type(self).__name__}(\n  {body}\n)"


class ModuleDict(Module):
    """A dict of modules whose parameters belong to the module that holds it. It cannot be called.

    Args:
        modules: a mapping of names to modules, or an iterable of pairs.

    Example:
        >>> from lite import nn
        >>> d = nn.ModuleDict({"act": nn.Tanh()})
        >>> d["act"], list(d)
        (Tanh(), ['act'])
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._modules))

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def keys(self) -> Any:
        """The names."""
        return self._modules.keys()

    def values(self) -> Any:
        """The modules."""
        return self._modules.values()

    def items(self) -> Any:
        """(name, module) pairs."""
        return self._modules.items()

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Remove a module and return it."""
        return self._modules.pop(key)

    def update(self, modules: Any) -> None:
        """Add or replace modules from a mapping, another ModuleDict or an iterable of pairs.

        Raises:
            TypeError: if `modules` is not iterable, or a value is not a Module.
        """
        if not isinstance(modules, Iterable):
            raise TypeError(f"modules must be a mapping or pairs, got {type(modules).__name__}.")
        pairs = modules.items() if isinstance(modules, Mapping | ModuleDict) else modules
        for key, module in pairs:
            self.add_module(key, module)


class _Parameters(Module):
    """What ParameterList and ParameterDict share: entries are attributes, arrays become Parameters."""

    def _entries(self) -> Iterable[tuple[str, Any]]:
        raise NotImplementedError

    def extra_repr(self) -> str:
        lines = []
        for name, value in self._entries():
            if is_array(value):
                kind = "Parameter" if isinstance(value, Parameter) else "Array"
                size = "x".join(map(str, value.shape))
                lines.append(f"  ({name}): {kind} containing: [{value.dtype} of size {size}]")
            else:
                lines.append(f"  ({name}): Object of type: {type(value).__name__}")
        return "\n".join(lines)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"a {type(self).__name__} is not called: it holds parameters.")


def _held(value: Any) -> Any:
    return Parameter(value) if is_array(value) and not isinstance(value, Parameter) else value


class ParameterList(_Parameters):
    """A list of parameters that belong to the module that holds it, under their numbers. It cannot be called.

    Args:
        values: an iterable of Parameters, arrays, which become Parameters, and anything else, which is held
            as it is.

    Raises:
        TypeError: `values` is an array or not iterable.
        RuntimeError: an array is neither floating nor complex.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> weights = nn.ParameterList([np.ones(2), np.ones((2, 3))])
        >>> [weight.shape for weight in weights], list(weights.state_dict())
        ([(2,), (2, 3)], ['0', '1'])
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def _key(self, index: Any) -> str:
        position = operator.index(index)
        if not -self._size <= position < self._size:
            raise IndexError(f"index {position} is out of range for {self._size} parameters.")
        return str(position % self._size)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return getattr(self, self._key(index))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, self._key(index), _held(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(self._size))

    def append(self, value: Any) -> Self:
        """Add a parameter at the end; returns self."""
        return self.extend([value])

    def extend(self, values: Iterable[Any]) -> Self:
        """Add parameters at the end; returns self.

        Raises:
            TypeError: `values` is an array or not iterable; nothing is added then.
            RuntimeError: an array is neither floating nor complex; nothing is added then.
        """
        if not isinstance(values, Iterable) or is_array(values):
            raise TypeError(f"values must be an iterable of parameters, got {type(values).__name__}.")
        for value in [_held(value) for value in values]:
            setattr(self, str(self._size), value)
            self._size += 1
        return self

    __iadd__ = extend

    def _entries(self) -> Iterable[tuple[str, Any]]:
        return ((str(index), value) for index, value in enumerate(self))


class ParameterDict(_Parameters):
    """A dict of parameters that belong to the module that holds it, under their names. It cannot be called.

    Args:
        parameters: a mapping of names to what `ParameterList` takes, or an iterable of pairs; see `update`.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> scales = nn.ParameterDict({"wide": np.full(2, 3.0), "narrow": np.ones(2)})
        >>> scales["wide"] * scales["narrow"], list(scales.state_dict())
        (array([3., 3.]), ['narrow', 'wide'])
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}  # in their order, which those of the registry may not have
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        return getattr(self, _checked(key))

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, _checked(key), _held(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def keys(self) -> Any:
        """The names."""
        return self._keys.keys()

    def values(self) -> Iterator[Any]:
        """The parameters."""
        return (self[key] for key in self._keys)

    def items(self) -> Iterator[tuple[str, Any]]:
        """(name, parameter) pairs."""
        return ((key, self[key]) for key in self._keys)

    _entries = items

    def copy(self) -> ParameterDict:
        """A ParameterDict of the same Parameters."""
        return ParameterDict(self)

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A ParameterDict of other names with one value."""
        return ParameterDict((key, default) for key in keys)

    def get(self, key: str, default: Any = None) -> Any:
        """The parameter of a name, or `default`."""
        return self[key] if key in self._keys else default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The parameter of a name, which is `default` from now on if there was none."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        """Remove a parameter and return it."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove the last parameter and return its name and it."""
        key = next(reversed(self), None)
        if key is None:
            raise KeyError("this ParameterDict is empty.")
        return key, self.pop(key)

    def clear(self) -> None:
        """Remove all parameters."""
        for key in list(self):
            del self[key]

    def update(self, parameters: Any) -> None:
        """Add or replace parameters: of an OrderedDict, a ParameterDict or pairs in their order, of other
        mappings sorted by name, as torch's.

        Raises:
            TypeError: `parameters` is neither a mapping nor an iterable of pairs, or a name is not a string.
            ValueError: what should be a pair has another length.
            RuntimeError: an array is neither floating nor complex.
        """
        if not isinstance(parameters, Iterable):
            raise TypeError(f"parameters must be a mapping or pairs, got {type(parameters).__name__}.")
        pairs: Any = parameters.items() if isinstance(parameters, Mapping | ParameterDict) else parameters
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            pairs = sorted(pairs, key=operator.itemgetter(0))
        for key, value in [(_checked(key), _held(value)) for key, value in pairs]:
            self[key] = value

    def __or__(self, other: Any) -> ParameterDict:
        out = self.copy()
        out.update(other)
        return out

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self


def _checked(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"names of a ParameterDict are strings, got {type(key).__name__}.")
    return key


belong_to("lite.nn", ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential)
