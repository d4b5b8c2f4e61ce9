"""Wrappers: a callable on whole TensorDicts as a module, and a module around another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lite import NestedKey
from lite._arrays.public import belong_to
from lite._tree.collection import TensorCollection
from lite.nn.tensordict_modules.base import TensorDictModuleBase
from lite.nn.tensordict_modules.sendable import packed, unpacked


class WrapModule(TensorDictModuleBase):
    """A module around a callable from TensorDict to TensorDict, for use in a TensorDictSequential.

    Args:
        func: the callable.
        inplace: write what `func` returns into the input and return the input.
        in_keys: keys of the inputs of `func`; informs the TensorDictSequential, not checked.
        out_keys: keys of the outputs of `func`; informs the TensorDictSequential, not checked.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.nn import WrapModule
        >>> td = TensorDict(a=np.zeros((2, 3)), batch_size=[2, 3])
        >>> WrapModule(lambda td: td.reshape(-1))(td).batch_size
        (6,)
    """

    in_keys = []  # noqa: RUF012 - read by __init_subclass__, copied for each instance
    out_keys = []  # noqa: RUF012

    def __init__(
        self,
        func: Callable[[Any], Any],
        *,
        inplace: bool = False,
        in_keys: list[NestedKey] | None = None,
        out_keys: list[NestedKey] | None = None,
    ) -> None:
        super().__init__()
        self.func = func
        self.inplace = inplace
        if in_keys is not None:
            self.in_keys = in_keys
        if out_keys is not None:
            self.out_keys = out_keys

    def __getstate__(self) -> dict[str, Any]:
        return packed(self.__dict__, "func")

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(unpacked(state, "func"))

    def forward(self, tensordict: Any) -> Any:
        """Call `func`."""
        result = self.func(tensordict)
        if self.inplace and result is not tensordict:
            return tensordict.update(result)
        return result


class TensorDictModuleWrapper(TensorDictModuleBase):
    """Behaves as the wrapped module, except for attributes that a subclass overrides.

    Calls, keys and attributes go to the wrapped module, whose forward hooks are copied at
    construction.

    Args:
        td_module: the module to wrap.

    Example:
        >>> from lite import TensorDict
        >>> from lite.nn import TensorDictModule, TensorDictModuleWrapper
        >>> wrapper = TensorDictModuleWrapper(TensorDictModule(lambda x: x + 1, ["a"], ["b"]))
        >>> wrapper.out_keys, int(wrapper(TensorDict(a=1))["b"])
        (['b'], 2)
    """

    def __init__(self, td_module: TensorDictModuleBase) -> None:
        super().__init__()
        self.td_module = td_module
        self._forward_hooks.update(td_module._forward_hooks)
        self._hooked.update(td_module._hooked)

    @property
    def in_keys(self) -> list[NestedKey]:
        """Keys that the wrapped module reads."""
        return self._wrapped.in_keys

    @in_keys.setter
    def in_keys(self, keys: list[NestedKey]) -> None:
        self._wrapped.in_keys = keys

    @property
    def out_keys(self) -> list[NestedKey]:
        """Keys that the wrapped module writes, or those selected here."""
        apparent: list[NestedKey] | None = self.__dict__.get("_out_keys_apparent")
        return self._wrapped.out_keys if apparent is None else apparent

    @out_keys.setter
    def out_keys(self, keys: list[NestedKey]) -> None:
        self._wrapped.out_keys = keys
        self.__dict__.pop("_out_keys_apparent", None)

    @property
    def out_keys_source(self) -> list[NestedKey]:
        """All keys that the wrapped module writes."""
        return self._wrapped.out_keys_source

    @property
    def _wrapped(self) -> TensorDictModuleBase:
        return self.__dict__["_modules"]["td_module"]

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("__") or "td_module" not in self.__dict__.get("_modules", {}):
                raise
        return getattr(self._wrapped, name)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the wrapped module, with a TensorDict or with arrays."""
        out = self._wrapped(*args, **kwargs)
        return self._narrowed(out, args, kwargs)

    def _narrowed(self, out: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The values selected here, when the wrapped module was called with arrays."""
        if "_out_keys_apparent" not in self.__dict__ or _has_tensordict(args, kwargs):
            return out
        written = [key for key in self._wrapped.out_keys if key != "_"]
        values = dict(zip(written, (out,) if len(written) == 1 else out, strict=True))
        chosen = tuple(values[key] for key in self.out_keys if key != "_")
        return chosen[0] if len(chosen) == 1 else chosen


def _has_tensordict(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return isinstance(args[0] if args else kwargs.get("tensordict"), TensorCollection)


belong_to("lite.nn", TensorDictModuleWrapper, WrapModule)
