"""TensorDictParams: a TensorDict of parameters that is a Module.

It is a TensorDict that shares its content (`_data`, batch size, device, names) with a wrapped TensorDict, so
every method of TensorDict works on it. It is also a Module, whose registries are computed from that content.
Results of operations are plain TensorDicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, Self

import numpy as np

from lite import NestedKey, TensorDict
from lite._arrays.public import belong_to
from lite._arrays.types import Path
from lite._containers import assignment
from lite._tree.collection import TensorCollection
from lite._tree.lock import LOCK_ERROR
from lite._tree.protocol import MISSING
from lite.nn._modules.module import Module
from lite.nn._modules.parameter import Parameter
from lite.nn._parameters.tree import (
    ParamsState,
    as_parameter,
    convert_node,
    kept,
    nodes,
    refuse_lazy,
    replace_arrays,
    with_parameters_of,
)

_Hook = Callable[[Any, Any], Any]


def _of_inner(name: str) -> Any:
    """An attribute that is read from and written to the wrapped TensorDict."""

    def get(self: TensorDictParams) -> Any:
        return getattr(self.__dict__["_param_td"], name)

    def set(self: TensorDictParams, value: Any) -> None:
        setattr(self.__dict__["_param_td"], name, value)

    return property(get, set)


class TensorDictParams(ParamsState, TensorDict, Module):
    """A TensorDict whose floating entries are Parameters, to be a child of a Module.

    The TensorDict is wrapped, not copied; its floating arrays become `Parameter`s. As a child of a module,
    its entries appear in the module's `named_parameters`, `named_buffers` and state dict under their dotted
    keys. Arrays that are set later become Parameters too. Methods such as `apply`, `expand` or indexing
    return plain TensorDicts; `clone`, `copy` and `to` return TensorDictParams.

    Args:
        parameters: a TensorDict or a mapping.
        no_convert: True keeps existing Parameters and converts no arrays, which are buffers then. "skip"
            means the same, for compatibility.
        lock: lock the wrapped TensorDict. It can still be written through the TensorDictParams, which has
            a lock of its own (`lock_`).
        kwargs: entries, instead of `parameters`.

    Raises:
        TypeError: both `parameters` and entries as keywords.
        RuntimeError: a lazy stack, which holds no single array per entry.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> params = nn.TensorDictParams(TensorDict({"layer": {"weight": np.ones(3, np.float32)}}))
        >>> params["layer", "bias"] = np.zeros(1, np.float32)
        >>> [name for name, _ in params.named_parameters()]
        ['layer.weight', 'layer.bias']
    """

    def __init__(
        self, parameters: Any = None, *, no_convert: bool | str = False, lock: bool = False, **kwargs: Any
    ) -> None:
        if parameters is not None and kwargs:
            raise TypeError(f"parameters exclude entries as keywords, got {sorted(kwargs)}.")
        source = kwargs if parameters is None else parameters
        if isinstance(source, TensorDictParams):
            inner, no_convert = source._param_td.copy(), "skip"
        else:
            inner = self._as_node(source) if isinstance(source, TensorCollection) else TensorDict(source)
            if inner is None:
                raise TypeError(f"parameters must be a TensorDict or a mapping, got {type(source).__name__}.")
        refuse_lazy(inner)
        self._set_up(inner, no_convert)
        self._convert_all()
        if lock:
            inner.lock_()

    def _set_up(self, inner: TensorDict, no_convert: bool | str) -> None:
        Module.__init__(self)
        state = self.__dict__
        state["_param_td"] = inner
        state["no_convert"] = no_convert
        state["_get_hooks"] = []
        self._locked = False
        self._lock_parents = ()

    # -- content: that of the wrapped TensorDict ------------------------------------------------

    _data = _of_inner("_data")
    _batch_size = _of_inner("_batch_size")
    _device = _of_inner("_device")
    _names = _of_inner("_names")

    @classmethod
    def _make(cls, *args: Any, **kwargs: Any) -> Any:
        """Results of operations are plain TensorDicts."""
        return TensorDict._make(*args, **kwargs)

    def _with(self, entries: dict[str, Any]) -> Any:
        return self._param_td._with(entries)

    # -- writing: through the lock of the wrapped TensorDict, as Parameters ----------------------

    _converts = True

    def _lock_children(self) -> list[Any]:
        # The wrapped TensorDict is unlocked with self unless other code has locked it.
        inner = self._param_td
        mine = not inner._locked or any(ref() is self for ref in inner._lock_parents)
        return [inner] if mine else []

    def _save(self) -> Any:
        return (self._locked, self._lock_parents), [(node, node._save()) for node in nodes(self._param_td)]

    def _reset(self, saved: Any) -> None:
        (self._locked, self._lock_parents), content = saved
        for node, entries in content:
            node._reset(entries)

    @contextmanager
    def _open(self) -> Iterator[None]:
        """Context manager: unlocks the wrapped TensorDict, and converts new entries at the end."""
        inner = self._param_td
        locked = inner.is_locked
        if locked:
            inner.unlock_()
        try:
            yield
        finally:
            self._convert_all()
            if locked:
                inner.lock_()

    def _convert_all(self) -> None:
        if not self.no_convert:
            convert_node(self._param_td)

    def _put(self, key: str, entry: Any) -> None:
        if not self.no_convert:
            if isinstance(entry, TensorCollection):
                node = self._as_node(entry)
                if node is not None:
                    entry = self._rewrap(entry, node._clone(False))
                    convert_node(self._as_node(entry))
            else:
                entry = as_parameter(entry)
        self._param_td._put(key, entry)

    def _set_here(self, key: str, item: Any, inplace: bool, *writes: Any) -> None:
        # Overrides the method of TensorDict, which stores valid leaves without conversion.
        assignment.set_here(self, key, item, inplace, *writes)

    def _set_path(self, path: Path, item: Any, inplace: bool, *writes: Any) -> None:
        if len(path) == 1:
            self._set_here(path[0], item, inplace, *writes)
            return
        if self._locked and not inplace:
            raise RuntimeError(LOCK_ERROR)
        with self._open():
            super()._set_path(path, item, inplace, *writes)

    def del_(self, key: NestedKey) -> Self:
        """Remove an entry; KeyError if it is missing, RuntimeError if self is locked."""
        if self._locked:
            raise RuntimeError(LOCK_ERROR)
        with self._open():
            return super().del_(key)

    def update(self, *args: Any, **kwargs: Any) -> Self:
        """As `TensorDict.update`; floating arrays become Parameters."""
        if self._locked:
            raise RuntimeError(LOCK_ERROR)
        with self._open():
            return super().update(*args, **kwargs)

    def _update(self, *args: Any) -> None:
        with self._open():
            super()._update(*args)

    def _set_index(self, index: Any, value: Any, *writes: Any) -> None:
        self.data._set_index(index, value, *writes)

    # -- reading ---------------------------------------------------------------------------------

    def register_get_post_hook(self, hook: _Hook) -> None:
        """Run `hook(self, leaf)` on every array read by `get`, `[]`, `items` and `values`.

        Args:
            hook: its result is read instead of the leaf, unless it is None.

        Raises:
            ValueError: `hook` is not callable.

        Example:
            >>> import numpy as np
            >>> from lite.nn import TensorDictParams
            >>> params = TensorDictParams({"a": np.ones(2, np.float32)})
            >>> params.register_get_post_hook(lambda self, leaf: leaf * 2)
            >>> params["a"]
            array([2., 2.], dtype=float32)
        """
        if not callable(hook):
            raise ValueError(f"hook must be callable, got {type(hook).__name__}.")
        self._get_hooks.append(hook)

    def _read(self, value: Any) -> Any:
        if self._get_hooks and not isinstance(value, TensorCollection):
            for hook in self._get_hooks:
                changed = hook(self, value)
                value = value if changed is None else changed
        return value

    def __getitem__(self, index: Any) -> Any:
        value = super().__getitem__(index)
        return self._read(value)

    def get(self, key: NestedKey, default: Any = MISSING, **lazy_kwargs: Any) -> Any:
        """Return the live entry at `key` (a Parameter or a buffer), after the get hooks."""
        found = super().get(key, MISSING, **lazy_kwargs) if key in self else None
        return super().get(key, default, **lazy_kwargs) if found is None else self._read(found)

    def items(self, *args: Any, **kwargs: Any) -> Iterator[tuple[Any, Any]]:
        """Iterate over (key, entry), entries after the get hooks; see `TensorDict.items`."""
        return ((key, self._read(value)) for key, value in super().items(*args, **kwargs))

    def values(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Iterate over entries; see `TensorDict.values`."""
        return (entry for _, entry in self.items(*args, **kwargs))

    # -- copies ----------------------------------------------------------------------------------

    def _wrapping(self, inner: TensorDict) -> Self:
        out: Self = object.__new__(type(self))
        out._set_up(inner, self.no_convert)
        out.training = self.training
        out._get_hooks.extend(self._get_hooks)
        return out

    def _clone(self, recurse: bool) -> Self:
        """Copy. A deep copy keeps Parameters, their `requires_grad`, and tied entries."""
        return self._wrapping(kept(self._param_td, np.copy, {}) if recurse else self._param_td._clone(False))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        out = memo[id(self)] = self._wrapping(kept(self._param_td, np.copy, memo))
        return out

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """As `TensorDict.to`; Parameters stay Parameters."""
        moved = self._param_td.to(*args, **kwargs)
        if moved is self._param_td:
            return self
        return self._wrapping(with_parameters_of(moved, self._param_td))

    cuda = TensorDict.cuda  # the Module's raises

    # -- the Module ------------------------------------------------------------------------------

    __hash__ = object.__hash__  # type: ignore[assignment]

    @property
    def _parameters(self) -> dict[str, Parameter | None]:  # type: ignore[override]
        return {name: leaf for name, _, leaf in self._named_leaves() if isinstance(leaf, Parameter)}

    @property
    def _buffers(self) -> dict[str, Any]:  # type: ignore[override]
        return {name: leaf for name, _, leaf in self._named_leaves() if not isinstance(leaf, Parameter)}

    def _registry(self, attribute: str, kind: str) -> NoReturn:
        raise RuntimeError(f"a TensorDictParams has no {kind} beside its entries: use params[name] = value.")

    def __getattr__(self, name: str) -> Any:
        # Protocols look up names with an underscore, and must not find an entry.
        inner = self.__dict__.get("_param_td")
        if inner is None or name.startswith("_") or name not in inner._keys():
            return super().__getattr__(name)
        entry = inner[name]
        node = self._as_node(entry)
        if node is None:
            return entry
        child = self._wrapping(node)
        return child.lock_() if self._locked else child

    def __setattr__(self, name: str, value: Any) -> None:
        state = self.__dict__
        hidden = not name.startswith("_") and "_param_td" in state and name in state["_param_td"]._keys()
        if hidden and name not in state and not hasattr(type(self), name):
            raise TypeError(
                f"cannot assign {type(value).__name__} as entry {name!r} of a TensorDictParams: "
                f"use params[{name!r}] = value."
            )
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *map(str, self._param_td.keys())})

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Self:
        """Replace every array, called by the parent module; Parameter objects stay the same."""
        replace_arrays(self._param_td, fn)
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set `requires_grad` of all Parameters; returns self."""
        return Module.requires_grad_(self, requires_grad)

    def zero_grad(self, set_to_none: bool = True) -> Self:  # type: ignore[override]
        """Remove the gradients of all Parameters, or set them to zeros in place; returns self."""
        Module.zero_grad(self, set_to_none)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError("a TensorDictParams holds parameters; it cannot be called.")

    def map(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises RuntimeError: processes would not share the Parameters."""
        raise RuntimeError("map is not available for a TensorDictParams: call it on params.data.")

    def memmap_(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises RuntimeError: Parameters stay in memory."""
        raise RuntimeError("memmap_ is not available for a TensorDictParams: call it on params.data.")

    def __repr__(self) -> str:
        return f"TensorDictParams(params={self._param_td!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_locked": self._locked}

    def __setstate__(self, state: dict[str, Any]) -> None:
        locked = state.pop("_locked")
        self.__dict__.update(state)
        self._locked = False
        self._lock_parents = ()
        if locked:
            self.lock_()


def _on_data(name: str) -> Any:
    method = getattr(TensorDict, name)

    def on_data(self: Any, *args: Any, **kwargs: Any) -> Any:
        method(self.data, *args, **kwargs)
        return self

    on_data.__name__ = name
    on_data.__doc__ = f"As `TensorDict.{name}`, on the arrays of the Parameters, which stay Parameters."
    return on_data


for _name in ("apply_", "copy_", "fill_", "set_", "set_at_", "update_", "update_at_", "zero_"):
    setattr(TensorDictParams, _name, _on_data(_name))


belong_to("lite.nn", TensorDictParams)
