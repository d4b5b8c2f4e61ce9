"""TensorDictModuleBase: a module that declares the entries that it reads and writes."""

from __future__ import annotations

from collections.abc import Iterable, MutableSequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from lite import NestedKey, unravel_key_list
from lite._arrays.caller import warn
from lite._arrays.public import belong_to
from lite._tree.collection import TensorCollection
from lite._tree.protocol import MISSING
from lite.nn._modules.hooks import call_with_hooks
from lite.nn._modules.module import Module, indented

_KEY_LISTS = ("in_keys", "out_keys")


class TensorDictModuleBase(Module):
    """Base of modules that map a TensorDict to a TensorDict, with `in_keys` and `out_keys`.

    Subclasses list the keys in the class body or assign them to the instance, and define
    `forward(tensordict)`. Keys are flattened when assigned: `("a", ("b",))` becomes `("a", "b")`.

    Example:
        >>> from lite import TensorDict
        >>> from lite.nn import TensorDictModuleBase
        >>> class AddOne(TensorDictModuleBase):
        ...     in_keys = ["a"]
        ...     out_keys = ["b"]
        ...
        ...     def forward(self, tensordict):
        ...         return tensordict.set("b", tensordict["a"] + 1)
        >>> int(AddOne()(TensorDict(a=1))["b"])
        2
    """

    # The error for selecting keys of which the module does not write all.
    _selection_error: ClassVar[type[Exception]] = RuntimeError

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in _KEY_LISTS:
            keys = cls.__dict__.get(name)
            if isinstance(keys, MutableSequence | tuple):
                # Moved aside, so that the property of the base is found and instances can override.
                setattr(cls, f"_class_{name}", unravel_key_list(list(keys)))
                setattr(cls, name, TensorDictModuleBase.__dict__[name])

    if TYPE_CHECKING:  # which refuses a list in the class body for a property
        in_keys: list[NestedKey]
        out_keys: list[NestedKey]
    else:

        @property
        def in_keys(self) -> list[NestedKey]:
            """Keys that the module reads; assignable, also before `super().__init__()`."""
            keys: list[NestedKey] | None = self.__dict__.get("_in_keys")
            return self._class_keys("in_keys") if keys is None else keys

        @in_keys.setter
        def in_keys(self, keys: list[NestedKey]) -> None:
            self.__dict__["_in_keys"] = _flat(keys, "in_keys")

        @property
        def out_keys(self) -> list[NestedKey]:
            """Keys that the module writes, or the selected ones; assigning drops a selection."""
            state = self.__dict__
            keys: list[NestedKey] | None = state.get("_out_keys_apparent", state.get("_out_keys"))
            return self._class_keys("out_keys") if keys is None else keys

        @out_keys.setter
        def out_keys(self, keys: list[NestedKey]) -> None:
            self.__dict__["_out_keys"] = _flat(keys, "out_keys")
            self.__dict__.pop("_out_keys_apparent", None)

    @property
    def out_keys_source(self) -> list[NestedKey]:
        """All keys that the module writes, independent of `select_out_keys`."""
        keys: list[NestedKey] | None = self.__dict__.get("_out_keys")
        return self._class_keys("out_keys") if keys is None else keys

    def _class_keys(self, name: str) -> list[NestedKey]:
        """The keys of the class body, copied for this instance."""
        default = getattr(type(self), f"_class_{name}", None)
        if default is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        keys: list[NestedKey] = list(default)
        self.__dict__[f"_{name}"] = keys
        return keys

    @staticmethod
    def is_tdmodule_compatible(module: Any) -> bool:
        """Tell whether an object has `in_keys` and `out_keys`."""
        return hasattr(module, "in_keys") and hasattr(module, "out_keys")

    def _entry(self, tensordict: Any, key: NestedKey) -> Any:
        """An entry that the module needs; KeyError if it is missing."""
        entry = tensordict.get(key, None)
        if entry is None:
            raise KeyError(f"{type(self).__name__} reads the entry {key!r}, which the TensorDict lacks.")
        return entry

    @property
    def __name__(self) -> str:  # functools.wraps and the like expect it of a callable
        return type(self).__qualname__.rpartition(".")[2]

    def __call__(self, tensordict: Any = MISSING, /, *args: Any, **kwargs: Any) -> Any:
        state = self.__dict__
        if not (args or kwargs or tensordict is MISSING or state["_hooked"]):
            return self.forward(tensordict)  # 0.03 us less than with arguments of any number
        if tensordict is not MISSING:
            args = (tensordict, *args)
        if state["_forward_hooks"] or state["_forward_pre_hooks"]:
            return call_with_hooks(self, self._forward_selected, args, kwargs)
        if "_out_keys_apparent" in state:
            return self._forward_selected(*args, **kwargs)
        return self.forward(*args, **kwargs) if kwargs else self.forward(*args)  # without, in half the time

    # -- selection of outputs ------------------------------------------------------------------

    def _forward_selected(self, *args: Any, **kwargs: Any) -> Any:
        return self._selected(self.forward(*args, **kwargs), args, kwargs)

    def _selected(self, out: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Drop from a result everything but in_keys and the selected out_keys, in place."""
        given = args[0] if args else kwargs.get("tensordict")
        # A dispatched call was given arrays, and returns the selected values already.
        both = isinstance(given, TensorCollection) and isinstance(out, TensorCollection)
        state = self.__dict__
        selected = state.get("_out_keys_apparent")
        if selected is None or not both:
            return out
        return out.select(*(state.get("_in_keys") or self.in_keys), *selected, inplace=True, strict=False)

    def select_out_keys(self, *out_keys: Any) -> Self:
        """Keep only some outputs; returns self.

        After each call the returned TensorDict is cut down in place to `in_keys` and the selected
        `out_keys`; a call with arrays returns the selected values only. Selecting again can only
        narrow the choice.

        Raises:
            ValueError: if the only key given is not one of `out_keys`.
            RuntimeError: if one of several keys is not (ValueError for a TensorDictSequential).

        Example:
            >>> from lite import TensorDict
            >>> from lite.nn import TensorDictModule
            >>> mod = TensorDictModule(lambda x: (x + 1, x + 2), in_keys=["a"], out_keys=["b", "c"])
            >>> sorted(mod.select_out_keys("c")(TensorDict(a=0)).keys())
            ['a', 'c']
        """
        selection = self._checked_selection(out_keys)
        before = self.__dict__.get("_out_keys_apparent")
        self.__dict__["_out_keys_apparent"] = selection
        self._hooked[0] = True
        if self.out_keys != selection:
            self.__dict__["_out_keys_apparent"] = before
            raise RuntimeError(
                f"{type(self).__name__} does not support select_out_keys, as it overrides out_keys."
            )
        return self

    def _checked_selection(self, keys: tuple[Any, ...]) -> list[NestedKey]:
        current = self.out_keys
        if len(keys) == 1 and (isinstance(keys[0], list) or keys[0] not in current):
            listed = isinstance(keys[0], list | tuple) and any(key in current for key in keys[0])
            hint = " Pass the keys one by one: select_out_keys(*keys)." if listed else ""
            selection = [] if isinstance(keys[0], list) else unravel_key_list(list(keys))
            if not selection or selection[0] not in current:
                raise ValueError(f"Can't select non existent key: {keys[0]!r}; out_keys={current}.{hint}")
            return selection
        selection = unravel_key_list(list(keys))
        unknown = [key for key in selection if key not in current]
        if unknown:
            raise self._selection_error(f"Some keys are not part of out_keys={current}: {unknown}.")
        return selection

    def reset_out_keys(self) -> Self:
        """Drop all selections; returns self."""
        self.__dict__.pop("_out_keys_apparent", None)
        return self

    # -- parameters ----------------------------------------------------------------------------

    def reset_parameters_recursive(
        self, parameters: Any = None, *, rng: np.random.Generator | int | None = None
    ) -> Any:
        """Call `reset_parameters()` of every descendant that has it, children first.

        Args:
            parameters: a TensorDict of parameters, by the module's names, to re-initialise in place
                of the module's own, which then stay as they are.
            rng: generator or seed, passed to every `reset_parameters`.

        Returns:
            None, or a TensorDict of the arrays of `parameters`, which hold the new values.

        Raises:
            RuntimeError: if `parameters` has batch dimensions.

        Example:
            >>> from lite import nn
            >>> mod = nn.TensorDictModule(nn.Linear(2, 3), in_keys=["a"], out_keys=["b"])
            >>> old = mod.module.weight.data.copy()
            >>> mod.reset_parameters_recursive()
            >>> bool((old == mod.module.weight).any())
            False
        """
        generator = None if rng is None else np.random.default_rng(rng)
        if parameters is None:
            if not _reset(self, generator):
                warn("reset_parameters_recursive found no module with reset_parameters().")
            return None
        if parameters.batch_size:
            raise RuntimeError(
                f"parameters must have an empty batch size, got {tuple(parameters.batch_size)}: "
                "reset one set of parameters at a time."
            )
        with parameters.to_module(self):
            _reset(self, generator)
        return parameters.clone(recurse=False)

    def reset_parameters(self, parameters: Any = None, *, rng: Any = None) -> Any:
        """Alias of `reset_parameters_recursive`."""
        return self.reset_parameters_recursive(parameters, rng=rng)

    def __repr__(self) -> str:
        entries = [f"{name}={child!r}" for name, child in self.named_children()]
        payload = self.__dict__.get("module")
        if payload is not None:
            entries.insert(0, f"module={payload}")
        entries += [f"in_keys={self.in_keys}", f"out_keys={self.out_keys}"]
        body = indented(",\n".join(entries), 4)
        return f"{type(self).__name__}(\n    {body})"


def _flat(keys: Any, name: str) -> list[NestedKey]:
    if isinstance(keys, str) or not isinstance(keys, Iterable):
        raise TypeError(f"{name} must be a list of keys, got {keys!r}.")
    return unravel_key_list(list(keys))


def _reset(module: Module, rng: np.random.Generator | None) -> bool:
    found = False
    for child in module.children():
        found |= _reset(child, rng)
        reset = getattr(child, "reset_parameters", None)
        # The alias of a nested TensorDict module would reset its children a second time.
        own = getattr(type(child), "reset_parameters", None)
        if reset is not None and own is not TensorDictModuleBase.reset_parameters:
            reset() if rng is None else reset(rng)
            found = True
    return found


belong_to("lite.nn", TensorDictModuleBase)
