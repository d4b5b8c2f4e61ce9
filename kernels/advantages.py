"""Advantages of whole batches of sequences: generalized advantage estimates, V-trace and Retrace."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite.kernels._arrays import Array
from lite.kernels._device import gpu_of
from lite.kernels._sequences import work_dtype
from lite.kernels.returns import (
    as_result,
    compiled,
    factor,
    flag_array,
    is_factor,
    number_array,
    result_dtype,
    same_shape,
    sequences_of,
    short_time,
    with_features,
)


class Advantage(NamedTuple):
    """Results of `gae`, `vtrace` and `retrace`, with the shape of the rewards and the dtype of the values."""

    advantage: NDArray[Any]
    """How much better each step went than its value said."""
    value_target: NDArray[Any]
    """The target of each step's value."""


def gae(
    reward: ArrayLike, value: ArrayLike, next_value: ArrayLike, done: ArrayLike,
    terminated: ArrayLike | None = None, *, gamma: ArrayLike, lmbda: ArrayLike, time_dim: int = -1,
    stream: Any = None,
) -> Advantage:  # fmt: skip
    """Generalized advantage estimates, accumulated in float64 in one pass.

    With W(t) the next value of step t, or 0 where that step terminated:

        d(t) = r(t) + gamma W(t) - V(t)
        A(t) = d(t) + gamma lambda A(t+1)

    A(t+1) is 0 at the last step of an episode and at the end of the batch. A step that is done but not
    terminated was truncated: W(t) is its own next value.

    Args:
        reward: the shape of `done`, and any feature axes after it. Real numbers.
        value: the shape of `reward`: the value of the observation before each step.
        next_value: the shape of `reward`: that of the observation after it, also after an episode's last.
        done: `(*batch, time, *more)`, boolean or integers read as booleans; True at an episode's last step.
        terminated: as `done`; True where the episode ended by itself, so that nothing follows. None:
            every done step terminated.
        gamma, lmbda: discount and decay in [0, 1], numbers or arrays that broadcast to the rewards.
        time_dim: the axis of `done` that is time.
        stream: for arrays in CUDA memory: a stream of Numba, CuPy or torch, or a handle. Results are there.

    Returns:
        `Advantage(advantage, value_target)`; the targets are A + V.

    Raises:
        TypeError: arrays of other types, arrays partly in CUDA memory.
        ValueError: shapes that do not fit, factors out of range, no such time_dim.

    Source:
        Schulman et al. (2016), High-dimensional continuous control using generalized advantage estimation
        (arXiv:1506.02438).

    Example:
        >>> import numpy as np
        >>> from lite.kernels import gae
        >>> one, done = np.ones(3, np.float32), np.array([False, True, False])
        >>> gae(one, one, one, done, gamma=0.5, lmbda=0.5).advantage
        array([0.5, 0. , 0.5], dtype=float32)
    """
    if stream is None and is_factor(gamma) and is_factor(lmbda):
        ends = done if terminated is None else terminated
        time = short_time(time_dim, (done, ends), reward, value, next_value)
        if time:
            return _short(reward, value, next_value, done, ends, gamma, lmbda, time)
    return _advantages(
        stream, None, None, reward, value, next_value, done, terminated, gamma, lmbda, 1.0, 1.0, time_dim,
        weighted=False,
    )  # fmt: skip


def _short(
    reward: Any, value: Any, next_value: Any, done: Any, ends: Any, gamma: Any, lmbda: Any, time: int
) -> Advantage:
    """`gae` of arrays that `short_time` has checked."""
    n, shape, kind = reward.size, reward.shape, reward.dtype
    advantage, target, memory = np.empty(n, kind), np.empty(n, kind), np.empty(4 * n + n // time)
    compiled().short_advantages(
        reward.ravel(), value.ravel(), next_value.ravel(), done.ravel(), ends.ravel(), float(gamma),
        float(lmbda), advantage, target, memory, time,
    )  # fmt: skip
    return Advantage(advantage.reshape(shape), target.reshape(shape))


def vtrace(
    log_pi: ArrayLike, log_mu: ArrayLike, reward: ArrayLike, value: ArrayLike, next_value: ArrayLike,
    done: ArrayLike, terminated: ArrayLike | None = None, *, gamma: ArrayLike, lmbda: ArrayLike = 1.0,
    rho_thresh: float = 1.0, c_thresh: float = 1.0, time_dim: int = -1, stream: Any = None,
) -> Advantage:  # fmt: skip
    """Value targets and advantages of a policy, from the steps of another one.

    With w = exp(log_pi - log_mu), rho = min(w, rho_thresh), c = lambda min(w, c_thresh), and W as for `gae`:

        x(t) = rho(t) (r(t) + gamma W(t) - V(t)) + gamma c(t) x(t+1)
        target(t) = V(t) + x(t)
        advantage(t) = rho(t) (r(t) + gamma target(t+1) - V(t))

    At the last step of an episode and at the end of the batch x(t+1) is 0, and W(t) stands for
    target(t+1): a step that was cut off goes on with its own next value.

    Args:
        log_pi: the shape of `reward`: log-probability of each action under the policy that learns.
        log_mu: the same under the policy that acted.
        reward, value, next_value, done, terminated, gamma, time_dim, stream: as for `gae`.
        lmbda: as in the paper's remark 2, in [0, 1].
        rho_thresh: largest weight of a step; decides which policy's value is learned.
        c_thresh: largest weight in the traces; decides how fast.

    Returns:
        `Advantage(advantage, value_target)`.

    Raises:
        TypeError: arrays of other types, arrays partly in CUDA memory.
        ValueError: shapes that do not fit, factors out of range, a negative threshold, no such time_dim.

    Source:
        Espeholt et al. (2018), IMPALA (arXiv:1802.01561), section 4.1.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import vtrace
        >>> one, zero, done = np.ones(3, np.float32), np.zeros(3, np.float32), np.zeros(3, bool)
        >>> log_pi = np.log(np.array([0.5, 1, 2], np.float32))
        >>> advantage, target = vtrace(log_pi, zero, one, one, one, done, gamma=0.5)
        >>> target
        array([1.4375, 1.75  , 1.5   ], dtype=float32)
        >>> advantage
        array([0.4375, 0.75  , 0.5   ], dtype=float32)
    """
    for name, threshold in (("rho_thresh", rho_thresh), ("c_thresh", c_thresh)):
        if not threshold >= 0:
            raise ValueError(f"{name} must not be negative, got {threshold}")
    return _advantages(
        stream, log_pi, log_mu, reward, value, next_value, done, terminated, gamma, lmbda, float(rho_thresh),
        float(c_thresh), time_dim,
    )  # fmt: skip


def retrace(
    log_pi: ArrayLike, log_mu: ArrayLike, reward: ArrayLike, value: ArrayLike, next_value: ArrayLike,
    done: ArrayLike, terminated: ArrayLike | None = None, *, gamma: ArrayLike, lmbda: ArrayLike = 1.0,
    time_dim: int = -1, stream: Any = None,
) -> Advantage:  # fmt: skip
    """Targets for the values of actions under a policy, from the steps of another one.

    With Q(t) the value of the action that was taken, W(t) the value of the next observation under the policy
    that learns (its mean of Q over actions), 0 where step t terminated, and
    c(t) = lambda min(1, exp(log_pi(t) - log_mu(t))):

        x(t) = r(t) + gamma W(t) - Q(t) + gamma c(t+1) x(t+1)
        target(t) = Q(t) + x(t)

    At the last step of an episode and at the end of the batch x(t+1) is 0. A step's own weight does not count
    for its own target, as the value is that of its action, whoever took it.

    Args:
        log_pi: the shape of `reward`: log-probability of each action under the policy that learns.
        log_mu: the same under the policy that acted.
        reward, next_value, done, terminated, gamma, time_dim, stream: as for `gae`.
        value: the shape of `reward`: the value of each step's observation and action.
        lmbda: in [0, 1], a number or an array that broadcasts to the rewards.

    Returns:
        `Advantage(advantage, value_target)`: x, and the targets.

    Raises:
        TypeError: arrays of other types, arrays partly in CUDA memory.
        ValueError: shapes that do not fit, factors out of range, no such time_dim.

    Source:
        Munos et al. (2016), Safe and efficient off-policy reinforcement learning (arXiv:1606.02647).

    Example:
        >>> import numpy as np
        >>> from lite.kernels import retrace
        >>> one, done = np.ones(3, np.float32), np.zeros(3, bool)
        >>> log_pi, log_mu = np.log(np.array([[0.5, 1, 2], [1, 2, 1]], np.float32))
        >>> advantage, target = retrace(log_pi, log_mu, one, one, one, done, gamma=0.5)
        >>> target
        array([1.6875, 1.75  , 1.5   ], dtype=float32)
    """
    return _advantages(
        stream, log_pi, log_mu, reward, value, next_value, done, terminated, gamma, lmbda, 1.0, 1.0, time_dim,
        traced=True,
    )  # fmt: skip


def _advantages(
    stream: Any, log_pi: Any, log_mu: Any, reward: ArrayLike, value: ArrayLike,
    next_value: ArrayLike, done: ArrayLike, terminated: ArrayLike | None, gamma: ArrayLike, lmbda: ArrayLike,
    rho_thresh: float, c_thresh: float, time_dim: int, *, weighted: bool = True, traced: bool = False,
) -> Advantage:  # fmt: skip
    """The common code: steps are `weighted` by the ratio of two policies, or only traces if `traced`."""
    gpu = gpu_of(
        stream,
        log_pi=log_pi,
        log_mu=log_mu,
        reward=reward,
        value=value,
        next_value=next_value,
        done=done,
        terminated=terminated,
        gamma=gamma,
        lmbda=lmbda,
    )
    rewards = number_array("reward", reward)
    learner: Array | None = None
    actor: Array | None = None
    if weighted:
        learner, actor = number_array("log_pi", log_pi), number_array("log_mu", log_mu)
        same_shape(rewards.shape, log_pi=learner, log_mu=actor)
    values, nexts = number_array("value", value), number_array("next_value", next_value)
    same_shape(rewards.shape, value=values, next_value=nexts)
    flags = flag_array("done", done)
    ends = with_features("done", flags, rewards.shape)
    stops = ends
    if terminated is not None:
        stops = with_features("terminated", flag_array("terminated", terminated), rewards.shape)
    walk = sequences_of(flags, rewards, time_dim, gpu)
    discounts = factor("gamma", number_array("gamma", gamma), walk)
    decay = number_array("lmbda", lmbda)
    mixes = factor("lmbda", decay, walk)
    if traced:  # these are the advantages of `gae` whose lambda is a step's own
        mixes, learner, actor = walk.traces(decay, learner, actor), None, None
    work = work_dtype(rewards, values, nexts, *(a for a in (learner, actor) if a is not None))
    dtype = result_dtype(values)
    advantage, advantage_out = walk.empty(work, dtype)
    target, target_out = walk.empty(work, dtype)
    if advantage.size:
        walk.run(
            "advantages", walk.operand(rewards, work), walk.operand(values, work), walk.operand(nexts, work),
            walk.operand(ends, np.bool_), walk.operand(stops, np.bool_), walk.weights(work, learner, actor),
            discounts, mixes, rho_thresh, c_thresh, learner is not None, advantage_out, target_out,
        )  # fmt: skip
    return Advantage(as_result(advantage, dtype), as_result(target, dtype))
