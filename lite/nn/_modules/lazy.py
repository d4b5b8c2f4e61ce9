"""Lazy modules, which infer their sizes from the arguments of the first call."""

from __future__ import annotations

import itertools
import threading
from typing import Any, ClassVar

from lite._arrays.public import belong_to
from lite.nn._modules.initial import is_uninitialized
from lite.nn._modules.module import Module

_turn = threading.RLock()  # two threads may call a module for the first time


class LazyModuleMixin(Module):
    """Makes a module initialise its parameters from the arguments of its first call.

    The mixin must precede the module's class in the list of bases. The module registers
    `UninitializedParameter` and `UninitializedBuffer` objects, and defines `initialize_parameters`, which is
    called with the arguments of the first call, before all hooks. Afterwards the class of the module is
    `cls_to_become`, if given. Loading a state dict with the arrays also initialises them.

    Raises:
        RuntimeError: a parameter or buffer is uninitialised after `initialize_parameters`.

    Source:
        torch.nn.modules.lazy.LazyModuleMixin.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> class Scale(nn.LazyModuleMixin, nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.factor = nn.UninitializedParameter()
        ...
        ...     def initialize_parameters(self, x):
        ...         self.factor.materialize(x.shape[-1:])
        ...         self.factor[...] = 2
        ...
        ...     def forward(self, x):
        ...         return x * self.factor
        >>> Scale()(np.ones((1, 3), np.float32))
        array([[2., 2., 2.]], dtype=float32)
    """

    cls_to_become: ClassVar[type[Module] | None] = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give parameters and buffers their shapes and values; subclasses define it."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}.")

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer of this module, without its children's, has no shape yet."""
        return any(map(is_uninitialized, itertools.chain(self._parameters.values(), self._buffers.values())))

    def _infer_parameters(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        hooks = module._forward_pre_hooks
        with _turn:
            own = [number for number, entry in hooks.items() if entry.fn == self._infer_parameters]
            if not own:
                return  # another thread was first
            module.initialize_parameters(*args, **kwargs)
            if module.has_uninitialized_params():
                raise RuntimeError(f"module {type(module).__name__} has not been fully initialized.")
            for number in own:
                del hooks[number]
            if module.cls_to_become is not None:
                module.__class__ = module.cls_to_become


# The lazy layer of a layer, where that is defined.
lazy_forms: dict[Any, type[Module]] = {}


class LazyLayer(LazyModuleMixin):
    """Base of the lazy layers: one size, inferred from the first input, determines all shapes."""

    _size_name: ClassVar[str]
    _rng: Any = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.cls_to_become is not None:
            lazy_forms.setdefault(cls.cls_to_become, cls)

    def _size_of(self, input: Any) -> int:
        """The size inferred from an input, unless overridden its last one; raises if it does not fit."""
        if not input.shape:
            raise RuntimeError("the input must have at least one dimension, got ().")
        return int(input.shape[-1])

    def _shapes(self, size: int) -> dict[str, tuple[int, ...]]:
        """The shapes of all parameters and buffers that depend on the size."""
        raise NotImplementedError

    def _known_size(self) -> int | None:
        """The size inferred from loaded arrays."""
        raise NotImplementedError

    def initialize_parameters(self, input: Any) -> None:
        """Infer the size from the input and draw initial values, or infer it from loaded arrays."""
        if not self.has_uninitialized_params():
            if not getattr(self, self._size_name):
                known = self._known_size()
                setattr(self, self._size_name, self._size_of(input) if known is None else known)
            return
        size = self._size_of(input)
        shapes = {
            name: shape for name, shape in self._shapes(size).items() if getattr(self, name) is not None
        }
        loaded = [name for name in shapes if not is_uninitialized(getattr(self, name))]
        if loaded:
            raise RuntimeError(f"of a {type(self).__name__} {loaded} were loaded alone: load all or none.")
        setattr(self, self._size_name, size)
        for name, shape in shapes.items():
            if name in self._parameters:
                self.__dict__["_parameters"][name].materialize(shape)
            else:
                self._set_buffer(name, self._buffers[name].materialize(shape))
        rng, self._rng = self._rng, None
        if rng is None:
            self.reset_parameters()
        else:
            self.reset_parameters(rng)

    def reset_parameters(self, *args: Any) -> None:
        """`reset_parameters` of the layer; does nothing while parameters are uninitialised."""
        if not self.has_uninitialized_params():
            super().reset_parameters(*args)  # type: ignore[misc]  # of the layer, the next base


belong_to("lite.nn", LazyModuleMixin)
