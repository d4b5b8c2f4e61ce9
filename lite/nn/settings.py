"""The settings of TensorDict modules: how samples are taken, whether outputs that exist are computed again,
and whether modules take arrays in place of a TensorDict.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any

from lite._arrays.public import belong_to
from lite._arrays.settings import Scoped, Setting


class InteractionType(StrEnum):
    """The value that a probabilistic module takes from its distribution.

    MODE, MEDIAN and MEAN are the properties of these names (the mean may be estimated from samples), RANDOM
    draws a sample. DETERMINISTIC takes `deterministic_sample` of the distribution; if it has none, the mean
    or the mode.

    Example:
        >>> from lite.nn import InteractionType
        >>> InteractionType("Mode"), InteractionType.from_str("RANDOM")
        (<InteractionType.MODE: 'mode'>, <InteractionType.RANDOM: 'random'>)
    """

    MODE = "mode"
    MEDIAN = "median"
    MEAN = "mean"
    RANDOM = "random"
    DETERMINISTIC = "deterministic"

    @classmethod
    def from_str(cls, type_str: str) -> InteractionType:
        """The type of this name, in any case.

        Raises:
            ValueError: the name is unknown.
        """
        return cls(type_str)

    @classmethod
    def _missing_(cls, value: object) -> InteractionType | None:
        if isinstance(value, str) and value != value.lower():
            return cls(value.lower())
        return None


_interaction: Setting[InteractionType | None] = Setting("lite.nn.interaction_type", None)


def interaction_type() -> InteractionType | None:
    """The interaction type that holds here; None leaves the choice to each module."""
    return _interaction.get()


class set_interaction_type(Scoped[InteractionType | None]):
    """Choose how all probabilistic modules take samples, in a `with` statement or a decorated function.

    Args:
        type: an `InteractionType`, its name in any case, or None for the default of each module.
        thread_local: accepted for compatibility; it holds for the running thread in any case.

    Raises:
        ValueError: the type is unknown.

    Example:
        >>> from lite.nn import interaction_type, set_interaction_type
        >>> with set_interaction_type("random"):
        ...     interaction_type()
        <InteractionType.RANDOM: 'random'>
        >>> interaction_type() is None
        True
    """

    _setting = _interaction

    def __init__(
        self,
        type: InteractionType | str | None = InteractionType.DETERMINISTIC,
        *,
        thread_local: bool = False,
    ) -> None:
        super().__init__(None if type is None else InteractionType(type))


SKIP_EXISTING: Setting[bool] = Setting("lite.nn.skip_existing", False)


def skip_existing() -> bool:
    """Tell whether modules leave a TensorDict alone that already has their outputs (False by default)."""
    return SKIP_EXISTING.get()


def all_present(tensordict: Any, in_keys: Iterable[Any], out_keys: Iterable[Any]) -> bool:
    """The rule: every output (but the sink "_") is present, and none of them is also an input."""
    inputs = set(in_keys)
    return all(key == "_" or (key not in inputs and key in tensordict) for key in out_keys)


class set_skip_existing(Scoped[bool | None]):
    """Set the flag inside a `with` block, or decorate a `forward(self, tensordict, ...)` to obey it.

    While the flag is set, a module returns its TensorDict unchanged if all its `out_keys` are
    present and none of them is one of its `in_keys`; if only some are present it computes them all.
    TensorDictModule and TensorDictSequential obey the flag without decoration.

    Args:
        mode: the flag. None, for decorators only, keeps the current setting.
        in_key_attr: attribute of the decorated method's object that lists the inputs.
        out_key_attr: attribute that lists the outputs.
        thread_local: accepted for compatibility; it holds for the running thread in any case.

    Raises:
        RuntimeError: used as a context with `mode=None`, or on a function whose first argument after
            self is not called `tensordict`.

    Example:
        >>> from lite import TensorDict
        >>> from lite.nn import TensorDictModule, set_skip_existing, skip_existing
        >>> module = TensorDictModule(lambda x: x + 1, in_keys=["x"], out_keys=["y"])
        >>> with set_skip_existing():
        ...     skip_existing(), int(module(TensorDict(x=1, y=7))["y"])
        (True, 7)
        >>> skip_existing()
        False
    """

    _setting = SKIP_EXISTING

    def __init__(
        self,
        mode: bool | None = True,
        in_key_attr: str = "in_keys",
        out_key_attr: str = "out_keys",
        *,
        thread_local: bool = False,
    ) -> None:
        super().__init__(mode)
        self.in_key_attr = in_key_attr
        self.out_key_attr = out_key_attr

    def __enter__(self) -> None:
        if self.mode is None:
            raise RuntimeError(
                "It seems you are using set_skip_existing as a context manager with mode=None; "
                "None is for decorating methods, pass True or False here."
            )
        super().__enter__()

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        names = list(inspect.signature(func).parameters)
        if len(names) > 1 and names[1] != "tensordict":
            raise RuntimeError(
                f"the first argument of the wrapped function must be named 'tensordict', got '{names[1]}'."
            )

        def obeying(_self: Any, tensordict: Any, *args: Any, **kwargs: Any) -> Any:
            in_keys, out_keys = getattr(_self, self.in_key_attr), getattr(_self, self.out_key_attr)
            if skip_existing() and all_present(tensordict, in_keys, out_keys):
                return tensordict
            return func(_self, tensordict, *args, **kwargs)

        inside = obeying if self.mode is None else super().__call__(obeying)
        return functools.wraps(func)(inside)


_FROM_ENVIRONMENT = os.environ.get("DISPATCH_TDNN_MODULES", "1").lower() not in ("0", "false", "no", "off")
DISPATCH = Setting("lite.nn.dispatch", _FROM_ENVIRONMENT)
# Whether functions decorated with `dispatch` take arrays instead of a TensorDict; read in every call.
dispatching = DISPATCH.get


class _set_dispatch_td_nn_modules(Scoped[bool]):
    """Switch `dispatch` on or off inside a `with` block or a decorated function."""

    _setting = DISPATCH


belong_to("lite.nn", InteractionType, set_interaction_type, set_skip_existing)
