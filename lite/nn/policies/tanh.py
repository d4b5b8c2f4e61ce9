"""TanhModule: entries within bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lite import NestedKey
from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite.nn.tensordict_modules.base import TensorDictModuleBase
from lite.nn.tensordict_modules.dispatch import dispatch
from lite.nn.tensordict_modules.entry_specs import specs_by_key
from lite.nn.tensordict_modules.module import listed, read, store
from lite.specs.base import TensorSpec
from lite.specs.composite import Composite


class TanhModule(TensorDictModuleBase):
    """Map entries to bounds: low + (high - low) (tanh(x) + 1) / 2.

    Args:
        in_keys: what is read.
        out_keys: keys of the results; `in_keys` by default.
        spec: spec of the results, such as `lite.data.Bounded`, whose bounds are taken; a `Composite` by key.
        low: lower bound of results without a spec; -1 by default.
        high: upper bound of results without a spec; 1 by default.
        clamp: keep tanh(x) apart from -1 and 1, by the resolution of its dtype.

    Attributes:
        spec: a `Composite` by key.

    The bounds are buffers, "<out_key>_low" and "<out_key>_high" (the parts of a nested key joined by "_").

    Raises:
        ValueError: `low` exceeds `high`, bounds differ from those of the spec, or a spec has none.

    Source:
        torchrl.modules.TanhModule.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> module = nn.TanhModule(["action"], low=-2, high=2)
        >>> module(TensorDict(action=np.array([-9.0, 0.0, 9.0])))["action"].round(2)
        array([-2.,  0.,  2.])
    """

    def __init__(
        self,
        in_keys: Sequence[NestedKey],
        out_keys: Sequence[NestedKey] | None = None,
        *,
        spec: TensorSpec | None = None,
        low: Any = None,
        high: Any = None,
        clamp: bool = False,
    ) -> None:
        super().__init__()
        self.in_keys = listed(in_keys, str)
        self.out_keys = listed(in_keys if out_keys is None else out_keys, str)
        if len(self.in_keys) != len(self.out_keys):
            raise ValueError(f"out_keys must be as many as in_keys={self.in_keys}, got {self.out_keys}.")
        if isinstance(spec, Composite):
            self.spec = spec
        else:
            self.spec = specs_by_key(spec, self.out_keys, self)
        self.clamp = clamp
        for key in self.out_keys:
            for name, given, default in (("low", low, -1.0), ("high", high, 1.0)):
                self.register_buffer(_buffer(key, name), self._bound(key, name, given, default))
            if (getattr(self, _buffer(key, "high")) < getattr(self, _buffer(key, "low"))).any():
                raise ValueError(f"low must not exceed high, got low={low!r} and high={high!r}.")

    def _bound(self, key: NestedKey, name: str, given: Any, default: float) -> Array:
        known: Any = self.spec.get(key, None)
        if known is None:
            value = default if given is None else given
            return np.asarray(value, np.float32 if isinstance(value, float) else None)
        bound = getattr(known, name, None)
        if bound is None:
            raise ValueError(f"the spec of {key!r} must have bounds, got {known!r}.")
        if given is not None and not np.all(np.equal(given, bound)):
            raise ValueError(f"{name} must be that of the spec, {bound}, got {given!r}.")
        return np.array(bound)

    @dispatch(auto_batch_size=False)
    def forward(self, tensordict: Any) -> Any:
        """Write the results and return `tensordict`.

        Raises:
            KeyError: an entry is missing.
        """
        entries = read(tensordict, self.in_keys)
        missing = [key for key, entry in zip(self.in_keys, entries, strict=True) if entry is None]
        if missing:
            raise KeyError(f"TanhModule reads the entries {missing}, which the TensorDict lacks.")
        results = [self._squashed(x, key) for x, key in zip(entries, self.out_keys, strict=True)]
        store(tensordict, self.out_keys, results)
        return tensordict

    def _squashed(self, x: Array, key: NestedKey) -> Array:
        low, high = (getattr(self, _buffer(key, name)).astype(x.dtype) for name in ("low", "high"))
        y = np.tanh(x)
        if self.clamp:
            edge = 1 - np.finfo(x.dtype).resolution
            y = np.clip(y, -edge, edge)
        return low + (high - low) * (y + 1) / 2


def _buffer(key: NestedKey, name: str) -> str:
    return "_".join([*([key] if isinstance(key, str) else key), name])


belong_to("lite.nn", TanhModule)
