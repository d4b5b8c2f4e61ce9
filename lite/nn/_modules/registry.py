"""The three registries of a module: parameters, buffers and children.

They are filled by name or by assignment, and traversed by dotted name. Children are typed `Any`, as their
class, `Module`, is a subclass of this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np

from lite._arrays.foreign import class_name
from lite._arrays.namespace import NamespaceArray
from lite._arrays.types import is_interpreted, is_symbolic
from lite._transforms.handles import assignments
from lite._tree.collection import TensorCollection
from lite.nn._modules.initial import UninitializedBuffer
from lite.nn._modules.meta import MetaArray
from lite.nn._modules.parameter import Parameter

_REGISTRIES = ("_modules", "_parameters", "_buffers")  # children are asked for most


def is_buffer_value(value: Any) -> bool:
    """True for buffers: an array (of NumPy, a graph or a device, or without data), or a TensorDict."""
    if isinstance(value, np.ndarray | np.generic | MetaArray | UninitializedBuffer | TensorCollection):
        return True
    return getattr(value, "symbolic", False) or hasattr(value, "__cuda_array_interface__")


def _is_of_a_step(value: Any) -> bool:
    """True for an array of a step that is traced, by lite or JAX; the module holds its values afterwards."""
    return is_symbolic(value) or isinstance(value, NamespaceArray)


class Registry:
    """Parameters, buffers and children by name; a base class of `Module`."""

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]  # modules, or None for a reserved name
    _non_persistent_buffers: set[str]

    def _init_registries(self) -> None:
        state = self.__dict__
        state["training"] = True
        state["_parameters"] = {}
        state["_buffers"] = {}
        state["_modules"] = {}
        state["_non_persistent_buffers"] = set()

    # -- registration by name ------------------------------------------------------------------

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Register a parameter under a name; None reserves the name and stays out of the state dict.

        Raises:
            TypeError: if `name` is not a string, or `param` is neither a Parameter nor None.
            KeyError: if the name is empty, holds a dot or is taken by another attribute.
        """
        registry = self._registry("_parameters", "parameters")
        self._check_name(name, registry, "parameter")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"parameter '{name}' must be a Parameter or None, got {class_name(param)}; "
                "wrap the array as lite.nn.Parameter(array)."
            )
        assignments[0] = object()
        registry[name] = param

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Register an array that is part of the module's state but not a parameter.

        Args:
            name: attribute name; an existing buffer may be registered again.
            tensor: an array, or None to reserve the name.
            persistent: whether the buffer is part of the state dict.

        Raises:
            TypeError: if `name` is not a string, or `tensor` is neither an array nor None.
            KeyError: if the name is empty, holds a dot or is taken by another attribute.

        Example:
            >>> import numpy as np
            >>> from lite import nn
            >>> m = nn.Module()
            >>> m.register_buffer("running_mean", np.zeros(3, dtype=np.float32))
            >>> m.running_mean
            array([0., 0., 0.], dtype=float32)
        """
        registry = self._registry("_buffers", "buffers")
        self._check_name(name, registry, "buffer")
        if tensor is not None and not is_buffer_value(tensor):
            raise TypeError(f"buffer '{name}' must be an array or None, got {class_name(tensor)}.")
        assignments[0] = object()
        registry[name] = np.asarray(tensor) if isinstance(tensor, np.generic) else tensor
        if persistent:
            self._non_persistent_buffers.discard(name)
        else:
            self._non_persistent_buffers.add(name)

    def _set_parameter(self, name: str, value: Parameter) -> None:
        """Replace the Parameter of an existing name."""
        assignments[0] = object()
        self._parameters[name] = value

    def _set_buffer(self, name: str, value: Any) -> None:
        """Replace the array of an existing buffer."""
        assignments[0] = object()
        self._buffers[name] = value

    def add_module(self, name: str, module: Any) -> None:
        """Register a child module under a name; None reserves the name.

        Raises:
            TypeError: if `name` is not a string, or `module` is neither a Module nor None.
            KeyError: if the name is empty, holds a dot or is taken by another attribute.
        """
        registry = self._registry("_modules", "modules")
        if module is not None and not isinstance(module, Registry):
            raise TypeError(f"child '{name}' must be a Module or None, got {class_name(module)}.")
        self._check_name(name, registry, "module")
        assignments[0] = object()
        registry[name] = module

    def register_module(self, name: str, module: Any) -> None:
        """Alias of `add_module`."""
        self.add_module(name, module)

    def _registry(self, attribute: str, kind: str) -> dict[str, Any]:
        try:
            registry: dict[str, Any] = self.__dict__[attribute]
        except KeyError:
            raise AttributeError(
                f"cannot assign {kind} before Module.__init__() call: "
                f"call super().__init__() first in {type(self).__name__}.__init__."
            ) from None
        return registry

    def _check_name(self, name: Any, registry: dict[str, Any], kind: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name must be a string, got {class_name(name)}.")
        if "." in name:
            raise KeyError(f'{kind} name cannot contain ".", got {name!r}.')
        if not name:
            raise KeyError(f'{kind} name cannot be the empty string "".')
        if name not in registry and hasattr(self, name):
            raise KeyError(f"{kind} name {name!r}: {type(self).__name__} already has such an attribute.")

    # -- registration by assignment ------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter):
            self._registry("_parameters", "parameters")
            self._forget(name, keep="_parameters")
            self.register_parameter(name, value)
            return
        state = self.__dict__
        if name in state.get("_parameters", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign {class_name(value)} as parameter '{name}': expected a Parameter or None. "
                    f"To change its values, write to {name}.data or {name}[...]."
                )
            assignments[0] = object()
            state["_parameters"][name] = None
        elif isinstance(value, Registry):
            modules = self._registry("_modules", "modules")
            self._forget(name, keep="_modules")
            modules[name] = value
        elif name in state.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign {class_name(value)} as child module '{name}': expected a Module or None."
                )
            assignments[0] = object()
            state["_modules"][name] = None
        elif name in state.get("_buffers", ()):
            if value is not None and not is_buffer_value(value) and not _is_of_a_step(value):
                more = " What takes part in a gradient is one as x.detach()." if is_interpreted(value) else ""
                raise TypeError(
                    f"cannot assign {class_name(value)} as buffer '{name}': expected an array or None.{more}"
                )
            assignments[0] = object()
            # NumPy converts 0-d results to scalars, but a buffer must be an array.
            state["_buffers"][name] = np.asarray(value) if isinstance(value, np.generic) else value
        else:
            if state.get(name) is not value:
                assignments[0] = object()
            object.__setattr__(self, name, value)

    def _forget(self, name: str, keep: str) -> None:
        """Remove `name` from all registries but the one that it is about to enter."""
        assignments[0] = object()
        self.__dict__.pop(name, None)
        for registry in _REGISTRIES:
            if registry != keep:
                self.__dict__[registry].pop(name, None)
        self._non_persistent_buffers.discard(name)

    def __getattr__(self, name: str) -> Any:
        # Reached only when normal lookup failed: registered names live in the registries.
        state = self.__dict__
        for registry in _REGISTRIES:
            entries = state.get(registry)
            if entries is not None and name in entries:
                return entries[name]
        if "_modules" not in state:
            raise AttributeError(f"{type(self).__name__}.__init__ must call super().__init__() first.")
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for registry in _REGISTRIES:
            if name in self.__dict__.get(registry, ()):
                assignments[0] = object()
                del self.__dict__[registry][name]
                self._non_persistent_buffers.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = set(super().__dir__())
        for registry in _REGISTRIES:
            names.update(self.__dict__.get(registry, ()))
        return sorted(name for name in names if not name[:1].isdigit())

    # -- walking the tree ------------------------------------------------------------------------

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """Iterate over (name, module): this module as "" first, then its descendants depth-first.

        A module reached twice is given once, unless `remove_duplicate` is false.

        Example:
            >>> from lite import nn
            >>> shared = nn.Linear(2, 2)
            >>> [name for name, _ in nn.Sequential(shared, shared).named_modules()]
            ['', '0']
        """
        seen: set[Any] = set() if memo is None else memo
        if self in seen:
            return
        if remove_duplicate:
            seen.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                inner = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(seen, inner, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Any]:
        """Iterate over this module and its descendants, each once unless `remove_duplicate` is false."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """Iterate over (name, module) of the direct children, each object once; None is left out."""
        seen: set[Any] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Any]:
        """Iterate over the direct children, each object once."""
        for _, module in self.named_children():
            yield module

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Iterate over (name, Parameter) in registration order, depth-first.

        A parameter that appears twice is given once, under its first name, unless
        `remove_duplicate` is false.
        """
        return self._named_members(lambda m: m._parameters, prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Iterate over the parameters."""
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """Iterate over (name, array) of the buffers, persistent or not."""
        return self._named_members(lambda m: m._buffers, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Any]:
        """Iterate over the buffers."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def _named_members(
        self, members_of: Callable[[Any], dict[str, Any]], prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        owners: Any = [(prefix, self)]
        if recurse:
            owners = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        seen: set[int] = set()
        for path, module in owners:
            for name, member in members_of(module).items():
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield (f"{path}.{name}" if path else name), member

    # -- access by dotted name -----------------------------------------------------------------

    def get_submodule(self, target: str) -> Any:
        """Return the descendant with this dotted name; "" is the module itself.

        Raises:
            AttributeError: if a part of the path is missing or is not a module.
        """
        module: Any = self
        for part in target.split(".") if target else ():
            module = _require_module(_member(module, part, target), part, target)
        return module

    def set_submodule(self, target: str, module: Any, strict: bool = False) -> None:
        """Put `module` at a dotted name.

        Args:
            target: the dotted name; all but the last part must exist.
            module: the new module.
            strict: only replace a child that exists, never create one.

        Raises:
            ValueError: if `target` is empty or `module` is not a Module.
            AttributeError: if the parent is missing, the name belongs to something that is not a
                module, or (with `strict`) there is nothing to replace.
        """
        if not target:
            raise ValueError("target must name a submodule, got ''.")
        if not isinstance(module, Registry):
            raise ValueError(f"module must be a Module, got {class_name(module)}.")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict or hasattr(parent, name):
            _require_module(_member(parent, name, target), name, target)
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter with this dotted name; AttributeError if there is none."""
        path, _, name = target.rpartition(".")
        value = _member(self.get_submodule(path), name, target)
        if not isinstance(value, Parameter):
            raise AttributeError(f"'{target}' is not a Parameter but {type(value).__name__}.")
        return value

    def get_buffer(self, target: str) -> Any:
        """Return the buffer with this dotted name; AttributeError if there is none."""
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        value = _member(owner, name, target)
        if name not in owner._buffers:
            raise AttributeError(f"'{target}' is not a buffer but {type(value).__name__}.")
        return value

    def apply(self, fn: Callable[[Any], Any]) -> Self:
        """Call `fn` on every descendant, children first, then on this module; returns self.

        Example:
            >>> from lite import nn
            >>> _ = nn.Sequential(nn.Identity(), nn.ReLU()).apply(lambda m: print(type(m).__name__))
            Identity
            ReLU
            Sequential
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self


def _member(module: Any, name: str, target: str) -> Any:
    """An attribute; AttributeError if the module on the way to `target` lacks it."""
    if not hasattr(module, name):
        raise AttributeError(f"{type(module).__name__} has no attribute '{name}' (of '{target}').")
    return getattr(module, name)


def _require_module(value: Any, name: str, target: str) -> Any:
    if not isinstance(value, Registry):
        raise AttributeError(f"'{name}' (of '{target}') is not a Module but {class_name(value)}.")
    return value
