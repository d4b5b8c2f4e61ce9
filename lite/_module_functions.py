"""`from_module` and `from_modules` as functions, which lock what they return."""

from __future__ import annotations

from typing import Any

from lite._tensordict import TensorDict


def from_module(module: Any, as_module: bool = False, lock: bool = True, use_state_dict: bool = False) -> Any:
    """The parameters and buffers of a module; `TensorDict.from_module`, locked by default.

    Example:
        >>> from lite import from_module, nn
        >>> from_module(nn.Linear(2, 3)).is_locked
        True
    """
    return TensorDict.from_module(module, as_module, lock, use_state_dict)


def from_modules(
    *modules: Any,
    as_module: bool = False,
    lock: bool = True,
    use_state_dict: bool = False,
    lazy_stack: bool = False,
    expand_identical: bool = False,
) -> Any:
    """The parameters of several modules, stacked; the same as `TensorDict.from_modules`.

    Example:
        >>> from lite import from_modules, nn
        >>> from_modules(nn.Linear(2, 3), nn.Linear(2, 3)).batch_size
        (2,)
    """
    return TensorDict.from_modules(
        *modules,
        as_module=as_module,
        lock=lock,
        use_state_dict=use_state_dict,
        lazy_stack=lazy_stack,
        expand_identical=expand_identical,
    )
