"""What a module held before `to_module`, made into a TensorDict when somebody looks at it."""

from __future__ import annotations

from typing import Any

from lite._containers.dense import Dense
from lite._tensordict import TensorDict
from lite._tree.protocol import Container
from lite._tree.undo import Leave

_data_of: Any = Dense.__dict__["_data"].__get__
_set_data: Any = Dense.__dict__["_data"].__set__
_set_origin: Any = Container.__dict__["_origin"].__set__


class Held(TensorDict):
    """What a module held, nested dicts until somebody looks: then it becomes a TensorDict like any other.

    Hardly anybody does, and the TensorDicts would take as long to make as the rest of the swap.
    """

    __slots__ = ()
    _batch_size = _lock_parents = ()
    _before = _device = _names = None
    _locked = False

    @classmethod
    def _of(cls, held: dict[str, Any], origin: Leave) -> Any:
        self = object.__new__(cls)
        _set_data(self, held)
        _set_origin(self, origin)
        return self

    @property
    def _data(self) -> dict[str, Any]:  # type: ignore[override]
        self._settle()
        return self._data

    def _settle(self) -> None:
        """Become a TensorDict."""
        held: dict[str, Any] = _data_of(self)
        object.__setattr__(self, "__class__", TensorDict)
        _set_data(self, nest(held))
        self._batch_size = self._lock_parents = ()
        self._device = self._names = self._before = None
        self._locked = False

    def __setattr__(self, name: str, value: Any) -> None:
        self._settle()
        setattr(self, name, value)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: Any, *error: object) -> None:
        self._origin.leave(kind is not None)  # type: ignore[union-attr]

    def __reduce_ex__(self, protocol: Any) -> Any:
        self._settle()
        return self.__reduce_ex__(protocol)


def nest(held: dict[str, Any]) -> dict[str, Any]:
    """Nested dicts as entries of a TensorDict, which holds no None."""
    return {
        name: TensorDict._make(nest(value), ()) if type(value) is dict else value
        for name, value in held.items()
        if value is not None
    }
