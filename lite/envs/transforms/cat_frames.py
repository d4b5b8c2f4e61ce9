"""`CatFrames`: the last frames of an episode side by side."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import NestedKey, TensorDictBase
from lite._arrays.caller import warn
from lite._arrays.public import belong_to
from lite._lazy_hooks import implementation
from lite._tree.keys import require_path
from lite.envs.transforms.base import Keys, apply_to_composite, is_graph, tolerant
from lite.envs.transforms.compose import Compose
from lite.envs.transforms.images import ImageTransform
from lite.envs.transforms.keys import ExcludeTransform
from lite.envs.transforms.resets import KeepingTransform, reset_mask
from lite.envs.transforms.spec_changes import mapped
from lite.kernels._integer import integer
from lite.nn._modules.initial import UninitializedBuffer
from lite.specs.base import TensorSpec

_PADDING = ("same", "constant")


class CatFrames(KeepingTransform, ImageTransform):
    """Joins each frame with the `N - 1` before it, of the same episode, the newest one last.

    In an environment it keeps the last frames. Called on a TensorDict, or as the transform of a buffer, it
    joins frames along time. At the start of an episode the missing frames are `padding`. Both ways give the
    same result; in a buffer, list ("next", key) in `in_keys` beside each key.

    Args:
        N: the number of frames.
        dim: the dimension along which they are joined, from the end: -1 for vectors, -3 for images.
        in_keys: entries to join; `["pixels"]` if None.
        out_keys: entries to write; `in_keys` if None.
        padding: "same" repeats the first frame, "constant" fills with `padding_value`.
        padding_value: the number of "constant".
        as_inverse: join when data enters a buffer, not when it is sampled.
        reset_key: the entry that is True where an environment starts an episode; the environment's if None.
        done_key: the entry of "next" that is True where an episode ends; "done" if None. It may have a
            dimension of agents.
        future: join each frame with the `N - 1` after it, the oldest one first. Not in an environment.
        mask_key: the entry to write that is True for frames that are padding, of shape (*batch, N). Not in
            an environment.

    The state dict has the kept frames. In a graph that `to_onnx` writes they are a state: input
    ("cat_frames", key), output ("next", "cat_frames", key). Another input is "is_init", bool of shape
    (*batch, 1), True at the first step of an episode. If no frames were kept before the export, the example
    given to `to_onnx` needs the entry ("cat_frames", key), for its shape.

    Raises:
        ValueError: N below 1, a `dim` that is not negative, an unknown `padding`; when called, no batch
            dimension, or frames whose leading dimensions are not those of the done entry.
        KeyError: when called, `("next", done_key)` is missing.
        RuntimeError: `future` or `mask_key` in an environment.

    Source:
        torchrl.envs.CatFrames.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import CatFrames
        >>> done = np.array([[False], [True], [False]])
        >>> entries = {"x": np.arange(3.0)[:, None], "next": {"done": done}}
        >>> td = TensorDict(entries, batch_size=[3], names=["time"])
        >>> CatFrames(2, -1, ["x"])(td)["x"].tolist()
        [[0.0, 0.0], [0.0, 1.0], [2.0, 2.0]]
    """

    _shown = ("N", "dim", "keys")

    def __init__(
        self,
        N: int,
        dim: int,
        in_keys: Keys = None,
        out_keys: Keys = None,
        padding: str = "same",
        padding_value: float = 0,
        as_inverse: bool = False,
        reset_key: NestedKey | None = None,
        done_key: NestedKey | None = None,
        future: bool = False,
        mask_key: NestedKey | None = None,
    ) -> None:
        super().__init__(in_keys, out_keys)
        if dim >= 0:
            raise ValueError(f"dim must be negative, got {dim}: batches come in front.")
        if padding not in _PADDING:
            raise ValueError(f"padding must be one of {_PADDING}, got {padding!r}.")
        integer("N", N, least=1)
        self.N, self.dim = N, dim
        self.padding, self.padding_value = padding, padding_value
        self.as_inverse = as_inverse
        self.reset_key = reset_key
        self.done_key: NestedKey = "done" if done_key is None else done_key
        self.future, self.mask_key = bool(future), mask_key
        for key in self.in_keys:
            self.register_buffer(_buffer_name(key), UninitializedBuffer())

    # -- in an environment ----------------------------------------------------------------------

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        if self.as_inverse and self.parent is not None:
            raise RuntimeError("CatFrames with as_inverse is for replay buffers, not for environments.")
        with tolerant(self):
            return self._call(tensordict_reset, reset_mask(self.reset_key, tensordict))

    def _call(self, next_tensordict: TensorDictBase, _reset: Any = None) -> TensorDictBase:
        if self.future or self.mask_key is not None:
            raise RuntimeError("CatFrames with future or mask_key needs whole episodes: use it in buffers.")
        self._lead = next_tensordict.ndim
        for source, target in zip(self.in_keys, self.out_keys, strict=True):
            frame = np.asarray(self._read(next_tensordict, source))
            next_tensordict.set(target, self._joined(_buffer_name(source), frame, _reset))
        return next_tensordict

    def _joined(self, name: str, frame: NDArray[Any], reset: NDArray[np.bool_] | None) -> NDArray[Any]:
        """Put a frame at the end of the kept ones, which restart where an episode does; returns a copy."""
        kept = self._buffers[name]
        size, axis = frame.shape[self.dim], frame.ndim + self.dim
        if not isinstance(kept, np.ndarray):
            shape = list(frame.shape)
            shape[self.dim] *= self.N
            kept = np.full(shape, self.padding_value, frame.dtype)
            self._set_buffer(name, kept)
        if reset is None:
            kept = np.concatenate([kept[_part(axis, slice(size, None))], frame], axis)
            self._buffers[name] = kept
        elif reset.all():
            kept[...] = self._first(frame, axis)
        else:
            # Other environments keep their frames: the reset is not a step of theirs.
            kept[reset] = self._first(frame[reset], axis - reset.ndim + 1)
        return kept.copy()

    def _first(self, frame: NDArray[Any], axis: int) -> NDArray[Any]:
        """The `N` joined frames at the first step of an episode, whose observation is `frame`."""
        if self.padding == "same":
            return np.concatenate([frame] * self.N, axis)
        return np.concatenate([np.full_like(frame, self.padding_value)] * (self.N - 1) + [frame], axis)

    @apply_to_composite
    def transform_observation_spec(self, observation_spec: TensorSpec) -> TensorSpec:
        if self.future:
            raise RuntimeError("CatFrames with future needs whole episodes: it is for replay buffers.")
        return mapped(observation_spec, lambda value: np.concatenate([value] * self.N, self.dim))

    # -- in a graph -----------------------------------------------------------------------------

    def graph_states(self, batch: tuple[int, ...]) -> dict[NestedKey, NDArray[Any] | None]:
        """Inputs of a graph besides `in_keys`: "is_init", and the kept frames (None if of unknown shape)."""
        states: dict[NestedKey, NDArray[Any] | None] = {"is_init": np.zeros((*batch, 1), np.bool_)}
        for key in self.in_keys:
            kept = self._buffers[_buffer_name(key)]
            if not isinstance(kept, np.ndarray):  # no environment was stepped, no state was loaded
                states[_state_key(key)] = None
                continue
            shape = (*batch, *kept.shape[self._lead :])
            states[_state_key(key)] = np.full(shape, self.padding_value, kept.dtype)
        return states

    def _acting(self, td: TensorDictBase) -> TensorDictBase:
        """One step in a graph: join the frames with those of the state; sets `next_states`."""
        start: Any = td.get("is_init")
        self.next_states: dict[NestedKey, Any] = {}
        for source, target in zip(self.in_keys, self.out_keys, strict=True):
            frame: Any = td.get(source)
            state: Any = td.get(_state_key(source))
            axis = frame.ndim + self.dim
            begins = start[(..., *(None,) * (frame.ndim - start.ndim))]
            following = np.concatenate([state[_part(axis, slice(int(frame.shape[axis]), None))], frame], axis)
            joined = np.where(begins, self._first(frame, axis), following)
            td.set(target, joined)
            self.next_states[_state_key(source)] = joined
        return td

    # -- along time -----------------------------------------------------------------------------

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Join the frames along time, in place; with `as_inverse`, return the TensorDict unchanged."""
        if is_graph(tensordict):
            return self._acting(tensordict)
        return tensordict if self.as_inverse else self.unfolding(tensordict)

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self.unfolding(tensordict) if self.as_inverse else tensordict

    def unfolding(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Join the frames along the dimension "time", or the last one, with a warning; in place."""
        if not tensordict.ndim:
            raise ValueError("CatFrames needs a batch dimension, the time; got a TensorDict without one.")
        if "time" in tensordict.names:
            time = tensordict.names.index("time")
        else:
            time = tensordict.ndim - 1
            warn("no dimension is called 'time': CatFrames takes the last one. names=[..., 'time'] says so.")
        keys = dict(zip(self.in_keys, self.out_keys, strict=True))
        done = tensordict.get(("next", self.done_key), None)
        if done is None and not self.future:
            raise KeyError(f"CatFrames reads {('next', self.done_key)}, which says where episodes end.")
        # With flags of agents, episodes end per agent: their dimension is one of the batch here.
        shape = (*tensordict.shape, *(() if done is None else done.shape[tensordict.ndim : -1]))
        sources, padded = self._windows(shape, time, done)
        if self.mask_key is not None:
            tensordict.set(self.mask_key, np.moveaxis(padded, -2, time))
        # Entries at the root first: those of "next" are made from the joined ones at the root.
        for key in sorted(keys, key=lambda key: isinstance(key, tuple)):
            frames = np.asarray(self._read(tensordict, key))
            if frames.shape[: len(shape)] != shape:
                raise ValueError(
                    f"{key!r} must begin with {shape}, as its done entry does, got {frames.shape}."
                )
            frames = np.moveaxis(frames, time, len(shape) - 1)
            root = keys.get(key[1]) if isinstance(key, tuple) and key[0] == "next" else None
            joined = self._gathered(frames, sources, padded)
            if root is not None:
                if self.future:
                    raise NotImplementedError("CatFrames with future takes no entry of 'next' and its root.")
                known = np.moveaxis(np.asarray(self._read(tensordict, root)), time, len(shape) - 1)
                axis, size = known.ndim + self.dim, frames.shape[self.dim]
                joined = np.concatenate([known[_part(axis, slice(size, None))], frames], axis)
            tensordict.set(keys[key], np.moveaxis(joined, len(shape) - 1, time))
        return tensordict

    def _windows(self, shape: tuple[int, ...], time: int, done: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """For each step the positions of the frames to join, and which of them are padding.

        Args:
            shape: the batch size, with the dimensions of agents.
            time: its dimension of time.
            done: where episodes end, or None.

        Returns:
            integers and booleans of shape (*batch without time, time, N).
        """
        length = shape[time]
        batch = (*shape[:time], *shape[time + 1 :])
        ended = np.zeros((*batch, length), np.bool_)
        if done is not None:
            flat = np.logical_or.reduce(np.asarray(done).reshape(*shape, -1), -1)
            ended[...] = np.moveaxis(flat, time, -1)
        steps = np.arange(length)
        if self.future:
            ends = np.where(ended, steps, length - 1)
            limit = np.minimum.accumulate(ends[..., ::-1], -1)[..., ::-1]
            sources = np.broadcast_to((steps[:, None] + np.arange(self.N)), (*batch, length, self.N))
            return np.minimum(sources, limit[..., None]), sources > limit[..., None]
        begins = np.concatenate([np.zeros((*batch, 1), np.bool_), ended[..., :-1]], -1)
        limit = np.maximum.accumulate(np.where(begins, steps, 0), -1)
        sources = np.broadcast_to(steps[:, None] - np.arange(self.N - 1, -1, -1), (*batch, length, self.N))
        return np.maximum(sources, limit[..., None]), sources < limit[..., None]

    def _gathered(self, frames: NDArray[Any], sources: NDArray[Any], padded: NDArray[Any]) -> NDArray[Any]:
        """`frames` of shape (*batch, time, ...) at the positions `sources`, joined along `dim`."""
        lead = sources.ndim - 2
        index = tuple(np.ogrid[tuple(slice(size) for size in sources.shape[:lead])]) if lead else ()
        windows = frames[(*(part[..., None, None] for part in index), sources)]
        if self.padding == "constant" and padded.any():
            windows[padded] = self.padding_value
        axis = frames.ndim + self.dim
        windows = np.moveaxis(windows, lead + 1, axis)
        return windows.reshape(*frames.shape[:axis], -1, *frames.shape[axis + 1 :])

    # -- in a buffer of single frames -----------------------------------------------------------

    def make_rb_transform_and_sampler(self, batch_size: int, **sampler_kwargs: Any) -> tuple[Compose, Any]:
        """A transform and a sampler for a buffer that stores each frame once and joins frames when sampled.

        The sampler draws slices of `N` steps, and the transform joins their frames at the last one, for
        in_keys and ("next", key) alike. `out_keys` are not stored, so they must differ from in_keys, unless
        transforms in front of this one make the in_keys from other entries.

        As in TorchRL, the first `N - 1` steps of episodes are not sampled. With `span=(True, False)` they are
        sampled as often as others, if the episode has `N` steps and its first one was not overwritten.

        Args:
            batch_size: has no effect, as in TorchRL: the buffer's batch size counts joined steps.
            **sampler_kwargs: for `SliceSampler`, such as `traj_key` and `span`.

        Returns:
            (transform, sampler), for a `ReplayBuffer`. A `TensorDictReplayBuffer` raises RuntimeError when it
            is sampled, because the sampler's information has a row for each single step.

        Raises:
            ImportError: `lite.data` is not imported.
            ValueError: `span` crosses the ends of episodes, or their starts with a padding other than "same";
                `strict_length` is False.

        Source:
            torchrl.envs.CatFrames.make_rb_transform_and_sampler.

        Example:
            >>> from lite.data import LazyTensorStorage, ReplayBuffer
            >>> from lite.envs import CatFrames, GymEnv, TransformedEnv
            >>> frames = CatFrames(4, -1, in_keys=["observation"], out_keys=["stacked"])
            >>> env = TransformedEnv(GymEnv("CartPole-v1"), frames)
            >>> transform, sampler = frames.make_rb_transform_and_sampler(32, end_key=("next", "done"))
            >>> buffer = ReplayBuffer(
            ...     storage=LazyTensorStorage(100), sampler=sampler, transform=transform, batch_size=32
            ... )
            >>> rows = buffer.extend(env.rollout(50, break_when_any_done=False))
            >>> "stacked" in buffer.storage[:], buffer.sample()["stacked"].shape
            (False, (32, 16))
        """
        in_keys, out_keys = (
            [*keys, *(("next", *require_path(key)) for key in keys)] for keys in (self.in_keys, self.out_keys)
        )
        joining = type(self)(
            self.N,
            self.dim,
            in_keys,
            out_keys,
            padding=self.padding,
            padding_value=self.padding_value,
            reset_key=self.__dict__.get("_reset_key"),
            done_key=self.done_key,
            future=self.future,
            mask_key=self.mask_key,
        )
        sampler = implementation("make_window_sampler", self, "lite.data")(
            self.N, self.padding == "same" and not self.future and self.mask_key is None, **sampler_kwargs
        )
        dropped = ExcludeTransform(*out_keys, inverse=True)
        return Compose(partial(_slices, self.N), joining, _last_steps, dropped), sampler


belong_to("lite.envs", CatFrames)


def _slices(length: int, tensordict: Any) -> Any:
    """The steps of a sample as slices of `length` steps: batch size (slices, length)."""
    return tensordict.reshape(-1, length).refine_names(..., "time")


def _last_steps(tensordict: Any) -> Any:
    """The last step of each slice."""
    return tensordict[:, -1]


def _buffer_name(key: NestedKey) -> str:
    return f"_cat_buffers_{key}"


def _state_key(key: NestedKey) -> tuple[str, ...]:
    return ("cat_frames", *require_path(key))


def _part(axis: int, part: slice) -> tuple[slice, ...]:
    """The index of a slice along one axis."""
    return (slice(None),) * axis + (part,)
