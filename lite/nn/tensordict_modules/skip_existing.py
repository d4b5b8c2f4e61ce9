"""Skipping modules whose outputs are already there: a flag, and the rule that reads it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from contextvars import ContextVar, Token
from typing import Any

_active: ContextVar[bool] = ContextVar("lite.nn.skip_existing", default=False)


def skip_existing() -> bool:
    """Tell whether modules leave a TensorDict alone that already has their outputs (False by default)."""
    return _active.get()


def all_present(tensordict: Any, in_keys: Iterable[Any], out_keys: Iterable[Any]) -> bool:
    """The rule: every output (but the sink "_") is present, and none of them is also an input."""
    inputs = set(in_keys)
    return all(key == "_" or (key not in inputs and key in tensordict) for key in out_keys)


class set_skip_existing:
    """Set the flag inside a `with` block, or decorate a `forward(self, tensordict, ...)` to obey it.

    While the flag is set, a module returns its TensorDict unchanged if all its `out_keys` are
    present and none of them is one of its `in_keys`; if only some are present it computes them all.
    TensorDictModule and TensorDictSequential obey the flag without decoration.

    Args:
        mode: the flag. None, for decorators only, obeys whatever is set outside.
        in_key_attr: attribute of the decorated method's object that lists the inputs.
        out_key_attr: attribute that lists the outputs.

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

    def __init__(
        self, mode: bool | None = True, in_key_attr: str = "in_keys", out_key_attr: str = "out_keys"
    ) -> None:
        self.mode = mode
        self.in_key_attr = in_key_attr
        self.out_key_attr = out_key_attr
        self._tokens: list[Token[bool]] = []

    def __enter__(self) -> None:
        if self.mode is None:
            raise RuntimeError(
                "It seems you are using set_skip_existing as a context manager with mode=None; "
                "None is for decorating methods, pass True or False here."
            )
        self._tokens.append(_active.set(self.mode))

    def __exit__(self, *exc: object) -> None:
        _active.reset(self._tokens.pop())

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        names = list(inspect.signature(func).parameters)
        if len(names) > 1 and names[1] != "tensordict":
            raise RuntimeError(
                f"the first argument of the wrapped function must be named 'tensordict', got '{names[1]}'."
            )

        @functools.wraps(func)
        def method(_self: Any, tensordict: Any, *args: Any, **kwargs: Any) -> Any:
            token = _active.set(_active.get() if self.mode is None else self.mode)
            try:
                if _active.get() and all_present(
                    tensordict, getattr(_self, self.in_key_attr), getattr(_self, self.out_key_attr)
                ):
                    return tensordict
                return func(_self, tensordict, *args, **kwargs)
            finally:
                _active.reset(token)

        return method
