"""Walking the tree of modules: parameters, buffers and children by dotted name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

from lite.nn._modules.parameter import Parameter
from lite.nn._modules.registry import Registry

if TYPE_CHECKING:
    from lite.nn._modules.module import Module


class Traversal(Registry):
    """Iterators and access by dotted name; `Module` is the public face."""

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
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
        yield prefix, self  # type: ignore[misc]
        for name, module in self._modules.items():
            if module is not None:
                inner = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(seen, inner, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Iterate over this module and its descendants, each once unless `remove_duplicate` is false."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Iterate over (name, module) of the direct children, each object once; None is left out."""
        seen: set[Any] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
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

    def get_submodule(self, target: str) -> Module:
        """Return the descendant with this dotted name; "" is the module itself.

        Raises:
            AttributeError: if a part of the path is missing or is not a module.
        """
        module: Any = self
        if not target:
            return self  # type: ignore[return-value]
        for part in target.split("."):
            if not hasattr(module, part):
                raise AttributeError(f"{type(module).__name__} has no attribute '{part}' (of '{target}').")
            module = getattr(module, part)
            if not isinstance(module, Registry):
                raise AttributeError(f"'{part}' (of '{target}') is not a Module but {type(module).__name__}.")
        found: Module = module
        return found

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put `module` at a dotted name.

        Args:
            target: where; all but the last part must exist.
            module: the new module.
            strict: only replace a child that exists, never create one.

        Raises:
            ValueError: if `target` is empty or `module` is not a Module.
            AttributeError: if the parent is missing, the place holds something that is not a
                module, or (with `strict`) there is nothing to replace.
        """
        if not target:
            raise ValueError("target must name a submodule, got ''.")
        if not isinstance(module, Registry):
            raise ValueError(f"module must be a Module, got {type(module).__name__}.")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(
                f"{type(parent).__name__} has no attribute '{name}' to replace (of '{target}')."
            )
        current = getattr(parent, name, None)
        if hasattr(parent, name) and not isinstance(current, Registry):
            raise AttributeError(f"'{name}' (of '{target}') is not a Module but {type(current).__name__}.")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter with this dotted name; AttributeError if there is none."""
        value = self._get_member(target)
        if not isinstance(value, Parameter):
            raise AttributeError(f"'{target}' is not a Parameter but {type(value).__name__}.")
        return value

    def get_buffer(self, target: str) -> Any:
        """Return the buffer with this dotted name; AttributeError if there is none."""
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        value = self._get_member(target)
        if name not in owner._buffers:
            raise AttributeError(f"'{target}' is not a buffer but {type(value).__name__}.")
        return value

    def _get_member(self, target: str) -> Any:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise AttributeError(f"{type(owner).__name__} has no attribute '{name}' (of '{target}').")
        return getattr(owner, name)

    def apply(self, fn: Callable[[Module], Any]) -> Self:
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
        fn(self)  # type: ignore[arg-type]
        return self
