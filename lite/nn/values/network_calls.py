"""The value network on the observations of a rollout and on the next ones: in two calls, or in one."""

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
    """The values of a rollout by a value network."""

    present: Array
    following: Array
    valid: Array | None
    """Which steps have both values, of the shape of the batch; None: all."""


class NetworkCalls:
    """Calls of `network` for the outputs `keys`: of the observations, and of the next ones.

    Args:
        pieces: the most elements a call sees of a batch dimension, or how many calls there are, and that
            dimension.
        differentiates: whether outputs have the derivatives by inputs; else all are constants.
    """

    def __init__(
        self, network: Module, keys: tuple[NestedKey, NestedKey],
        pieces: tuple[int | None, int | None, int], differentiates: bool = False,
    ) -> None:  # fmt: skip
        self._network = network
        self._present, self._following = keys
        self._pieces = pieces
        self._differentiates = differentiates

    def twice(
        self, tensordict: TensorDictBase, params: TensorDictBase | None, target_params: TensorDictBase | None
    ) -> Values:
        """The observations with `params`, the next ones with `target_params`, which are the same if None."""
        if params is None and target_params is not None:
            raise ValueError("target_params need params beside them; got target_params alone.")
        if target_params is None:
            target_params = params
        root, following = self._inputs(tensordict)
        with _exchanged(params, self._network):
            (present,) = self._call(root, self._present)
        with _exchanged(target_params, self._network):
            (ahead,) = self._call(following, self._following)
        return Values(present, ahead, None)

    def ahead(self, tensordict: TensorDictBase, params: TensorDictBase | None) -> Array:
        """The next observations alone."""
        _, following = self._inputs(tensordict)
        with _exchanged(params, self._network):
            return self._call(following, self._following)[0]

    def once(
        self, tensordict: TensorDictBase, time_dim: int, flags: Sequence[Array], budget: int,
        params: TensorDictBase | None,
    ) -> Values:  # fmt: skip
        """Both from one sequence: observations, with the next one after each truncation and after the last.

        The sequence has `budget` steps more than the rollout. What does not fit is not valid.
        """
        root, following = self._inputs(tensordict)
        for path in _paths(root):  # such as states of a recurrent network, which "next" need not have
            if following.get(path, None) is None:
                following.set(path, root.get(path))
        root, following = root.transpose(time_dim, -1), following.transpose(time_dim, -1)
        done, terminated = flags
        cut = _per_step(done & ~terminated, tensordict).swapaxes(time_dim, -1)
        steps = cut.shape[-1]
        before: NDArray[np.intp] = np.cumsum(cut, -1) - cut
        place = np.arange(steps) + before
        length = steps + budget
        valid = place + 1 < length
        # The next observation stands after a cut, after the last step that has room, and at the end.
        inserted = (cut & valid) | last_valid(valid, -1)
        inserted[..., -1:] |= valid[..., -1:]
        sequence = root.new_zeros((*root.batch_size[:-1], length))
        for td, at, kept in ((root, place, place < length), (following, place + 1, inserted)):
            where = np.nonzero(kept)
            index = (*where[:-1], at[where])
            for path in _paths(td):
                entry = sequence.get(path, None)
                if entry is not None:
                    entry[index] = td.get(path)[where]
        with _exchanged(params, self._network):
            found = self._call(sequence.transpose(time_dim, -1), self._present, self._following)
        ahead = np.minimum(place + 1, length - 1)
        present = _taken(found[0], np.minimum(place, length - 1).swapaxes(time_dim, -1), time_dim)
        after = _taken(found[1], ahead.swapaxes(time_dim, -1), time_dim)
        return Values(present, after, valid.swapaxes(time_dim, -1))

    def _inputs(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """The inputs of the network, with values that are present, of the observations and the next ones."""
        paths = [require_path(key) for key in self._network.in_keys]
        root = tensordict.select(*paths, self._present, strict=False)
        if tensordict.get("next", None) is None:
            raise KeyError("estimators read what follows each step from 'next', which the TensorDict lacks.")
        following = tensordict.get("next").select(*paths, self._following, strict=False)
        for path in paths:
            ahead, now = following.get(path, None), root.get(path, None)
            if _floats(now) and _floats(ahead) and now.shape == ahead.shape:
                missing = ahead != ahead
                if missing.any():
                    following.set(path, np.where(missing, now, ahead))
        first = root.get("is_init", None)
        if first is not None and following.get("is_init", None) is not None:
            # A recurrent network must not take the next observations for one sequence.
            following.set("is_init", following.get("is_init") | first)
        return root, following

    def _call(self, data: TensorDictBase, *keys: NestedKey) -> list[Array]:
        """The outputs of these keys, in as many calls as it takes."""
        differs = self._differentiates and any(map(is_differentiated, data.values(True, True)))
        if differs:
            with hold_out_net(self._network):
                outs = [self._network(part) for part in self._split(data)]
        else:
            outs = [self._network(part) for part in self._split(data)]
        found = []
        for key in keys:
            parts = [self._output(out, require_path(key), differs) for out in outs]
            found.append(parts[0] if len(parts) == 1 else np.concatenate(parts, self._pieces[2] % data.ndim))
        return found

    def _output(self, out: TensorDictBase, path: Path, differs: bool) -> Array:
        """An output, a constant unless it `differs` with the inputs."""
        value = out.get(path, None)
        if isinstance(value, HostArray) and not differs:
            out.set(path, detached(value))
        if value is None:
            raise KeyError(
                f"the value network writes {list(self._network.out_keys)}, the estimator reads "
                f"{path if len(path) > 1 else path[0]!r}: set_keys(value=...) names another entry."
            )
        return require_array(out, path, "an estimator of the value network", differs)

    def _split(self, data: TensorDictBase) -> Sequence[TensorDictBase]:
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


def _exchanged(params: TensorDictBase | None, network: Module) -> Any:
    return nullcontext() if params is None else params.to_module(network)


def _floats(entry: object) -> bool:
    return isinstance(entry, np.ndarray) and entry.dtype.kind in "fcV"  # V: bfloat16


def _paths(td: TensorDictBase) -> list[Path]:
    return [require_path(key) for key in td.keys(include_nested=True, leaves_only=True)]


def _per_step(flag: Array, td: TensorDictBase) -> NDArray[np.bool_]:
    """A flag of the shape of the batch: where it is True of any agent."""
    return np.asarray(flag.any(axis=tuple(range(td.ndim, flag.ndim))))


def _taken(values: Array, index: NDArray[np.intp], axis: int) -> Array:
    index = index.reshape(index.shape + (1,) * (values.ndim - index.ndim))
    return np.take_along_axis(values, index, axis)


def last_valid(valid: Array, time_dim: int) -> Array:
    """The steps that are valid before one that is not."""
    ahead = np.ones_like(valid)
    ahead.swapaxes(time_dim, -1)[..., :-1] = valid.swapaxes(time_dim, -1)[..., 1:]
    return valid & ~ahead


def expand_to(flag: Array, like: Array) -> Array:
    """A flag of the shape of the batch, as it broadcasts to an array of more dimensions."""
    return flag.reshape(flag.shape + (1,) * (like.ndim - flag.ndim))
