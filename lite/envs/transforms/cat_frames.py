"""`CatFrames`: the last frames of an episode side by side."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import NestedKey, TensorDictBase
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

    In an environment it keeps the frames; called on a TensorDict, and on the way out of a buffer, it joins
    those along time. Where an episode is younger than `N` frames, the missing ones are `padding`. Both give
    the same: in a buffer, give entries ("next", key) together with those of key.

    Args:
        N: how many frames.
        dim: the dimension along which they are joined, from the end: -1 for vectors, -3 for images.
        in_keys, out_keys: entries to join, `["pixels"]` if None; where they go, `in_keys` if None.
        padding, padding_value: "same" repeats the first frame, "constant" takes the number.
        as_inverse: join on the way into a buffer, in place of the way out.
        reset_key: the entry that says which environments start an episode; found in the environment if None.
        done_key: the entry of "next" that says where episodes end, or those of agents; "done" if None.
        future: join each frame with the `N - 1` after it, the oldest one first. Not in an environment.
        mask_key: where to write which frames are padding, as booleans of shape (*batch, N). Not in an
            environment.

    The state dict has the kept frames. A graph that `to_onnx` writes has them as a state: it takes
    ("cat_frames", key) and gives ("next", "cat_frames", key), and takes "is_init", bool of shape (*batch, 1),
    which is True at the first step of an episode. The shape of frames is that of the kept ones; where none
    were kept yet, the example that `to_onnx` gets has ("cat_frames", key).

    Raises:
        ValueError: N below 1, a `dim` that is not negative, another `padding`; when called, no batch, or
            frames without the dimensions of the done entry.
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
            # Environments that go on keep their frames: a reset is no step of theirs.
            kept[reset] = self._first(frame[reset], axis - reset.ndim + 1)
        return kept.copy()

    def _first(self, frame: NDArray[Any], axis: int) -> NDArray[Any]:
        """The frames of an episode that starts with `frame`."""
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
        """Inputs of a graph besides `in_keys`: the kept frames, and where an episode starts.

        None for kept frames whose shape is not known.
        """
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
        """Join the frames of a step with those of the state, whose next values are `next_states`."""
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
        """Join the frames along time, in place; nothing with `as_inverse`."""
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
            warnings.warn(
                "no dimension is called 'time': CatFrames takes the last one. names=[..., 'time'] says so.",
                stacklevel=2,
            )
        keys = dict(zip(self.in_keys, self.out_keys, strict=True))
        done = tensordict.get(("next", self.done_key), None)
        if done is None and not self.future:
            raise KeyError(f"CatFrames reads {('next', self.done_key)}, which says where episodes end.")
        # Flags of agents say so of each of them.
        shape = (*tensordict.shape, *(() if done is None else done.shape[tensordict.ndim : -1]))
        sources, padded = self._windows(shape, time, done)
        if self.mask_key is not None:
            tensordict.set(self.mask_key, np.moveaxis(padded, -2, time))
        # Those at the root first: the ones of "next" go on from what they are joined to.
        for key in sorted(keys, key=lambda key: isinstance(key, tuple)):
            frames = np.asarray(tensordict.get(key))
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
                known = np.moveaxis(np.asarray(tensordict.get(root)), time, len(shape) - 1)
                axis, size = known.ndim + self.dim, frames.shape[self.dim]
                joined = np.concatenate([known[_part(axis, slice(size, None))], frames], axis)
            tensordict.set(keys[key], np.moveaxis(joined, len(shape) - 1, time))
        return tensordict

    def _windows(self, shape: tuple[int, ...], time: int, done: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """For each step the numbers of the frames to join, and which are padding: (*batch, time, N)."""
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
        """Frames of shape (*batch, time, ...), joined along `dim`."""
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
        """A transform and a sampler for a buffer that stores frames once, and joins them as they are drawn.

        The sampler draws slices of `N` steps, and the transform joins their frames at the last one, for
        in_keys and ("next", key) alike; `out_keys` are not stored. So in_keys and out_keys differ, or
        transforms in front of this one make the in_keys, from what is stored.

        As in TorchRL, the first `N - 1` steps of episodes are not drawn. With `span=(True, False)` they are,
        as often as others, where an episode has `N` steps and its first one was not written over.

        Args:
            batch_size: TorchRL's, without effect: the buffer has it, of joined steps.
            **sampler_kwargs: for `SliceSampler`, such as `traj_key` and `span`.

        Returns:
            both, for a `ReplayBuffer`. A `TensorDictReplayBuffer` raises RuntimeError as it is sampled: what
            the sampler tells of each step does not fit the joined ones.

        Raises:
            ImportError: `lite.data` is not imported.
            ValueError: `span` reaches over the ends of episodes, or over their starts where padding is not
                "same"; `strict_length` is False.

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
        return Compose(partial(_windows, self.N), joining, _last_steps, dropped), sampler


belong_to("lite.envs", CatFrames)


def _windows(length: int, tensordict: Any) -> Any:
    """Rows of `length` steps."""
    return tensordict.reshape(-1, length).refine_names(..., "time")


def _last_steps(tensordict: Any) -> Any:
    return tensordict[:, -1]


def _buffer_name(key: NestedKey) -> str:
    return f"_cat_buffers_{key}"


def _state_key(key: NestedKey) -> tuple[str, ...]:
    return ("cat_frames", *require_path(key))


def _part(axis: int, part: slice) -> tuple[slice, ...]:
    return (slice(None),) * axis + (part,)
