"""The value estimators under TorchRL's names, argument orders and time axis, in terms of ours.

They differ from the functions they call in the order of arguments and in that time is the axis before
the features: `time_dim` is -2. The `vec_` variants that TorchRL has for speed are the same functions.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike, NDArray

from lite.kernels.advantages import Advantage, gae, vtrace
from lite.kernels.returns import reward_to_go, td0_return, td_lambda_return


def generalized_advantage_estimate(
    gamma: ArrayLike, lmbda: ArrayLike, state_value: ArrayLike, next_state_value: ArrayLike,
    reward: ArrayLike, done: ArrayLike, terminated: ArrayLike | None = None, *, time_dim: int = -2,
) -> Advantage:  # fmt: skip
    """`lite.kernels.gae` of arrays `(*batch, time, features)`.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import generalized_advantage_estimate
        >>> one, done = np.ones((3, 1)), np.zeros((3, 1), bool)
        >>> advantage, target = generalized_advantage_estimate(0.5, 0.5, one, one, one, done)
        >>> advantage[:, 0].tolist()
        [0.65625, 0.625, 0.5]
    """
    return gae(
        reward, state_value, next_state_value, done, terminated, gamma=gamma, lmbda=lmbda, time_dim=time_dim
    )


def td0_return_estimate(
    gamma: ArrayLike, next_state_value: ArrayLike, reward: ArrayLike, terminated: ArrayLike | None = None, *,
    done: ArrayLike | None = None,
) -> NDArray[Any]:  # fmt: skip
    """`lite.kernels.td0_return`; `done` stands in for a missing `terminated`.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import td0_return_estimate
        >>> td0_return_estimate(0.5, np.full((2, 1), 8.0), np.ones((2, 1)), np.array([[False], [True]]))
        array([[5.],
               [1.]])
    """
    ends = done if terminated is None else terminated
    if ends is None:
        raise TypeError("td0_return_estimate needs terminated, or done in its place; got neither")
    return td0_return(reward, next_state_value, ends, gamma=gamma)


def td0_advantage_estimate(
    gamma: ArrayLike, state_value: ArrayLike, next_state_value: ArrayLike, reward: ArrayLike, done: ArrayLike,
    terminated: ArrayLike | None = None,
) -> NDArray[Any]:  # fmt: skip
    """`td0_return_estimate` less the value of each step's observation.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import td0_advantage_estimate
        >>> one = np.ones((1, 1))
        >>> td0_advantage_estimate(0.5, one, one, one, np.array([[False]]))
        array([[0.5]])
    """
    return td0_return_estimate(gamma, next_state_value, reward, terminated, done=done) - state_value


def td_lambda_return_estimate(
    gamma: ArrayLike, lmbda: ArrayLike, next_state_value: ArrayLike, reward: ArrayLike, done: ArrayLike,
    terminated: ArrayLike | None = None, rolling_gamma: bool | None = None, *, time_dim: int = -2,
) -> NDArray[Any]:  # fmt: skip
    """`lite.kernels.td_lambda_return` of arrays `(*batch, time, features)`.

    `rolling_gamma=False` is its `rolling=False`.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import td_lambda_return_estimate
        >>> one, done = np.ones((3, 1)), np.zeros((3, 1), bool)
        >>> td_lambda_return_estimate(0.5, 0.5, one, one, done)[:, 0].tolist()
        [1.65625, 1.625, 1.5]
    """
    return td_lambda_return(
        reward,
        next_state_value,
        done,
        terminated,
        gamma=gamma,
        lmbda=lmbda,
        time_dim=time_dim,
        rolling=rolling_gamma is not False,
    )


def td_lambda_advantage_estimate(
    gamma: ArrayLike, lmbda: ArrayLike, state_value: ArrayLike, next_state_value: ArrayLike,
    reward: ArrayLike, done: ArrayLike, terminated: ArrayLike | None = None,
    rolling_gamma: bool | None = None, time_dim: int = -2,
) -> NDArray[Any]:  # fmt: skip
    """`td_lambda_return_estimate` less the value of each step's observation.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import td_lambda_advantage_estimate
        >>> one, done = np.ones((3, 1)), np.zeros((3, 1), bool)
        >>> td_lambda_advantage_estimate(0.5, 0.5, one, one, one, done)[:, 0].tolist()
        [0.65625, 0.625, 0.5]
    """
    return (
        td_lambda_return_estimate(
            gamma, lmbda, next_state_value, reward, done, terminated, rolling_gamma, time_dim=time_dim
        )
        - state_value
    )


def td1_return_estimate(
    gamma: ArrayLike, next_state_value: ArrayLike, reward: ArrayLike, done: ArrayLike,
    terminated: ArrayLike | None = None, rolling_gamma: bool | None = None, time_dim: int = -2,
) -> NDArray[Any]:  # fmt: skip
    """`td_lambda_return_estimate` with lambda 1.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import td1_return_estimate
        >>> one, done = np.ones((3, 1)), np.zeros((3, 1), bool)
        >>> td1_return_estimate(0.5, one, one, done)[:, 0].tolist()
        [1.875, 1.75, 1.5]
    """
    return td_lambda_return_estimate(
        gamma, 1.0, next_state_value, reward, done, terminated, rolling_gamma, time_dim=time_dim
    )


def td1_advantage_estimate(
    gamma: ArrayLike, state_value: ArrayLike, next_state_value: ArrayLike, reward: ArrayLike, done: ArrayLike,
    terminated: ArrayLike | None = None, rolling_gamma: bool | None = None, time_dim: int = -2,
) -> NDArray[Any]:  # fmt: skip
    """`td1_return_estimate` less the value of each step's observation.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import td1_advantage_estimate
        >>> one, done = np.ones((3, 1)), np.zeros((3, 1), bool)
        >>> td1_advantage_estimate(0.5, one, one, one, done)[:, 0].tolist()
        [0.875, 0.75, 0.5]
    """
    return td_lambda_advantage_estimate(
        gamma, 1.0, state_value, next_state_value, reward, done, terminated, rolling_gamma, time_dim
    )


def vtrace_advantage_estimate(
    gamma: ArrayLike, log_pi: ArrayLike, log_mu: ArrayLike, state_value: ArrayLike,
    next_state_value: ArrayLike, reward: ArrayLike, done: ArrayLike, terminated: ArrayLike | None = None,
    rho_thresh: float = 1.0, c_thresh: float = 1.0, time_dim: int = -2,
) -> Advantage:  # fmt: skip
    """`lite.kernels.vtrace` of arrays `(*batch, time, features)`; `log_pi` is of the policy that learns.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import vtrace_advantage_estimate
        >>> one, done = np.ones((3, 1)), np.zeros((3, 1), bool)
        >>> advantage, target = vtrace_advantage_estimate(0.5, one, one, one, one, one, done)
        >>> target[:, 0].tolist()
        [1.875, 1.75, 1.5]
    """
    return vtrace(
        log_pi,
        log_mu,
        reward,
        state_value,
        next_state_value,
        done,
        terminated,
        gamma=gamma,
        rho_thresh=rho_thresh,
        c_thresh=c_thresh,
        time_dim=time_dim,
    )


def reward2go(reward: ArrayLike, done: ArrayLike, gamma: ArrayLike, *, time_dim: int = -2) -> NDArray[Any]:
    """`lite.kernels.reward_to_go` of arrays `(*batch, time, features)`.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import reward2go
        >>> reward2go(np.ones((3, 1)), np.array([[False], [True], [False]]), 0.5)[:, 0].tolist()
        [1.5, 1.0, 1.0]
    """
    return reward_to_go(reward, done, gamma=gamma, time_dim=time_dim)


vec_generalized_advantage_estimate = generalized_advantage_estimate
vec_td1_return_estimate = td1_return_estimate
vec_td1_advantage_estimate = td1_advantage_estimate
vec_td_lambda_return_estimate = td_lambda_return_estimate
vec_td_lambda_advantage_estimate = td_lambda_advantage_estimate
