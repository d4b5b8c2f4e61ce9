"""`VecNormV2`: running means and standard deviations, as moving averages."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from lite import TensorDict, TensorDictBase, get_default_dtype
from lite._arrays.dtypes import is_floating
from lite._arrays.public import belong_to
from lite.envs.transforms.affine import ObservationNorm
from lite.envs.transforms.base import Keys
from lite.envs.transforms.compose import Compose
from lite.envs.transforms.vec_norm import RunningNorm, as_observation_norm, flat_arrays, tree_of_arrays
from lite.specs.arrays import Unbounded
from lite.specs.base import Shape
from lite.specs.composite import Composite

_SEPARATOR = ".-|-."  # in the names of the state dict
_PARTS = ("loc", "var", "count")


class VecNormV2(RunningNorm):
    """Normalises entries by their running mean and standard deviation.

    At each call the means of the entries and of their squares move towards those of the entries, by
    `1 - decay`; where they started is corrected for. Then the entries are normalised. `freeze` keeps the
    statistics as they are, and so does a graph that `to_onnx` writes.

    Args:
        in_keys: entries.
        out_keys: where they go; `in_keys` if None.
        decay: how much of the averages stays; 1 for means of all.
        eps: the least standard deviation.
        shared_data: statistics to go on with, and to share: TensorDicts "loc", "var" and "count".
        reduce_batch_dims: average over the batch, too; else each row has statistics of its own.

    The state dict has `initialized`, and the statistics as extra state, under TorchRL's names.

    Source:
        torchrl.envs.VecNormV2, with `stateful`.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import VecNormV2
        >>> norm = VecNormV2(["x"], decay=1.0, reduce_batch_dims=True)
        >>> _ = norm(TensorDict({"x": np.array([[1.0], [3.0]])}, [2]))
        >>> norm.freeze()(TensorDict({"x": np.array([[2.0], [4.0]])}, [2]))["x"].ravel().tolist()
        [0.0, 2.0]
    """

    def __init__(
        self,
        in_keys: Keys,
        out_keys: Keys = None,
        *,
        decay: float = 0.9999,
        eps: float = 0.0001,
        shared_data: TensorDictBase | None = None,
        reduce_batch_dims: bool = False,
    ) -> None:
        super().__init__(in_keys, in_keys if out_keys is None else out_keys)
        self.decay, self.eps = decay, eps
        self.reduce_batch_dims = reduce_batch_dims
        self.register_buffer("initialized", np.asarray(shared_data is not None))
        self._statistics: dict[str, Any] | None = None
        if shared_data is not None:
            self._statistics = {name: shared_data.get(name) for name in _PARTS}

    def frozen_copy(self) -> Self:
        """A frozen copy with statistics of its own.

        Raises:
            RuntimeError: there are no statistics yet.
        """
        self._known()
        return self.clone().freeze()

    def clone(self) -> Self:
        """A transform with statistics of its own, in no environment."""
        twin = super().clone()
        twin._set_buffer("initialized", self.initialized.copy())
        if self._statistics is not None:
            twin._statistics = {name: part.clone() for name, part in self._statistics.items()}
        return twin

    # -- calls ----------------------------------------------------------------------------------

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        present = [key for key in self.in_keys if key in tensordict_reset]
        if self._statistics is None and self.parent is not None and len(present) < len(self.in_keys):
            # An episode starts without rewards, of which there are to be statistics, too.
            full = self.parent.full_observation_spec.zero().update(self.parent.full_reward_spec.zero())
            self._start(full.update(tensordict_reset))
        return self._each(tensordict_reset, present)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Update the statistics, unless they are frozen, and normalise the entries, in place."""
        missing = [key for key in self.in_keys if key not in tensordict]
        if missing and not self._missing_tolerance:
            raise KeyError(f"VecNormV2 reads {missing}, which are missing.")
        return self._each(tensordict, [key for key in self.in_keys if key not in missing])

    _call = forward

    def _each(self, td: TensorDictBase, keys: list[Any]) -> TensorDictBase:
        if not keys:
            return td
        if self._statistics is None:
            self._start(td)
        targets = dict(zip(self.in_keys, self.out_keys, strict=True))
        for key in keys:
            value = td.get(key)
            if self._counts(value):
                self._update(key, value, td.ndim)
            loc, scale = self._moments(key)
            value = value if is_floating(value.dtype) else value.astype(loc.dtype)
            td.set(targets[key], (value - loc) / scale)
        return td

    def _start(self, td: TensorDictBase) -> None:
        batch = () if self.reduce_batch_dims else tuple(td.batch_size)
        parts = {name: TensorDict({}, batch if name != "count" else ()) for name in _PARTS}
        for key in self.in_keys:
            value = np.asarray(td.get(key))
            shape = value.shape[td.ndim :] if self.reduce_batch_dims else value.shape
            dtype = value.dtype if value.dtype.kind == "f" else get_default_dtype()
            parts["loc"].set(key, np.zeros(shape, dtype))
            parts["var"].set(key, np.zeros(shape, dtype))
            parts["count"].set(key, np.zeros((), np.int64))
        self._statistics = parts
        self._set_buffer("initialized", np.asarray(True))

    def _update(self, key: Any, value: Any, ndim: int) -> None:
        loc, var, count = (self._known()[name].get(key) for name in _PARTS)
        value = np.asarray(value).astype(loc.dtype, copy=False)
        squares, rows = np.square(value), 1
        if self.reduce_batch_dims and ndim:
            rows = math.prod(value.shape[:ndim])
            value, squares = (part.mean(tuple(range(ndim)), dtype=loc.dtype) for part in (value, squares))
        count += rows
        weight = 1 - self.decay**rows if self.decay != 1.0 else rows / int(count)
        for average, new in ((loc, value), (var, squares)):
            average += average.dtype.type(weight) * (new - average)

    def _moments(self, key: Any) -> tuple[Any, Any]:
        loc, var, count = (self._known()[name].get(key) for name in _PARTS)
        var = var - np.square(loc)
        if self.decay < 1.0:
            # 1 - decay**count, which loses its digits at first where it is a difference.
            started = -math.expm1(int(count) * math.log(self.decay))
            loc, var = loc / loc.dtype.type(started), var / loc.dtype.type(started)
        return loc, np.maximum(np.sqrt(var), loc.dtype.type(self.eps))

    # -- statistics -----------------------------------------------------------------------------

    def _known(self) -> dict[str, Any]:
        if self._statistics is None:
            raise RuntimeError("VecNormV2 has no statistics yet: call it first, or load a state dict.")
        return self._statistics

    def _all_moments(self, batch: Shape = ()) -> tuple[TensorDict, TensorDict]:
        return super()._all_moments(self._known()["loc"].batch_size)

    def to_observation_norm(self) -> Compose | ObservationNorm:
        """The statistics as they are, in `ObservationNorm`: one, or several in a `Compose`."""
        return as_observation_norm(self, *self._all_moments(), self.eps)

    def get_extra_state(self) -> Any:
        if self._statistics is None:
            return {}
        return {
            f"{name}{_SEPARATOR}{key}": value
            for name in _PARTS
            for key, value in flat_arrays(self._statistics[name], _SEPARATOR).items()
        }

    def set_extra_state(self, state: Any) -> None:
        if not state:
            if self._statistics is not None:
                raise RuntimeError("the state dict has no statistics, and this VecNormV2 has some.")
            return
        td = tree_of_arrays(state, _SEPARATOR)
        self._statistics = {name: td.get(name) for name in _PARTS}

    # -- specs ----------------------------------------------------------------------------------

    def _unbounded(self, spec: Composite) -> Composite:
        spec = spec.clone()
        for source, target in zip(self.in_keys, self.out_keys, strict=True):
            found = spec.get(source, None)
            if found is not None:
                dtype = found.dtype if found.dtype.kind == "f" else get_default_dtype()
                spec[target] = Unbounded(found.shape, dtype=dtype)
        return spec

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        return self._unbounded(observation_spec)

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        return self._unbounded(reward_spec)


belong_to("lite.envs", VecNormV2)
