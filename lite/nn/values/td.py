"""TD0Estimator, TD1Estimator and TDLambdaEstimator: one-step returns, full returns, and lambda returns."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from lite import TensorDictBase
from lite._arrays.public import belong_to
from lite._arrays.types import is_interpreted
from lite.kernels import td0_return, td_lambda_return
from lite.kernels.returns import result_dtype
from lite.nn._modules.module import Module
from lite.nn.tensordict_modules.dispatch import dispatch
from lite.nn.values.base import Array, Options, ValueEstimatorBase, Writes, as_number, next_path
from lite.nn.values.standardize import standardized


class _ReturnEstimator(ValueEstimatorBase):
    """Base of the three estimators: the target is a return, the advantage is the target minus the value."""

    _smallest = 1e-5  # deviation of rewards
    _has_gradients = True

    def __init__(
        self, *, gamma: ArrayLike, value_network: Module | None, average_rewards: bool = False,
        **options: Unpack[Options],
    ) -> None:  # fmt: skip
        super().__init__(value_network=value_network, **options)
        self._factor("gamma", gamma)
        self.average_rewards = average_rewards

    @dispatch
    def forward(
        self,
        tensordict: TensorDictBase,
        *,
        params: TensorDictBase | None = None,
        target_params: TensorDictBase | None = None,
    ) -> Any:
        """Write advantages, targets and the network's values to `tensordict`, and return it.

        Args:
            tensordict: a rollout, as `ValueEstimatorBase` describes it. Its entries may also be given as
                keywords, `obs=..., next_reward=...`; then the advantages and targets are returned.
            params: parameters for the value network, instead of its own.
            target_params: parameters for the values of next observations; `params`, if None.

        Raises:
            KeyError: rewards, done or an input of the network is missing.
            RuntimeError: no batch dimension, or shapes that differ.
            TypeError: the input is not a TensorDict, or an entry is not an array.
            ValueError: there are no values and no network, `target_params` without `params`.
        """
        self._require_rollout(tensordict)
        time_dim = self._time(tensordict)
        (value, next_value, valid), writes = self._values(tensordict, time_dim, params, target_params)
        target, averaged = self._target(tensordict, next_value, valid, time_dim)
        self._require_one_shape(value, targets=target)
        return tensordict.update(writes | averaged | self._estimated(target - value, target, valid))

    def value_estimate(
        self,
        tensordict: TensorDictBase,
        target_params: TensorDictBase | None = None,
        next_value: Array | None = None,
        time_dim: int | None = None,
        **kwargs: Any,
    ) -> Array:
        """The targets alone. Nothing is written, except rewards with `average_rewards`.

        Args:
            tensordict: as for `forward`; what the network reads is needed under `"next"` only.
            target_params: parameters for the value network, instead of its own.
            next_value: the values of the next observations; then the network is not called.
            time_dim: the batch dimension that is time.
            **kwargs: accepted without effect.

        Returns:
            An array of the shape of the rewards, of the values' floating type.

        Raises:
            KeyError, RuntimeError, TypeError, ValueError: as for `forward`.
        """
        self._require_rollout(tensordict)
        if next_value is None:
            next_value = self._next_value(tensordict, target_params)
        valid = tensordict.get("shifted_valid", None)
        target, averaged = self._target(tensordict, next_value, valid, self._time(tensordict, time_dim))
        if averaged:
            tensordict.update(averaged)
        return target

    def _target(
        self, tensordict: TensorDictBase, next_value: Array, valid: Array | None, time_dim: int
    ) -> tuple[Array, Writes]:
        """The targets, and the entries to write: standardized rewards, with `average_rewards`."""
        reward, done, terminated = self._signals(tensordict, valid, time_dim)
        self._require_one_shape(next_value, rewards=reward, done=done, terminated=terminated)
        gamma, averaged = self._discount(tensordict, reward), {}
        if self.average_rewards:
            reward = standardized(reward, self._groups(tensordict), smallest=self._smallest)
            averaged = {next_path(self.tensor_keys.reward): reward}
        return self._return(reward, next_value, done, terminated, gamma=gamma, time_dim=time_dim), averaged

    def _return(self, *steps: Array, gamma: float | Array, time_dim: int) -> Array:
        """The targets; `steps` are rewards, values of the next observations, done and terminated."""
        raise NotImplementedError


class TD0Estimator(_ReturnEstimator):
    """Advantages and targets of one step: r + gamma V', where V' is the next value, or 0 after a termination.

    Args:
        gamma: discount in [0, 1], a number or an array that broadcasts to the rewards.
        value_network: None, or as in `ValueEstimatorBase`, which has the other options and says what is
            read and written.
        average_rewards: standardize the rewards first, in the TensorDict, too.

    Raises:
        RuntimeError, TypeError, ValueError: as for `ValueEstimatorBase`.

    Source:
        Sutton (1988), Learning to predict by the methods of temporal differences; TorchRL's class.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import TD0Estimator
        >>> from lite.nn import TensorDictModule
        >>> value = TensorDictModule(lambda obs: obs * 10, ["obs"], ["state_value"])
        >>> end, cut = np.array([[0], [0], [1]], bool), np.array([[0], [1], [1]], bool)
        >>> steps = {"obs": np.array([[1.0], [2], [1]]), "next": {"obs": np.array([[2.0], [3], [2]])}}
        >>> td = TensorDict(steps, batch_size=[3])
        >>> td["next", "reward"], td["next", "done"], td["next", "terminated"] = np.ones((3, 1)), cut, end
        >>> TD0Estimator(gamma=0.5, value_network=value)(td)["value_target"].ravel().tolist()
        [11.0, 16.0, 1.0]
    """

    def _return(self, *steps: Array, gamma: float | Array, time_dim: int) -> Array:
        reward, next_value, _, terminated = steps
        if is_interpreted(reward) or is_interpreted(next_value):  # of a graph or vmap, which have no kernel
            ahead = np.where(terminated, 0, next_value)
            return _as_values(reward + _typed(gamma, next_value) * ahead, next_value)
        return td0_return(reward, next_value, terminated, gamma=gamma)


class TD1Estimator(_ReturnEstimator):
    """Advantages and full returns to the end of the episode, plus the next value if it was truncated.

    Args:
        gamma, value_network, average_rewards: as for `TD0Estimator`.
        time_dim: the batch dimension that is time. None: the one named "time", or the last.

    Raises:
        RuntimeError, TypeError, ValueError: as for `ValueEstimatorBase`.

    Source:
        As `TD0Estimator`.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import TD1Estimator
        >>> value, done = np.full(3, 8.0), np.array([False, True, False])
        >>> following = {"reward": np.ones(3), "done": done, "state_value": value}
        >>> td = TensorDict({"state_value": value, "next": following}, batch_size=[3])
        >>> TD1Estimator(gamma=0.5, value_network=None)(td)["value_target"]
        array([1.5, 1. , 5. ])
    """

    def __init__(
        self,
        *,
        gamma: ArrayLike,
        value_network: Module | None,
        average_rewards: bool = False,
        time_dim: int | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(gamma=gamma, value_network=value_network, average_rewards=average_rewards, **options)
        self.time_dim = time_dim

    def _return(self, *steps: Array, gamma: float | Array, time_dim: int) -> Array:
        return _returns(*steps, gamma=gamma, lmbda=1.0, time_dim=time_dim)


class TDLambdaEstimator(_ReturnEstimator):
    """Advantages and lambda returns: returns of all lengths, weighted by powers of lambda.

    Args:
        gamma, value_network, average_rewards: as for `TD0Estimator`.
        lmbda: weight of the longer returns in [0, 1], a number or an array that broadcasts to the rewards.
        vectorized: accepted without effect, as there is one implementation.
        time_dim: the batch dimension that is time. None: the one named "time", or the last.

    Raises:
        RuntimeError, TypeError, ValueError: as for `ValueEstimatorBase`.

    Source:
        Sutton and Barto (2018), Reinforcement Learning, section 12.1; TorchRL's class of this name.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import TDLambdaEstimator
        >>> value, done = np.full(3, 8.0), np.array([False, True, False])
        >>> following = {"reward": np.ones(3), "done": done, "state_value": value}
        >>> td = TensorDict({"state_value": value, "next": following}, batch_size=[3])
        >>> TDLambdaEstimator(gamma=0.5, lmbda=0.5, value_network=None)(td)["value_target"]
        array([3.25, 1.  , 5.  ])
    """

    _smallest = 1e-4

    def __init__(
        self,
        *,
        gamma: ArrayLike,
        lmbda: ArrayLike,
        value_network: Module | None,
        average_rewards: bool = False,
        vectorized: bool = True,
        time_dim: int | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(gamma=gamma, value_network=value_network, average_rewards=average_rewards, **options)
        self._factor("lmbda", lmbda)
        self.vectorized = vectorized
        self.time_dim = time_dim

    def _return(self, *steps: Array, gamma: float | Array, time_dim: int) -> Array:
        return _returns(*steps, gamma=gamma, lmbda=as_number(self.lmbda), time_dim=time_dim)


def _returns(*steps: Array, gamma: float | Array, lmbda: float | Array, time_dim: int) -> Array:
    """`td_lambda_return`, step by step for arrays of a gradient, a graph or `vmap`, which have no kernel."""
    reward, next_value, done, terminated = steps
    plain = type(reward) is type(next_value) is type(done) is type(terminated) is np.ndarray
    if plain or not any(map(is_interpreted, steps)):
        return td_lambda_return(*steps, gamma=gamma, lmbda=lmbda, time_dim=time_dim)
    times = reward.shape[time_dim]
    if type(times) is not int:  # a dynamic size: seconds of tracing, and then no graph
        from lite._transforms.graphs.graph import OneSizeError  # loaded by who traces

        raise OneSizeError("cannot be traced: an estimator loops over time, which must not be dynamic.")
    factors = [np.broadcast_to(_typed(x, next_value), reward.shape) for x in (gamma, lmbda)]
    ahead = np.where(terminated, 0, next_value)
    if not times:
        return _as_values(reward + ahead, next_value)  # of no steps
    rows = [np.moveaxis(x, time_dim, 0) for x in (reward, ahead, done, *factors)]
    following, found = rows[1][-1], []
    for t in reversed(range(times)):
        now, after, ends, discount, decay = (x[t] for x in rows)
        following = np.where(ends, after, following)
        following = now + discount * ((1 - decay) * after + decay * following)
        found.append(following)
    return _as_values(np.moveaxis(np.stack(found[::-1]), 0, time_dim), next_value)


def _typed(factor: Any, value: Array) -> Any:
    """A discount in the type of the values, which targets have; in float64, if these are integers."""
    dtype = np.dtype(float) if value.dtype.kind in "biu" else value.dtype
    return np.asarray(factor, dtype) if type(factor) is float else factor.astype(dtype)


def _as_values(target: Array, value: Array) -> Array:
    """Targets in the floating type of the values, as kernels give them."""
    return target.astype(result_dtype(value), copy=False)


belong_to("lite.nn.values", TD0Estimator, TD1Estimator, TDLambdaEstimator)
