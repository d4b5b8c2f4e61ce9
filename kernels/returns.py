"""Returns of whole batches of sequences: sums of discounted rewards, and checks of what recursions take."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite.kernels._arrays import Array, as_array, broadcast_to, expand_dims, is_float
from lite.kernels._device import gpu_of
from lite.kernels._sequences import Sequences, work_dtype

if TYPE_CHECKING:
    from lite.kernels.cuda._gpu import Gpu


_SHORT = 4096  # values: the fixed cost of a call is negligible beyond
_FLAGS = np.dtype(np.bool_)


def short_time(time_dim: int, flags: tuple[Any, ...], *numbers: Any) -> int:
    """The number of steps if the arrays are small and compiled code can read them without conversion, else 0.

    They are NumPy's, C-ordered and writable; numbers are all float32 or all float64 and have the shape of the
    flags (and one feature); time is the last axis, or the one before an axis of length 1. For 0 the caller
    makes all checks and takes the general path.
    """
    done, first = flags[0], numbers[0]
    if type(first) is not np.ndarray or type(done) is not np.ndarray or not 0 < first.size <= _SHORT:
        return 0
    shape, kind = first.shape, first.dtype
    if kind.char not in "fd" or not kind.isnative or shape not in (done.shape, (*done.shape, 1)):
        return 0
    axes: tuple[int, ...] = done.shape
    for a in numbers:
        if not (type(a) is np.ndarray and a.dtype == kind and a.shape == shape and a.flags.carray):
            return 0
    for a in flags:
        if not (type(a) is np.ndarray and a.dtype == _FLAGS and a.shape == axes and a.flags.carray):
            return 0
    if axes and time_dim in (-1, len(axes) - 1):
        return axes[-1]
    return axes[-2] if len(axes) > 1 and axes[-1] == 1 and time_dim in (-2, len(axes) - 2) else 0


@functools.cache  # an import within a function takes as long as the recursion over a hundred steps
def compiled() -> Any:
    """The compiled recursions."""
    from lite.kernels.cpu import returns

    return returns


def is_factor(value: Any) -> bool:
    """Whether `value` is one of Python's numbers, and in [0, 1]."""
    return type(value) in (float, int) and 0 <= value <= 1


def number_array(name: str, value: ArrayLike) -> Array:
    """`value` as an array of real numbers."""
    array = as_array(name, value)
    if not is_float(array.dtype) and array.dtype.kind not in "biu":
        raise TypeError(f"{name} must be of real numbers of at most 64 bits, got {array.dtype}")
    return array


def flag_array(name: str, value: ArrayLike) -> Array:
    """`value` as booleans; on a GPU any integers, which its kernels read so."""
    array = as_array(name, value)
    if array.dtype.kind not in "biu":
        raise TypeError(f"{name} must be boolean or integer, got {array.dtype}")
    return array if array.dtype == np.bool_ or not isinstance(array, np.ndarray) else array != 0


def same_shape(shape: tuple[int, ...], **arrays: Array) -> None:
    """Raise ValueError for an array that has not the shape of the rewards."""
    for name, array in arrays.items():
        if array.shape != shape:
            raise ValueError(
                f"{name} must have the shape of reward: got {name} {array.shape}, reward {shape}"
            )


def with_features(name: str, flags: Array, shape: tuple[int, ...]) -> Array:
    """`flags` with axes added for the features that only the rewards have."""
    if flags.shape != shape[: flags.ndim]:
        raise ValueError(
            f"reward must have the shape of {name}, and feature axes after it: got reward {shape}, "
            f"{name} {flags.shape}"
        )
    return flags.reshape(flags.shape + (1,) * (len(shape) - flags.ndim))


def sequences_of(flags: Array, like: Array, time_dim: int, gpu: Gpu | None) -> Any:
    """The walk over arrays of the shape of `like`, time being axis `time_dim` of `flags`."""
    if not -flags.ndim <= time_dim < flags.ndim:
        raise ValueError(f"time_dim {time_dim} is out of range for done of shape {flags.shape}")
    axis = time_dim % flags.ndim
    if gpu is None:
        return Sequences(like.shape, axis)
    from lite.kernels.cuda._sequences import Sequences as DeviceSequences

    return DeviceSequences(gpu, like, axis)


def factor(name: str, array: Array, walk: Any) -> Any:
    """A discount or a mixing factor, one for all steps or one for each, as an operand."""
    if not isinstance(array, np.ndarray):
        from lite.kernels.cuda._checks import check_range

        check_range(walk.gpu, name, array, 0.0, 1.0)
    elif array.size:
        lowest, highest = (array.min(), array.max()) if array.ndim else (array.item(),) * 2
        if not (lowest >= 0 and highest <= 1):  # NaN is out of range, too
            raise ValueError(f"{name} must be in [0, 1], got {lowest} to {highest}")
    try:
        return walk.operand(array, np.float64)
    except ValueError:
        raise ValueError(
            f"{name} must be a number or broadcast to the rewards: got {array.shape}, reward {walk.shape}"
        ) from None


def result_dtype(array: Array) -> np.dtype[Any]:
    """The floating type of a result that goes with `array`; float32 with integers."""
    return array.dtype.newbyteorder("=") if is_float(array.dtype) else np.dtype(np.float32)


def as_result(out: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """`out` in the type `dtype`, in which a GPU has written it, and in the usual order."""
    result: NDArray[Any] = out
    if isinstance(out, np.ndarray) and not (out.dtype == dtype and out.flags.c_contiguous):
        with np.errstate(over="ignore"):  # too large for a narrow type is infinite, as in a wide one
            result = np.ascontiguousarray(out, dtype).reshape(out.shape)
    return result


def td_lambda_return(
    reward: ArrayLike, next_value: ArrayLike, done: ArrayLike, terminated: ArrayLike | None = None, *,
    gamma: ArrayLike, lmbda: ArrayLike, time_dim: int = -1, rolling: bool = True, stream: Any = None,
) -> NDArray[Any]:  # fmt: skip
    """Mixtures of the returns of all lengths, weighted by powers of lambda; accumulated in float64.

    With W(t) the value after step t, or 0 where that step terminated:

        G(t) = r(t) + gamma ((1 - lambda) W(t) + lambda G(t+1))

    and W(t) in place of G(t+1) at the last step of an episode and at the end of the batch. A step that
    is done but not terminated was truncated: W(t) is its own next value.

    Args:
        reward: the shape of `done`, and any feature axes after it. Real numbers.
        next_value: the shape of `reward`: value of the observation after each step, also an episode's last.
        done: `(*batch, time, *more)`, boolean or integers read as booleans; True at an episode's last step.
        terminated: as `done`; True where the episode ended by itself, so that nothing follows. None:
            every done step terminated.
        gamma, lmbda: discount and decay in [0, 1], numbers or arrays that broadcast to the rewards.
        time_dim: the axis of `done` that is time.
        rolling: gamma and lambda of a step apply at that step, in every return. False: a return uses those
            of its first step throughout; this takes time in proportion to the length of the episodes.
        stream: for arrays in CUDA memory: a stream of Numba, CuPy or torch, or a handle. Results are there.

    Returns:
        The returns, in the shape of `reward` and the floating type of `next_value`.

    Raises:
        TypeError: arrays of other types, arrays partly in CUDA memory.
        ValueError: shapes that do not fit, factors out of range, no such time_dim.

    Source:
        Sutton and Barto (2018), Reinforcement Learning, section 12.1; Pardo et al. (2018), Time limits in
        reinforcement learning (arXiv:1712.00378), for truncated steps.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import td_lambda_return
        >>> reward, next_value = np.ones(4, np.float32), np.full(4, 8, np.float32)
        >>> done = np.array([False, True, False, False])
        >>> td_lambda_return(reward, next_value, done, gamma=0.5, lmbda=0.5)
        array([3.25, 1.  , 4.25, 5.  ], dtype=float32)
    """
    if stream is None and rolling and is_factor(gamma) and is_factor(lmbda):
        ends = done if terminated is None else terminated
        time = short_time(time_dim, (done, ends), reward, next_value)
        if time:
            return _short(reward, next_value, done, ends, gamma, lmbda, time)
    gpu = gpu_of(
        stream,
        reward=reward,
        next_value=next_value,
        done=done,
        terminated=terminated,
        gamma=gamma,
        lmbda=lmbda,
    )
    rewards, values = number_array("reward", reward), number_array("next_value", next_value)
    same_shape(rewards.shape, next_value=values)
    flags = flag_array("done", done)
    stops = None if terminated is None else flag_array("terminated", terminated)
    factors = number_array("gamma", gamma), number_array("lmbda", lmbda)
    dtype = result_dtype(values)
    return _returns(gpu, rewards, values, flags, stops, *factors, time_dim, dtype, rolling=rolling)


def td1_return(
    reward: ArrayLike, next_value: ArrayLike, done: ArrayLike, terminated: ArrayLike | None = None, *,
    gamma: ArrayLike, time_dim: int = -1, rolling: bool = True, stream: Any = None,
) -> NDArray[Any]:  # fmt: skip
    """Sums of all rewards to the end of the episode, and the value there if it was cut off.

    `td_lambda_return` with lambda 1; arguments, results and errors are described there.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import td1_return
        >>> td1_return(np.ones(3), np.full(3, 8.0), np.zeros(3, bool), gamma=0.5)
        array([2.75, 3.5 , 5.  ])
    """
    return td_lambda_return(
        reward,
        next_value,
        done,
        terminated,
        gamma=gamma,
        lmbda=1.0,
        time_dim=time_dim,
        rolling=rolling,
        stream=stream,
    )


def td0_return(
    reward: ArrayLike, next_value: ArrayLike, terminated: ArrayLike, *, gamma: ArrayLike, stream: Any = None
) -> NDArray[Any]:
    """The reward of each step and the discounted value after it: r + gamma (1 - terminated) next_value.

    `td_lambda_return` with lambda 0, which needs no axis of time; arguments, results and errors are
    described there.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import td0_return
        >>> td0_return(np.ones(3), np.full(3, 8.0), np.array([False, False, True]), gamma=0.5)
        array([5., 5., 1.])
    """
    gpu = gpu_of(stream, reward=reward, next_value=next_value, terminated=terminated, gamma=gamma)
    rewards, values = number_array("reward", reward), number_array("next_value", next_value)
    same_shape(rewards.shape, next_value=values)
    ends = with_features("terminated", flag_array("terminated", terminated), rewards.shape)
    kind = rewards.dtype
    if gpu is None and is_factor(gamma) and kind == values.dtype and kind.char in "fd" and kind.isnative:
        # Three passes of NumPy read and write less than a recursion does; np.where takes as long as all.
        out = np.empty(rewards.shape, kind) if gamma else np.zeros(rewards.shape, kind)
        with np.errstate(over="ignore", invalid="ignore"):
            if gamma:
                np.multiply(values, gamma, out=out)
                np.copyto(out, kind.type(0), where=ends)
            return np.add(out, rewards, out=out)
    # No return looks ahead, so whatever axis may be time. On the CPU it is a new one, of one step; on a GPU
    # one that fills a tile.
    shape, axis = (1, *rewards.shape), 0
    if gpu is not None:
        from lite.kernels.cuda._sequences import longest_axis

        axis = longest_axis(shape)
    out = _returns(
        gpu, rewards.reshape(shape), values.reshape(shape), broadcast_to(ends, rewards.shape).reshape(shape),
        None, number_array("gamma", gamma), np.zeros(()), axis, result_dtype(values),
    )  # fmt: skip
    return out.reshape(rewards.shape)


def reward_to_go(
    reward: ArrayLike, done: ArrayLike, *, gamma: ArrayLike = 1.0, time_dim: int = -1, stream: Any = None
) -> NDArray[Any]:
    """Discounted sums of the rewards from each step to the end of its episode, or of the batch.

    G(t) = r(t) + gamma G(t+1), and nothing after a done step. Exact for any length: no term is dropped.

    Args:
        reward: the shape of `done`, and any feature axes after it. Real numbers.
        done: `(*batch, time, *more)`, boolean or integers read as booleans; True at an episode's last step.
        gamma: discount in [0, 1], a number or an array that broadcasts to the rewards.
        time_dim: the axis of `done` that is time.
        stream: for arrays in CUDA memory, where the results then are: a Numba stream, the handle of one,
            or a stream of CuPy or torch.

    Returns:
        The sums, in the shape of `reward` and its floating type; float32 for integers.

    Raises:
        TypeError: arrays of other types, arrays partly in CUDA memory.
        ValueError: shapes that do not fit, gamma out of range, no such time_dim.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import reward_to_go
        >>> reward_to_go(np.array([0, 0, 3, 0, 1]), np.array([0, 0, 1, 0, 0]))
        array([3., 3., 3., 1., 1.], dtype=float32)
    """
    return discounted_return(reward, done, gamma=gamma, time_dim=time_dim, stream=stream)


def discounted_return(
    reward: ArrayLike, done: ArrayLike, last_value: ArrayLike | None = None, *, gamma: ArrayLike,
    time_dim: int = -1, stream: Any = None,
) -> NDArray[Any]:  # fmt: skip
    """`reward_to_go` of sequences that go on after the batch.

    Args:
        reward: the shape of `done`, and any feature axes after it. Real numbers.
        done: `(*batch, time, *more)`, boolean or integers read as booleans; True at an episode's last
            step, after which nothing follows.
        last_value: the shape of `reward` without time: the value of the observation after the last step,
            which counts where that step is not done. None: 0.
        gamma: discount in [0, 1], a number or an array that broadcasts to the rewards.
        time_dim: the axis of `done` that is time.
        stream: for arrays in CUDA memory, where the results then are: a Numba stream, the handle of one,
            or a stream of CuPy or torch.

    Returns:
        The sums, in the shape of `reward` and its floating type; float32 for integers.

    Raises:
        TypeError: arrays of other types, arrays partly in CUDA memory.
        ValueError: shapes that do not fit, gamma out of range, no such time_dim.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import discounted_return
        >>> reward, done = np.ones((2, 3)), np.array([[False] * 3, [False, False, True]])
        >>> discounted_return(reward, done, np.array([8.0, 8.0]), gamma=0.5)
        array([[2.75, 3.5 , 5.  ],
               [1.75, 1.5 , 1.  ]])
    """
    if stream is None and last_value is None and is_factor(gamma):
        time = short_time(time_dim, (done,), reward)
        if time:
            return _short(reward, np.zeros_like(reward), done, done, gamma, 1.0, time)
    gpu = gpu_of(stream, reward=reward, done=done, last_value=last_value, gamma=gamma)
    rewards = number_array("reward", reward)
    flags = flag_array("done", done)
    last: Array = np.zeros((), np.float32)
    if last_value is not None:
        with_features("done", flags, rewards.shape)
        axis = sequences_of(flags, rewards, time_dim, gpu).axis
        last = number_array("last_value", last_value)
        expected = rewards.shape[:axis] + rewards.shape[axis + 1 :]
        if last.shape != expected:
            raise ValueError(
                f"last_value must have the shape of reward without time, {expected}: got {last.shape}"
            )
        last = expand_dims(last, axis)
    factors = number_array("gamma", gamma), np.ones(())
    return _returns(gpu, rewards, last, flags, None, *factors, time_dim, result_dtype(rewards))


def _short(reward: Any, value: Any, done: Any, ends: Any, gamma: Any, lmbda: Any, time: int) -> NDArray[Any]:
    """Returns of arrays that `short_time` has checked."""
    n = reward.size
    out, memory = np.empty(n, reward.dtype), np.empty(4 * n + n // time)
    compiled().short_lambda_returns(
        reward.ravel(), value.ravel(), done.ravel(), ends.ravel(), float(gamma), float(lmbda), out, memory,
        time,
    )  # fmt: skip
    return out.reshape(reward.shape)


def _returns(
    gpu: Any, rewards: Array, values: Array, done: Array, terminated: Array | None, gamma: Array,
    lmbda: Array, time_dim: int, dtype: np.dtype[Any], *, rolling: bool = True,
) -> NDArray[Any]:  # fmt: skip
    """`td_lambda_return` of values that broadcast to the rewards."""
    ends = with_features("done", done, rewards.shape)
    stops = ends if terminated is None else with_features("terminated", terminated, rewards.shape)
    walk = sequences_of(done, rewards, time_dim, gpu)
    discounts, mixes = factor("gamma", gamma, walk), factor("lmbda", lmbda, walk)
    work = work_dtype(rewards, values)
    out, target = walk.empty(work, dtype)
    if out.size:
        walk.run(
            "lambda_returns" if rolling else "fixed_lambda_returns", walk.operand(rewards, work),
            walk.operand(values, work), walk.operand(ends, np.bool_), walk.operand(stops, np.bool_),
            discounts, mixes, target,
        )  # fmt: skip
    return as_result(out, dtype)
