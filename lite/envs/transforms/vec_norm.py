"""`VecNorm` and `VecNormV2`: normalisation by running sums, sums of squares and counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Self

import numpy as np

from lite import NestedKey, TensorDict, TensorDictBase, get_default_dtype
from lite._arrays.dtypes import is_floating
from lite._arrays.public import belong_to
from lite._arrays.types import is_symbolic
from lite._tree.keys import require_path
from lite.envs.transforms.affine import ObservationNorm
from lite.envs.transforms.base import Keys, Transform, apply_to_composite, is_graph, numbers
from lite.envs.transforms.compose import Compose
from lite.specs.arrays import Unbounded
from lite.specs.base import Shape, TensorSpec

_SEPARATOR = "-<.>-"  # in the names of the state dict
_STATISTICS = ("_sum", "_ssq", "_count")


class RunningNorm(Transform):
    """Base of transforms that normalise entries by running statistics."""

    frozen = False

    def freeze(self) -> Self:
        """Stop updating the statistics; returns self."""
        self.frozen = True
        return self

    def unfreeze(self) -> Self:
        """Update the statistics again; returns self."""
        self.frozen = False
        return self

    def _moments(self, key: NestedKey) -> tuple[Any, Any]:
        """Mean and standard deviation of an entry; RuntimeError if there are no statistics."""
        raise NotImplementedError

    def _all_moments(self, batch: Shape = ()) -> tuple[TensorDict, TensorDict]:
        pairs = {key: self._moments(key) for key in self.in_keys}
        loc, scale = ({key: pair[i] for key, pair in pairs.items()} for i in (0, 1))
        return TensorDict(loc, batch), TensorDict(scale, batch)

    @property
    def loc(self) -> TensorDict:
        """The means, by `in_keys`."""
        return self._all_moments()[0]

    @property
    def scale(self) -> TensorDict:
        """The standard deviations, by `in_keys`."""
        return self._all_moments()[1]

    @property
    def standard_normal(self) -> bool:
        """True: the mean is subtracted."""
        return True

    def denorm(self, tensordict: TensorDictBase) -> TensorDictBase:
        """A copy whose `in_keys` are computed from `out_keys`: the inverse of the normalisation."""
        loc, scale = self._all_moments()
        out = tensordict.copy()
        for source, target in zip(self.in_keys, self.out_keys, strict=True):
            value = out.get(target, None)
            if value is not None:
                out.set(source, value * scale.get(source) + loc.get(source))
        return out

    def _counts(self, value: Any) -> bool:
        """Whether a batch is one more of the statistics; the graph of a file takes them as they are."""
        symbolic = is_symbolic(value)
        if symbolic and self.training and not self.frozen:
            raise NotImplementedError("cannot be traced: VecNorm counts batches, a graph none: freeze() it.")
        return not (symbolic or self.frozen)


class VecNorm(RunningNorm):
    """Normalises entries by their running mean and standard deviation.

    Each call multiplies sums, sums of squares and the count by `decay`, adds those of the entries over all
    dimensions of the batch, and normalises the entries. After `freeze`, and in a graph of `to_onnx`, the
    statistics are not updated.

    Args:
        in_keys: the entries; None for "observation" and "reward". Missing entries are ignored.
        out_keys: the normalised entries; None for `in_keys`.
        shared_td: statistics to share and update: entries `key_sum`, `key_ssq` and `key_count`.
        decay: factor of the statistics at each call.
        eps: the smallest variance, and the smallest standard deviation.
        shapes: the shapes of the statistics, one for each of `in_keys`; None for those of the entries without
            the batch.
        new_api: TorchRL's; True is refused, as that is `VecNormV2`.

    The state dict has the statistics as extra state, under TorchRL's names.

    Raises:
        KeyError: `shared_td` lacks statistics of a key.
        TypeError: `new_api` is True.

    Source:
        torchrl.envs.VecNorm.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import VecNorm
        >>> norm = VecNorm(["x"], decay=1.0)
        >>> _ = norm(TensorDict({"x": np.array([[1.0], [3.0]])}, [2]))
        >>> norm.freeze()(TensorDict({"x": np.array([[2.0], [4.0]])}, [2]))["x"].ravel().tolist()
        [0.0, 2.0]
    """

    _transforms_reset = True

    def __init__(
        self,
        in_keys: Keys = None,
        out_keys: Keys = None,
        shared_td: TensorDictBase | None = None,
        decay: float = 0.9999,
        eps: float = 0.0001,
        shapes: Sequence[Sequence[int]] | None = None,
        new_api: bool | None = None,
    ) -> None:
        if new_api:
            raise TypeError("VecNorm(new_api=True) is VecNormV2: make that with the other arguments.")
        in_keys = ["observation", "reward"] if in_keys is None else in_keys
        super().__init__(in_keys, in_keys if out_keys is None else out_keys)
        if shared_td is not None:
            for key in self.in_keys:
                missing = [name for name in _statistics_of(key) if name not in shared_td]
                if missing:
                    raise KeyError(f"shared_td must have {missing}, the statistics of {key!r}.")
        self._td = shared_td
        self.decay, self.eps = decay, eps
        self.shapes = shapes

    def frozen_copy(self) -> Self:
        """A frozen copy with statistics of its own.

        Raises:
            RuntimeError: there are no statistics yet.
        """
        copy = self.clone()
        copy._td = self._known().clone()
        return copy.freeze()

    # -- calls ----------------------------------------------------------------------------------

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Update the statistics, unless they are frozen, and normalise the entries, in place."""
        state = self.__dict__  # attribute access is slow on a class that has __getattr__
        keys, targets = state["_in_keys"] or self.in_keys, state["_out_keys"] or self.out_keys
        eps = state["eps"]
        for place, (key, target) in enumerate(zip(keys, targets, strict=True)):
            value = tensordict.get(key, None)
            if value is not None:
                value = value.astype(_floating(value.dtype), copy=False)
                mean, std = _moments_of(*self._updated(place, key, value, tensordict), eps)
                if eps > 1:  # otherwise the limit of the variance is the stronger one
                    std = np.maximum(std, *numbers(std.dtype, eps))
                tensordict.set(target, (value - mean) / std)
        return tensordict

    _call = forward

    def _updated(self, place: int, key: NestedKey, value: Any, td: TensorDictBase) -> tuple[Any, Any, Any]:
        state, names = self.__dict__, _statistics_of(key)
        held: Any = self._td
        total = None if held is None else held.get(names[0], None)
        if total is None:
            shape = value.shape[td.ndim :] if state["shapes"] is None else tuple(state["shapes"][place])
            total = np.zeros(shape, value.dtype)
            held = self._td = TensorDict({}, []) if held is None else held
            held.update({names[0]: total, names[1]: np.zeros_like(total), names[2]: np.zeros(1, np.float32)})
        squares, count = held.get(names[1]), held.get(names[2])
        if self._counts(value):
            decay, rows = state["decay"], math.prod(td.batch_size) or 1
            for sums, part in ((total, value), (squares, value * value)):
                sums *= numbers(sums.dtype, decay)[0]
                sums += part if part.ndim == sums.ndim else _summed(part, sums)
            # Of one number, in place takes three times as long.
            factor, added = numbers(count.dtype, decay, rows)
            count[...] = count * factor + added
        return total, squares, count

    # -- statistics -----------------------------------------------------------------------------

    def _known(self) -> TensorDictBase:
        if self._td is None:
            raise RuntimeError("VecNorm has no statistics yet: call it first, or load a state dict.")
        return self._td

    def _moments(self, key: NestedKey) -> tuple[Any, Any]:
        total, squares, count = map(self._known().get, _statistics_of(key))
        return _moments_of(total, squares, count, self.eps)

    def to_observation_norm(self) -> Compose | ObservationNorm:
        """`ObservationNorm` with the current statistics; a `Compose` of them for several keys."""
        return as_observation_norm(self, *self._all_moments())

    def get_extra_state(self) -> Any:
        return None if self._td is None else flat_arrays(self._td, _SEPARATOR)

    def set_extra_state(self, state: Any) -> None:
        if state is None:
            if self._td is not None:
                raise KeyError("the state dict has no statistics, and this VecNorm has some.")
            return
        given = tree_of_arrays(state, _SEPARATOR)
        self._td = given if self._td is None else self._td.update_(given)

    @apply_to_composite
    def transform_observation_spec(self, observation_spec: TensorSpec) -> TensorSpec:
        return _normalised(observation_spec)

    def __repr__(self) -> str:
        numbers = f"decay={self.decay:4.4f},eps={self.eps:4.4f}"
        return f"VecNorm({numbers}, in_keys={self.in_keys}, out_keys={self.out_keys})"


def _floating(dtype: Any) -> Any:
    """The dtype of statistics, and of what they normalise: of sums of integers most would not fit theirs."""
    return dtype if is_floating(dtype) else get_default_dtype()


def _normalised(spec: TensorSpec) -> Unbounded:
    return Unbounded(spec.shape, dtype=_floating(spec.dtype))


@lru_cache(256)
def _statistics_of(key: NestedKey) -> tuple[NestedKey, ...]:
    *outer, last = require_path(key)
    return tuple((*outer, f"{last}{name}") if outer else f"{last}{name}" for name in _STATISTICS)


def _moments_of(total: Any, squares: Any, count: Any, eps: float) -> tuple[Any, Any]:
    if total.ndim and count.size == 1:
        count = count.reshape(())  # by one number, in two fifths of the time of an array of one
    mean = total / count
    variance = squares / count - mean * mean
    return mean, np.sqrt(np.maximum(variance, *numbers(variance.dtype, eps)))


def _summed(value: Any, like: Any) -> Any:
    """The sum over the dimensions that `like` lacks, the first ones."""
    return value.sum(tuple(range(value.ndim - like.ndim)), dtype=value.dtype)


def flat_arrays(td: TensorDictBase, separator: str) -> dict[str, Any]:
    """The entries as a flat dict of the same arrays."""
    return {
        key if isinstance(key, str) else separator.join(key): value for key, value in td.items(True, True)
    }


def tree_of_arrays(state: Any, separator: str) -> TensorDict:
    """A TensorDict of the entries of a flat dict, also of arrays of other libraries."""
    td = TensorDict({}, [])
    for name, value in state.items():
        path = tuple(name.split(separator))
        td.set(path if len(path) > 1 else name, np.array(value))
    return td


def as_observation_norm(
    transform: Transform, loc: TensorDictBase, scale: TensorDictBase, eps: float | None = None
) -> Compose | ObservationNorm:
    """`ObservationNorm` by fixed means and deviations; a `Compose` of them for several keys."""
    norms = []
    for source, target in zip(transform.in_keys, transform.out_keys, strict=True):
        mean, std = (np.array(td.get(source)) for td in (loc, scale))
        norms.append(ObservationNorm(mean, std, [source], [target], standard_normal=True, eps=eps))
    return norms[0] if len(norms) == 1 else Compose(*norms)


_JOINED_BY = ".-|-."  # in the names of the state dict
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
        if missing and not self._missing_tolerance and not is_graph(tensordict):
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
            counts, own = self._counts(value), self._known()["loc"].get(key).shape
            broad = len(own) < value.ndim or own[:1] in ((), (1,), value.shape[:1])
            if not (self.reduce_batch_dims or (own == value.shape if counts else broad)):
                wrong = f"VecNormV2 has statistics of {key!r} in the shape {own}, got {value.shape}: "
                raise ValueError(wrong + "reduce_batch_dims=True makes those of any batch.")
            if counts:
                self._update(key, value, td.ndim)
            loc, scale = self._moments(key)
            value = value.astype(_floating(value.dtype), copy=False)
            td.set(targets[key], (value - loc) / scale)
        return td

    def _start(self, td: TensorDictBase) -> None:
        batch = () if self.reduce_batch_dims else tuple(td.batch_size)
        parts = {name: TensorDict({}, batch if name != "count" else ()) for name in _PARTS}
        for key in self.in_keys:
            value = np.asarray(self._read(td, key))
            shape = value.shape[td.ndim :] if self.reduce_batch_dims else value.shape
            dtype = _floating(value.dtype)
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
            f"{name}{_JOINED_BY}{key}": value
            for name in _PARTS
            for key, value in flat_arrays(self._statistics[name], _JOINED_BY).items()
        }

    def set_extra_state(self, state: Any) -> None:
        if not state:
            if self._statistics is not None:
                raise RuntimeError("the state dict has no statistics, and this VecNormV2 has some.")
            return
        td = tree_of_arrays(state, _JOINED_BY)
        self._statistics = {name: td.get(name) for name in _PARTS}

    # -- specs ----------------------------------------------------------------------------------

    @apply_to_composite
    def transform_observation_spec(self, observation_spec: TensorSpec) -> TensorSpec:
        return _normalised(observation_spec)

    transform_reward_spec: Any = transform_observation_spec


belong_to("lite.envs", VecNorm, VecNormV2)
