"""The mode of recurrent modules: inputs are single steps or sequences."""

from __future__ import annotations

from lite._arrays.public import belong_to
from lite._arrays.settings import Scoped, Setting

_mode: Setting[bool | None] = Setting("lite.nn.recurrent_mode", None)
_NAMES = {"recurrent": True, "sequential": False}


def recurrent_mode() -> bool | None:
    """Whether inputs of recurrent modules are sequences; None leaves it to each module.

    Source:
        torchrl.modules.recurrent_mode.

    Example:
        >>> from lite import nn
        >>> nn.recurrent_mode() is None
        True
    """
    return _mode.get()


class set_recurrent_mode(Scoped[bool | None]):
    """Set whether inputs of recurrent modules are sequences, in a `with` statement or a decorated function.

    Args:
        mode: True or "recurrent": the last batch dimension is time. False or "sequential": all batch elements
            are single steps. None: the setting of each module.

    Raises:
        ValueError: another mode.

    Source:
        torchrl.modules.set_recurrent_mode.

    Example:
        >>> from lite.nn import recurrent_mode, set_recurrent_mode
        >>> with set_recurrent_mode("recurrent"):
        ...     recurrent_mode()
        True
        >>> recurrent_mode() is None
        True
    """

    _setting = _mode

    def __init__(self, mode: bool | str | None = True) -> None:
        if isinstance(mode, str) and mode in _NAMES:
            mode = _NAMES[mode]
        if not (mode is None or isinstance(mode, bool)):
            raise ValueError(f"mode must be a bool, None, 'recurrent' or 'sequential', got {mode!r}.")
        super().__init__(mode)


belong_to("lite.nn", set_recurrent_mode)
