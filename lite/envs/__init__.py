"""Environments as arrays and as TensorDicts, and what is done to their observations, rewards and actions.

- `environments`: one face for gymnasium's environments, single ones and vectors
- `spaces`: gymnasium's spaces as specs
- `watchdog`: calls that may hang

Names are loaded on first use, so that importing this package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lite.envs.environments import EnvError

# The public names by what defines them.
_NAMES = {
    "environments": ["EnvError"],
}
_FILE_OF = {name: file for file, names in _NAMES.items() for name in names}

__all__ = [
    "EnvError",
]


def __getattr__(name: str) -> Any:
    if name not in _FILE_OF:
        raise AttributeError(f"module 'lite.envs' has no attribute {name!r}")
    return getattr(import_module(f"lite.envs.{_FILE_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
