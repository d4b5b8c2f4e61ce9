"""Readers of gymnasium's info dicts; they write values of the dicts as entries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lite import TensorDictBase
from lite._arrays.caller import warn
from lite._arrays.public import belong_to
from lite.specs.arrays import Unbounded
from lite.specs.base import TensorSpec
from lite.specs.composite import Composite


class BaseInfoDictReader(ABC):
    """Writes values of an info dict to a TensorDict; base class of readers whose specs are known.

    Source:
        torchrl.envs.gym_like.BaseInfoDictReader.
    """

    @abstractmethod
    def __call__(self, info_dict: Mapping[str, Any], tensordict: TensorDictBase) -> TensorDictBase | None:
        """Write to `tensordict`, which has the observations; a TensorDict that is returned replaces it."""

    @property
    @abstractmethod
    def info_spec(self) -> Any:
        """The specs of the entries that are written, by key; None while they are unknown."""


class default_info_dict_reader(BaseInfoDictReader):
    """Writes values of an info dict unchanged: numbers, arrays, or arrays of these.

    Args:
        keys: the keys to write; all keys of the first dict if None.
        spec: their specs, by key or in the order of `keys`. If None, `Unbounded(())` for given keys, and the
            specs of the first values without `keys`.
        ignore_private: leave out keys that begin with "_", if `keys` is None: masks of gymnasium's vectors.

    Keys that a dict lacks are written as zeros, so that resets have the entries of steps.

    Raises:
        ValueError: the numbers of specs and keys differ.
        KeyError: in a call, a key is missing, and has no spec.

    Source:
        torchrl.envs.gym_like.default_info_dict_reader.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import default_info_dict_reader
        >>> reader = default_info_dict_reader()
        >>> reader({"speed": np.float64(2.0), "_speed": True}, TensorDict()).to_dict()
        {'speed': array(2.)}
        >>> reader({}, TensorDict())["speed"]
        array(0.)
    """

    def __init__(
        self,
        keys: list[str] | None = None,
        spec: Sequence[TensorSpec] | Mapping[str, TensorSpec] | Composite | None = None,
        ignore_private: bool = True,
    ) -> None:
        self.keys, self.ignore_private = keys, ignore_private
        self._info_spec: Composite | None = None
        if spec is None:
            if keys is not None:
                self._info_spec = Composite({key: Unbounded(()) for key in keys})
            return
        if isinstance(spec, Composite):
            self._info_spec = spec.clone()
            return
        if keys is not None and len(spec) != len(keys):
            raise ValueError(f"spec must have one for each of the {len(keys)} keys, got {len(spec)}.")
        by_key = spec if isinstance(spec, Mapping) else dict(zip(keys or [], spec, strict=True))
        self._info_spec = Composite(dict(by_key))

    def __call__(self, info_dict: Mapping[str, Any], tensordict: TensorDictBase) -> TensorDictBase:
        if not isinstance(info_dict, (Mapping, TensorDictBase)) and self.keys:
            warn(f"info must be a dict, got {type(info_dict).__name__}.")
        if self.keys is None:
            private = "_" if self.ignore_private else ()
            self.keys = [key for key in info_dict if not key.startswith(private)]
        known = self._info_spec
        found = Composite()
        for key in self.keys:
            if key in info_dict:
                value = np.asarray(info_dict[key])
                tensordict.set(key, np.stack(list(value)) if value.dtype.kind == "O" else value)
                value = tensordict.get(key)
                found[key] = Unbounded(value.shape, dtype=value.dtype)
            elif known is None:
                raise KeyError(f"info lacks {key!r}, of which there is no spec; it has {sorted(info_dict)}.")
            elif key in known:
                tensordict.set(key, known[key].zero())
        if known is None:
            self._info_spec = found
        return tensordict

    def reset(self) -> None:
        """Forget keys and specs; the next dict defines them again."""
        self.keys = self._info_spec = None

    @property
    def info_spec(self) -> Composite | None:
        """The specs of the entries that are written; None before the first dict if they were not given."""
        return self._info_spec


belong_to("lite.envs", BaseInfoDictReader, default_info_dict_reader)
