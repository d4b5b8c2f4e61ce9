"""`VecNorm`: normalisation by running sums, sums of squares and counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Self

import numpy as np

from lite import NestedKey, TensorDict, TensorDictBase
from lite._arrays.public import belong_to
from lite._arrays.types import is_symbolic
from lite._tree.keys import require_path
from lite.envs.transforms.affine import ObservationNorm
from lite.envs.transforms.base import Keys, Transform, apply_to_composite, numbers
from lite.envs.transforms.compose import Compose
from lite.specs.arrays import Bounded, Unbounded
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
        if self._td is None:
            self._td = given
        else:
            self._td.update_(given)

    @apply_to_composite
    def transform_observation_spec(self, observation_spec: TensorSpec) -> TensorSpec:
        if isinstance(observation_spec, Bounded):
            return Unbounded(observation_spec.shape, dtype=observation_spec.dtype)
        return observation_spec

    def __repr__(self) -> str:
        return (
            f"VecNorm(decay={self.decay:4.4f},eps={self.eps:4.4f}, in_keys={self.in_keys}, "
            f"out_keys={self.out_keys})"
        )


belong_to("lite.envs", VecNorm)


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
    norms = [
        ObservationNorm(
            np.array(loc.get(source)),
            np.array(scale.get(source)),
            [source],
            [target],
            standard_normal=True,
            eps=eps,
        )
        for source, target in zip(transform.in_keys, transform.out_keys, strict=True)
    ]
    return norms[0] if len(norms) == 1 else Compose(*norms)
