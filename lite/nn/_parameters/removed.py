"""Functions that tensordict had before `from_module` and `to_module`; they raise, as they do there."""

from __future__ import annotations

from typing import Any, NoReturn

_INSTEAD = "use params = TensorDict.from_module(module) and `with params.to_module(module):` instead"


def _removed(name: str) -> NoReturn:
    raise RuntimeError(f"{name} has been removed: {_INSTEAD}.")


def make_functional(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises RuntimeError: removed in favour of `TensorDict.from_module` and `to_module`."""
    _removed("make_functional")


def get_functional(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises RuntimeError: removed in favour of `TensorDict.from_module` and `to_module`."""
    _removed("get_functional")


def is_functional(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises RuntimeError: removed in favour of `TensorDict.from_module` and `to_module`."""
    _removed("is_functional")


def repopulate_module(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises RuntimeError: removed in favour of `TensorDict.from_module` and `to_module`."""
    _removed("repopulate_module")
