"""n-step returns of whole batches of sequences, and the observations they look ahead to."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite.kernels._arrays import Array, as_array, contiguous, is_float, native
from lite.kernels._device import gpu_of
from lite.kernels._integer import integer
from lite.kernels._threads import for_rows
from lite.kernels.returns import is_factor, number_array, short_time

_SERIAL = 100_000  # values: below, starting a thread costs more than it saves
_CHUNK = 30_000  # values handed to a thread at a time
_FEW = 8  # sequences side by side: fewer are copied one by one
# Dtypes of steps, index, gamma and nonterminal.
_OTHERS = [np.dtype(kind) for kind in (np.int64, np.int64, np.float32, np.bool_)]


class MultiStepReturn(NamedTuple):
    """Results of `multistep_return`; all but `reward` have the shape of `done`."""

    reward: NDArray[Any]
    """Discounted sum of the rewards of the window, in the shape and type of the rewards."""
    steps: NDArray[np.int64]
    """Length of the window: steps to the next observation, at least 1."""
    index: NDArray[np.int64]  # type: ignore[assignment]  # hides tuple.index
    """Where on the time axis the window ends; see `gather_time`."""
    gamma: NDArray[np.float32]
    """gamma ** steps: the discount of the value after the window."""
    nonterminal: NDArray[np.bool_]
    """Whether the window is longer than one step."""


def multistep_return(
    reward: ArrayLike, done: ArrayLike, *, gamma: float, n_steps: int, time_dim: int = -1, stream: Any = None
) -> MultiStepReturn:
    """Rewards summed over windows of `n_steps` that end early where an episode does.

    With e(t) the first step at or after t that is done, or the last step where none is:

        s(t) = min(n_steps, e(t) - t + 1)
        R(t) = r(t) + gamma r(t+1) + ... + gamma^(s(t)-1) r(t+s(t)-1)

    Sums are accumulated in float64; NaN or infinity reaches only the windows that contain it.

    Args:
        reward: the shape of `done`, and any feature axes after it. Floating, complex, integer or boolean.
        done: `(*batch, time, *more)`, boolean or integers read as booleans; True at an episode's last step.
        gamma: discount per step, in [0, 1].
        n_steps: rewards per window, at least 1.
        time_dim: the axis of `done` that is time.
        stream: for arrays in CUDA memory: a stream of Numba, CuPy or torch, or a handle. Results are there.

    Returns:
        `MultiStepReturn(reward, steps, index, gamma, nonterminal)`. Summed rewards keep their type, those
        of integers are float32.

    Raises:
        TypeError: a reward that is not a number, a done that is neither boolean nor integer, an `n_steps`
            that is not an integer, arrays partly in CUDA memory.
        ValueError: shapes that do not fit, gamma or n_steps out of range, no such time_dim.

    Source:
        Sutton (1988), Learning to predict by the methods of temporal differences.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import gather_time, multistep_return
        >>> reward = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
        >>> done = np.array([False, False, True, False])
        >>> out = multistep_return(reward, done, gamma=0.5, n_steps=2)
        >>> out.reward, gather_time(np.array([10, 20, 30, 40]), out.index)
        (array([2. , 3.5, 3. , 4. ], dtype=float32), array([20, 30, 30, 40]))
    """
    if stream is None and type(n_steps) is int and n_steps > 0 and is_factor(gamma):
        time = short_time(time_dim, (done,), reward)
        if time:
            return _few(reward, done, time, min(n_steps, time), float(gamma))
    gpu = gpu_of(stream, reward=reward, done=done)
    values, ends = as_array("reward", reward), as_array("done", done)
    if ends.dtype.kind not in "biu":
        raise TypeError(f"done must be boolean or integer, got {ends.dtype}")
    axis = _time_axis(ends, time_dim)
    if values.shape[: ends.ndim] != ends.shape:
        raise ValueError(
            f"reward must have the shape of done, and feature axes after it: got reward {values.shape}, "
            f"done {ends.shape}"
        )
    if not 0 <= number_array("gamma", gamma) <= 1:
        raise ValueError(f"gamma must be in [0, 1], got {gamma}")
    steps_asked = integer("n_steps", n_steps, least=1)
    _check_numbers(values)
    time = ends.shape[axis]
    window = max(1, min(steps_asked, time))
    if gpu is not None:
        from lite.kernels.cuda import multistep_return as cuda

        return MultiStepReturn(*cuda.multistep_return(gpu, values, ends, axis, float(gamma), window))

    work = _accumulable(values)
    if not ends.size:
        return MultiStepReturn(_as_rewards(work, values), *(np.empty(ends.shape, kind) for kind in _OTHERS))
    flags = ends if ends.dtype == np.bool_ else ends != 0
    lanes, features = math.prod(ends.shape[axis + 1 :]), work.size // ends.size
    if lanes * features > 1:
        sums, *others = _apart(work.reshape(-1, time, lanes, features), flags, window, float(gamma))
    else:
        reward_line, done_line = contiguous(work, work.dtype).ravel(), contiguous(flags, flags.dtype).ravel()
        sums, *others = _sequences(reward_line, done_line, time, window, float(gamma))
    return MultiStepReturn(_as_rewards(sums, values), *[out.reshape(ends.shape) for out in others])


def _apart(reward: NDArray[Any], done: NDArray[Any], window: int, gamma: float) -> list[NDArray[Any]]:
    """All results of sequences that are not contiguous: copied a few at a time, so that they fit a cache."""
    outer, time, lanes, features = reward.shape
    flags, each = done.reshape(outer, time, lanes, 1), max(1, _CHUNK // (time * lanes * features))
    kinds = [(reward, reward.dtype), *((flags, kind) for kind in _OTHERS)]
    out = [np.empty(like.shape, kind) for like, kind in kinds]

    def walk(start: int, stop: int) -> None:
        for first in range(start, stop, each):
            part = slice(first, min(first + each, stop))
            line, ends = (contiguous(a[part].transpose(3, 0, 2, 1), a.dtype).ravel() for a in (reward, flags))
            for target, found in zip(out, _sequences(line, ends, time, window, gamma), strict=True):
                source = found.reshape(target.shape[3], -1, lanes, time)
                if lanes * features > _FEW:
                    target[part] = source.transpose(1, 3, 2, 0)
                else:
                    for lane, feature in itertools.product(range(lanes), range(len(source))):
                        target[part, :, lane, feature] = source[feature, :, lane]

    for_rows(walk, outer, each if reward.size > _SERIAL else outer)
    return out


def _few(reward: Any, done: Any, time: int, window: int, gamma: float) -> MultiStepReturn:
    """`multistep_return` of arrays that `short_time` has checked."""
    sums, *others = _sequences(reward.ravel(), done.ravel(), time, window, gamma)
    return MultiStepReturn(sums.reshape(reward.shape), *[array.reshape(done.shape) for array in others])


def _sequences(
    reward: NDArray[Any], done: NDArray[Any], time: int, window: int, gamma: float
) -> list[NDArray[Any]]:
    """All results, flat as the arrays are; `reward` has the sequences of `done` once for each feature."""
    cpu = _compiled()
    out = [np.empty(reward.size, reward.dtype), *[np.empty(done.size, kind) for kind in _OTHERS]]
    powers, rows = _powers(gamma, window), done.size // time
    if reward.size <= _SERIAL:
        memory = cpu.work_memory(done.size, window)
        cpu.sequences(reward, done, time, window, powers, *out, memory, 0, rows)
        return out

    def walk(start: int, stop: int) -> None:
        memory = cpu.work_memory((stop - start) * time, window)
        cpu.sequences(reward, done, time, window, powers, *out, memory, start, stop)

    for_rows(walk, rows, max(1, _CHUNK // time))
    return out


@functools.cache  # an import within a function takes as long as a hundred steps do
def _compiled() -> Any:
    from lite.kernels.cpu import multistep_return

    return multistep_return


@functools.lru_cache(maxsize=4)  # a program asks for few; they take longer than a sequence of a hundred steps
def _powers(gamma: float, count: int) -> Any:
    """gamma ** k for k from 0 to `count`."""
    return gamma ** np.arange(count + 1.0)


def gather_time(
    array: ArrayLike, index: ArrayLike, *, time_dim: int = -1, stream: Any = None
) -> NDArray[Any]:
    """Move entries along time: `out[b, t] = array[b, index[b, t]]`, features included.

    Args:
        array: any type; its shape starts with the shape of `index`.
        index: integers, positions on the time axis, such as `multistep_return(...).index`.
        time_dim: the axis of `index` that is time.
        stream: for arrays in CUDA memory, as for `multistep_return`.

    Returns:
        A new array; on the host, `array` itself where every index points at its own place.

    Raises:
        TypeError: an index that is not of integers, one of the two arrays in CUDA memory.
        ValueError: shapes that do not fit, no such time_dim.
        IndexError: an index outside the time axis.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import gather_time
        >>> gather_time(np.array([[[1, 1], [2, 2], [3, 3]]]), np.array([[1, 2, 2]])).tolist()
        [[[2, 2], [3, 3], [3, 3]]]
    """
    gpu = gpu_of(stream, array=array, index=index)
    values, positions = as_array("array", array), as_array("index", index)
    if positions.dtype.kind not in "iu":
        raise TypeError(f"index must be of integers, got {positions.dtype}")
    axis = _time_axis(positions, time_dim)
    if values.shape[: positions.ndim] != positions.shape:
        raise ValueError(
            f"the shape of array must start with that of index: got array {values.shape}, "
            f"index {positions.shape}"
        )
    if gpu is not None:
        from lite.kernels.cuda import multistep_return as cuda

        return cuda.gather_time(gpu, values, positions, axis)
    outer, time = math.prod(positions.shape[:axis]), positions.shape[axis]
    lanes = math.prod(positions.shape[axis + 1 :])
    target = positions.reshape(outer, time, lanes)
    if np.logical_and.reduce(target == np.arange(time)[:, None], axis=None):
        return values
    least, most = int(np.minimum.reduce(target, axis=None)), int(np.maximum.reduce(target, axis=None))
    if least < 0 or most >= time:
        raise IndexError(f"index must be in [0, {time}), got {least} to {most}")
    flat = target.astype(np.int64, copy=False)
    if outer > 1:
        flat = flat + np.arange(0, outer * time, time)[:, None, None]
    if lanes > 1:
        flat = flat * lanes + np.arange(lanes)
    rows = values.reshape(outer * time * lanes, -1)
    moved_rows: NDArray[Any] = rows.take(flat.reshape(-1), axis=0)
    return moved_rows.reshape(values.shape)


def _time_axis(array: Array, time_dim: int) -> int:
    if not -array.ndim <= time_dim < array.ndim:
        raise ValueError(f"time_dim {time_dim} is out of range for the shape {array.shape}")
    return time_dim % int(array.ndim)


def _check_numbers(reward: Array) -> None:
    dtype = reward.dtype
    if dtype.kind not in "biu" and dtype.char not in "FD" and not is_float(dtype):
        raise TypeError(f"reward must be of numbers of at most 64 bits per part, got {reward.dtype}")


def _accumulable(reward: NDArray[Any]) -> NDArray[Any]:
    """`reward` as float32 or float64, which the kernel reads; complex numbers as pairs on a new last axis."""
    dtype = reward.dtype
    if dtype.kind in "biu":
        return reward.astype(np.float64)
    if is_float(dtype):
        return native(reward) if dtype.itemsize > 2 else reward.astype(np.float32)
    pairs = np.ascontiguousarray(native(reward))
    return pairs.view(pairs.real.dtype).reshape((*reward.shape, 2))


def _as_rewards(sums: NDArray[Any], reward: NDArray[Any]) -> NDArray[Any]:
    """Undo `_accumulable`, and give integers' sums the default floating type."""
    dtype = np.dtype(np.float32) if reward.dtype.kind in "biu" else native(reward[..., :0]).dtype
    sums = (sums.view(dtype) if dtype.kind == "c" else sums).reshape(reward.shape)
    if sums.dtype == dtype:
        return sums
    with np.errstate(over="ignore"):  # a sum too large for a narrow type is infinite, as in a wide one
        return sums.astype(dtype)
