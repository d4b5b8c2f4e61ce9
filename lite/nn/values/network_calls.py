"""Values of the observations of a rollout and of the next ones, by two calls of a value network or by one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite import NestedKey, TensorDictBase
from lite._arrays.types import HostArray, Path
from lite._tree.keys import require_path
from lite.nn._modules.module import Module
from lite.nn.values.entries import detached, hold_out_net, is_differentiated, require_array

Array = NDArray[Any]


class Values(NamedTuple):
    """The values of a rollout, of shape (*batch, ...) and the dtype of the network's output."""

    present: Array
    """Of the observations."""
    following: Array
    """Of the next observations."""
    valid: Array | None
    """Which steps have both values: booleans of shape (*batch); None if all have."""


class NetworkCalls:
    """Calls of a value network for a rollout.

    Args:
        network: the value network.
        keys: the output to read for the observations, and that for the next observations.
        pieces: (size, count, dim): each call gets at most `size` elements of the batch dimension `dim`, or
            the batch is split into `count` calls; both None for one call.
        differentiates: whether outputs keep their derivatives by inputs; else they are constants.
    """

    def __init__(
        self, network: Module, keys: tuple[NestedKey, NestedKey],
        pieces: tuple[int | None, int | None, int], differentiates: bool,
    ) -> None:  # fmt: skip
        self._network = network
        self._present, self._following = keys
        self._pieces = pieces
        self._differentiates = differentiates

    def twice(
        self, tensordict: TensorDictBase, params: TensorDictBase | None, target_params: TensorDictBase | None
    ) -> Values:
        """Values by one call with `params` for the observations and one with `target_params` for the next.

        `target_params` are `params` if None.
        """
        if params is None and target_params is not None:
            raise ValueError("target_params need params beside them; got target_params alone.")
        if target_params is None:
            target_params = params
        root, following = self._inputs(tensordict)
        with _with_params(params, self._network):
            (present,) = self._call(root, self._present)
        with _with_params(target_params, self._network):
            (ahead,) = self._call(following, self._following)
        return Values(present, ahead, None)

    def ahead(self, tensordict: TensorDictBase, params: TensorDictBase | None) -> Array:
        """The values of the next observations alone."""
        _, following = self._inputs(tensordict)
        with _with_params(params, self._network):
            return self._call(following, self._following)[0]

    def once(
        self, tensordict: TensorDictBase, time_dim: int, flags: Sequence[Array], budget: int,
        params: TensorDictBase | None,
    ) -> Values:  # fmt: skip
        """Values by one call on one sequence, which holds each observation once.

        In a rollout, the next observation of a step is the observation of the step after it, except where
        the episode was truncated. So the sequence has the observations, with the next observation inserted
        after each truncated step and after the last one.

        Args:
            tensordict: the rollout.
            time_dim: its dimension of time.
            flags: done and terminated, of shape (*batch, ...).
            budget: how many steps the sequence has more than the rollout. Steps that do not fit are not
                `valid`.
            params: parameters of the network; None for its own.
        """
        root, following = self._inputs(tensordict)
        for path in _paths(root):  # such as states of a recurrent network, which "next" need not have
            if following.get(path, None) is None:
                following.set(path, root.get(path))
        root, following = root.transpose(time_dim, -1), following.transpose(time_dim, -1)
        done, terminated = flags
        truncated = _per_step(done & ~terminated, tensordict).swapaxes(time_dim, -1)
        steps = truncated.shape[-1]
        inserted_before: NDArray[np.intp] = np.cumsum(truncated, -1) - truncated
        position = np.arange(steps) + inserted_before  # of each step in the sequence
        length = steps + budget
        valid = position + 1 < length
        # The next observation is inserted after truncated steps, the last step that fits, and the last one.
        inserted = (truncated & valid) | last_valid(valid, -1)
        inserted[..., -1:] |= valid[..., -1:]
        sequence = root.new_zeros((*root.batch_size[:-1], length))
        for td, target, kept in ((root, position, position < length), (following, position + 1, inserted)):
            source = np.nonzero(kept)
            index = (*source[:-1], target[source])
            for path in _paths(td):
                entry = sequence.get(path, None)
                if entry is not None:
                    entry[index] = td.get(path)[source]
        with _with_params(params, self._network):
            outputs = self._call(sequence.transpose(time_dim, -1), self._present, self._following)
        present, ahead = (
            _take_along(output, np.minimum(index, length - 1).swapaxes(time_dim, -1), time_dim)
            for output, index in zip(outputs, (position, position + 1), strict=True)
        )
        return Values(present, ahead, valid.swapaxes(time_dim, -1))

    def _inputs(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """The entries that the network reads, and the values that exist, at the root and in "next".

        NaN in "next" get the numbers of the root.
        """
        paths = [require_path(key) for key in self._network.in_keys]
        root = tensordict.select(*paths, self._present, strict=False)
        if tensordict.get("next", None) is None:
            raise KeyError("estimators read what follows each step from 'next', which the TensorDict lacks.")
        following = tensordict.get("next").select(*paths, self._following, strict=False)
        for path in paths:
            ahead, now = following.get(path, None), root.get(path, None)
            if _is_float(now) and _is_float(ahead) and now.shape == ahead.shape:
                missing = ahead != ahead
                if missing.any():
                    following.set(path, np.where(missing, now, ahead))
        first = root.get("is_init", None)
        if first is not None and following.get("is_init", None) is not None:
            # So a recurrent network does not read the next observations of two episodes as one sequence.
            following.set("is_init", following.get("is_init") | first)
        return root, following

    def _call(self, data: TensorDictBase, *keys: NestedKey) -> list[Array]:
        """The outputs at these keys, from one call for each part of `data` (see `_split`)."""
        traced = self._differentiates and any(map(is_differentiated, data.values(True, True)))
        with hold_out_net(self._network) if traced else nullcontext():
            outs = [self._network(part) for part in self._split(data)]
        values = []
        for key in keys:
            parts = [self._output(out, require_path(key), traced) for out in outs]
            values.append(parts[0] if len(parts) == 1 else np.concatenate(parts, self._pieces[2] % data.ndim))
        return values

    def _output(self, out: TensorDictBase, path: Path, traced: bool) -> Array:
        """An output: with its derivatives by the inputs if `traced`, else a constant."""
        value = out.get(path, None)
        if isinstance(value, HostArray) and not traced:
            out.set(path, detached(value))
        if value is None:
            raise KeyError(
                f"the value network writes {list(self._network.out_keys)}, the estimator reads "
                f"{path if len(path) > 1 else path[0]!r}: set_keys(value=...) names another entry."
            )
        return require_array(out, path, "an estimator of the value network", traced)

    def _split(self, data: TensorDictBase) -> Sequence[TensorDictBase]:
        """The parts of `data` that a call gets each, by `pieces`."""
        size, count, dim = self._pieces
        if size is None and count is None:
            return (data,)
        if not -data.ndim <= dim < data.ndim:
            raise ValueError(f"there is no value_chunk_dim {dim} in batch_size={tuple(data.batch_size)}.")
        length = data.batch_size[dim]
        if not length:
            return (data,)
        if size is not None:
            return list(data.split(size, dim))
        count = min(count or 1, length)
        return list(data.split([length // count + (i < length % count) for i in range(count)], dim))


def _with_params(params: TensorDictBase | None, network: Module) -> Any:
    """A context in which the network has these parameters; None for its own."""
    return nullcontext() if params is None else params.to_module(network)


def _is_float(entry: object) -> bool:
    return isinstance(entry, np.ndarray) and entry.dtype.kind in "fcV"  # V: bfloat16


def _paths(td: TensorDictBase) -> list[Path]:
    return [require_path(key) for key in td.keys(include_nested=True, leaves_only=True)]


def _per_step(flag: Array, td: TensorDictBase) -> NDArray[np.bool_]:
    """A flag of shape (*batch, ...) reduced to (*batch): True where it is True for any agent."""
    return np.asarray(flag.any(axis=tuple(range(td.ndim, flag.ndim))))


def _take_along(values: Array, index: NDArray[np.intp], axis: int) -> Array:
    """`np.take_along_axis` for values that may have more dimensions than the index."""
    index = index.reshape(index.shape + (1,) * (values.ndim - index.ndim))
    return np.take_along_axis(values, index, axis)


def last_valid(valid: Array, time_dim: int) -> Array:
    """The valid steps whose next step is not valid."""
    ahead = np.ones_like(valid)
    ahead.swapaxes(time_dim, -1)[..., :-1] = valid.swapaxes(time_dim, -1)[..., 1:]
    return valid & ~ahead


def expand_to(flag: Array, like: Array) -> Array:
    """A flag of shape (*batch) with dimensions of size 1 behind, so that it broadcasts to `like`."""
    return flag.reshape(flag.shape + (1,) * (like.ndim - flag.ndim))
