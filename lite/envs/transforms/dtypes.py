"""`DTypeCastTransform` and `DoubleToFloat`: entries in another dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from lite import NestedKey, TensorDictBase
from lite._arrays.dtypes import as_dtype
from lite._arrays.public import belong_to
from lite.envs.transforms.base import Keys, Transform, apply_to_composite, key_list
from lite.envs.transforms.spec_changes import mapped
from lite.nn.tensordict_modules.dispatch import dispatch
from lite.specs.base import TensorSpec
from lite.specs.composite import Composite

_IF_NONE = "if None, those of the environment that it is in."


def _keys(name: str, doc: str, *specs: str) -> Any:
    """A property of keys that are given, else of what specs have; without specs, of the keys read."""

    def get(self: Any) -> list[NestedKey]:
        if specs:
            return self._found(name, *specs) or []
        given: list[NestedKey] | None = self.__dict__.get(f"_{name}")
        return getattr(self, f"in{name[3:]}") if given is None else given

    def put(self: Any, keys: Keys) -> None:
        self.__dict__[f"_{name}"] = key_list(keys)

    return property(get, put, doc=doc)


class DTypeCastTransform(Transform):
    """Casts entries from one dtype to another, and back on the way into an environment or a buffer.

    Without `in_keys`, in an environment all observations and rewards of `dtype_in` are cast, and on a
    TensorDict alone all entries of it. Without `in_keys_inv`, all actions and states of `dtype_in`, and on a
    TensorDict alone all entries of `dtype_out`; none where `in_keys` are given.

    Args:
        dtype_in: dtype of the environment.
        dtype_out: dtype outside of the environment.
        in_keys: entries to cast.
        out_keys: where they go; `in_keys` if None.
        in_keys_inv: entries that the environment reads, cast to `dtype_in`.
        out_keys_inv: entries that are given in their place.

    Raises:
        ValueError: when called alone, `out_keys` are given and `in_keys` are not.
        TypeError: a spec has another dtype.

    Source:
        torchrl.envs.DTypeCastTransform.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import DTypeCastTransform
        >>> cast = DTypeCastTransform(np.float64, np.float16)
        >>> td = cast(TensorDict(x=np.ones(2), n=np.arange(2)))
        >>> td["x"].dtype, td["n"].dtype
        (dtype('float16'), dtype('int64'))
    """

    invertible = True
    _transforms_reset = True

    _shown = ("in_keys", "out_keys", "in_keys_inv", "out_keys_inv")

    def __init__(
        self,
        dtype_in: DTypeLike,
        dtype_out: DTypeLike,
        in_keys: Keys = None,
        out_keys: Keys = None,
        in_keys_inv: Keys = None,
        out_keys_inv: Keys = None,
    ) -> None:
        if in_keys is not None and in_keys_inv is None:
            in_keys_inv = []
        self.dtype_in, self.dtype_out = as_dtype(dtype_in), as_dtype(dtype_out)
        super().__init__(in_keys, out_keys, in_keys_inv, out_keys_inv)

    # -- keys -----------------------------------------------------------------------------------

    in_keys = _keys(
        "in_keys", f"Entries that are cast; {_IF_NONE}", "full_observation_spec", "full_reward_spec"
    )
    out_keys = _keys("out_keys", "Where they go.")
    in_keys_inv = _keys(
        "in_keys_inv", f"Entries that are cast back; {_IF_NONE}", "full_action_spec", "full_state_spec"
    )
    out_keys_inv = _keys("out_keys_inv", "Entries that are given in place of `in_keys_inv`.")

    def _found(self, name: str, *specs: str) -> list[NestedKey] | None:
        """The given keys, or those of the environment's specs with the dtype; None outside of one."""
        given: list[NestedKey] | None = self.__dict__.get(f"_{name}")
        parent = None if given is not None else self.parent
        if parent is None:
            return given
        found = [
            key
            for spec in specs
            for key, leaf in getattr(parent, spec).items(True, True)
            if leaf.dtype == self.dtype_in
        ]
        self.__dict__[f"_{name}"] = found
        return found

    # -- calls ----------------------------------------------------------------------------------

    def _apply_transform(self, obs: Any) -> Any:
        return obs.astype(self.__dict__["dtype_out"])

    def _inv_apply_transform(self, state: Any) -> Any:
        return state.astype(self.dtype_in)

    @dispatch(source="in_keys", dest="out_keys")
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Cast the entries, in place."""
        if self.__dict__["_in_keys"] is None and self.parent is None:
            return self._all_of(tensordict, "out_keys", self.dtype_in, self._apply_transform)
        return Transform._call(self, tensordict)

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        if self._found("in_keys_inv", "full_action_spec", "full_state_spec") is None:
            return self._all_of(tensordict, "out_keys_inv", self.dtype_out, self._inv_apply_transform)
        return super()._inv_call(tensordict)

    def _all_of(self, td: TensorDictBase, name: str, dtype: np.dtype[Any], function: Any) -> TensorDictBase:
        if self.__dict__.get(f"_{name}") is not None:
            raise ValueError(f"{name} need {name.replace('out', 'in')}, which are not given.")
        for key, value in list(td.items(True, True)):
            if getattr(value, "dtype", None) == dtype:
                td.set(key, function(value))
        return td

    # -- specs ----------------------------------------------------------------------------------

    def _cast(self, spec: TensorSpec) -> TensorSpec:
        if spec.dtype != self.dtype_in:
            raise TypeError(f"the spec must have the dtype {self.dtype_in}, got {spec.dtype}.")
        return mapped(spec, self._apply_transform)

    transform_observation_spec: Any = apply_to_composite(_cast)
    transform_reward_spec: Any = transform_observation_spec

    def transform_input_spec(self, input_spec: Composite) -> Composite:
        input_spec = input_spec.clone()
        for source, target in zip(self.in_keys_inv, self.out_keys_inv, strict=True):
            parts = [input_spec[name] for name in ("full_action_spec", "full_state_spec")]
            holder = next((part for part in parts if source in part), None)
            if holder is None:
                raise KeyError(f"there is no spec of {source!r}, which in_keys_inv have.")
            holder[target] = self._cast(holder[source])
        return input_spec


class DoubleToFloat(DTypeCastTransform):
    """Casts entries from float64 to float32, and back on the way in; keys as for `DTypeCastTransform`.

    Args:
        in_keys: entries to cast.
        out_keys: where they go; `in_keys` if None.
        in_keys_inv: entries that the environment reads, cast to float64.
        out_keys_inv: entries that are given in their place.

    Source:
        torchrl.envs.DoubleToFloat.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import DoubleToFloat
        >>> DoubleToFloat(["x"])(TensorDict(x=np.ones(2)))["x"].dtype
        dtype('float32')
    """

    def __init__(
        self, in_keys: Keys = None, out_keys: Keys = None, in_keys_inv: Keys = None, out_keys_inv: Keys = None
    ) -> None:
        super().__init__(np.float64, np.float32, in_keys, out_keys, in_keys_inv, out_keys_inv)


belong_to("lite.envs", DTypeCastTransform, DoubleToFloat)
