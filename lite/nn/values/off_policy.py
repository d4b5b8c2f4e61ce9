"""VTrace and Retrace: off-policy estimators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import ArrayLike

from lite import NestedKey, TensorDictBase
from lite._arrays.public import belong_to
from lite._tree.collection import TensorCollection
from lite.kernels import Advantage, retrace, vtrace
from lite.nn._modules.module import Module
from lite.nn.values.base import AcceptedKeys, AdvantageEstimator, Array, Options, Writes, as_number
from lite.nn.values.entries import detached
from lite.nn.values.standardize import standardized


class _OffPolicyEstimator(AdvantageEstimator):
    """Base of both estimators: log-probs of the actions under the learned policy and the behaviour policy."""

    def __init__(
        self, *, gamma: ArrayLike, actor_network: Module, value_network: Module | None,
        average_adv: bool = False, time_dim: int | None = None, **options: Unpack[Options],
    ) -> None:  # fmt: skip
        super().__init__(value_network=value_network, **options)
        self._factor("gamma", gamma)
        if self.gamma.ndim:
            raise NotImplementedError(f"gamma must be a number, got an array of shape {self.gamma.shape}.")
        if not callable(getattr(actor_network, "log_prob", None)):
            raise TypeError(
                "actor_network must be a module with log_prob, such as a ProbabilisticTensorDictSequential, "
                f"got {type(actor_network).__name__}."
            )
        self.average_adv = average_adv
        self.actor_network = actor_network
        self.time_dim = time_dim

    @property
    def in_keys(self) -> list[NestedKey]:  # type: ignore[override]
        """The keys of all estimators, the log-prob of the actions, and the actor's inputs."""
        keys = [*super().in_keys, self._log_prob_key]
        return [*keys, *(key for key in self._actor_keys() if key not in keys)]

    @property
    def _log_prob_key(self) -> NestedKey:
        key = self.tensor_keys.sample_log_prob
        assert key is not None  # the default depends on a setting, and is filled in
        return key

    def _averaged(self, advantage: Array, valid: Array | None, tensordict: TensorDictBase) -> Array:
        if not self.average_adv:
            return advantage
        return standardized(advantage, self._groups(tensordict), smallest=1e-5)

    def _estimates(
        self,
        tensordict: TensorDictBase,
        params: TensorDictBase | None,
        target_params: TensorDictBase | None,
        time_dim: int | None,
    ) -> tuple[Advantage, Array | None, Writes]:
        self._require_rollout(tensordict)
        time_dim = self._time(tensordict, time_dim)
        log_mu = tensordict.get(self._log_prob_key, None)
        if log_mu is None:
            raise KeyError(
                f"{self.__name__} reads the log-prob of the actions from {self._log_prob_key!r}, which "
                "the TensorDict lacks."
            )
        keys = self._value_keys()
        values, writes = self._values(tensordict, time_dim, params, target_params, keys)
        value, next_value, valid = values
        reward, done, terminated = self._signals(tensordict, valid, time_dim)
        self._require_one_shape(
            value, next_values=next_value, rewards=reward, done=done, terminated=terminated
        )
        log_pi = detached(self.actor_network.log_prob(tensordict.select(*self._actor_keys(), strict=False)))
        size = tuple(tensordict.batch_size)
        arrays = _one_each(log_pi, size, value), _one_each(log_mu, size, value), reward, value, next_value
        found = self._kernel(
            *arrays, done, terminated, gamma=self._discount(tensordict, reward), time_dim=time_dim
        )
        return found, valid, writes

    def _actor_keys(self) -> list[NestedKey]:
        actor = self.actor_network
        return [*actor.in_keys, *getattr(actor, "dist_sample_keys", actor.out_keys)]

    def _value_keys(self) -> tuple[NestedKey, NestedKey]:
        return self.tensor_keys.value, self.tensor_keys.value

    def _kernel(self, *arrays: Array, gamma: float | Array, time_dim: int) -> Advantage:
        raise NotImplementedError


class VTrace(_OffPolicyEstimator):
    """Value targets and advantages of a policy from steps of a behaviour policy: see `lite.kernels.vtrace`.

    Args:
        gamma: discount in [0, 1], a number.
        actor_network: the learned policy, whose `log_prob(tensordict)` gives log-probs of the actions.
        value_network: None, or as in `ValueEstimatorBase`, which has the other options.
        rho_thresh, c_thresh: upper limits of the importance weights of steps and of traces.
        average_adv: standardize the advantages.
        time_dim: the batch dimension that is time. None: the one named "time", or the last.

    The log-probs of the behaviour policy are read from `tensor_keys.sample_log_prob`, one for each step.

    Raises:
        NotImplementedError: gamma is not a number.
        RuntimeError, TypeError, ValueError: as for `ValueEstimatorBase`.

    Source:
        Espeholt et al. (2018), IMPALA (arXiv:1802.01561); TorchRL's class of this name.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> from lite.data import VTrace
        >>> from lite.nn.distributions import Categorical
        >>> actor = nn.ProbabilisticTensorDictSequential(
        ...     nn.TensorDictModule(lambda obs: np.repeat(obs, 2, -1), ["obs"], ["logits"]),
        ...     nn.ProbabilisticTensorDictModule(["logits"], ["action"], distribution_class=Categorical),
        ... )
        >>> value = nn.TensorDictModule(lambda obs: obs, ["obs"], ["state_value"])
        >>> one = np.ones((3, 1), np.float32)
        >>> after = {"obs": one, "reward": one, "done": np.zeros((3, 1), bool)}
        >>> td = TensorDict(obs=one, action=np.array([0, 1, 1]), next=after, batch_size=[3])
        >>> was = np.array([0.25, 0.5, 1.0], np.float32)  # the actor now: twice, as likely, half as likely
        >>> td["action_log_prob"] = np.log(was)
        >>> VTrace(gamma=0.5, actor_network=actor, value_network=value)(td)["value_target"].ravel().tolist()
        [1.8125, 1.625, 1.25]
    """

    def __init__(
        self,
        *,
        gamma: ArrayLike,
        actor_network: Module,
        value_network: Module | None,
        rho_thresh: ArrayLike = 1.0,
        c_thresh: ArrayLike = 1.0,
        average_adv: bool = False,
        time_dim: int | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(
            gamma=gamma,
            actor_network=actor_network,
            value_network=value_network,
            average_adv=average_adv,
            time_dim=time_dim,
            **options,
        )
        self._factor("rho_thresh", rho_thresh)
        self._factor("c_thresh", c_thresh)

    def _kernel(self, *arrays: Array, gamma: float | Array, time_dim: int) -> Advantage:
        thresholds = {"rho_thresh": float(self.rho_thresh), "c_thresh": float(self.c_thresh)}
        return vtrace(*arrays, gamma=gamma, time_dim=time_dim, **thresholds)


@dataclass
class RetraceKeys(AcceptedKeys):
    """The keys of `Retrace`, which reads the value of the action, too."""

    action_value: NestedKey = "state_action_value"


class Retrace(_OffPolicyEstimator):
    """Targets for action values from steps of a behaviour policy: see `lite.kernels.retrace`.

    Args:
        gamma: discount in [0, 1], a number.
        actor_network: as for `VTrace`.
        value_network: None, or a module that writes two values: `"state_action_value"`, of the action in the
            TensorDict, and `"state_value"`, the mean under the policy, which must not depend on the action.
        lmbda: decay of the traces in [0, 1], a number or an array that broadcasts to the rewards.
        average_adv: standardize the advantages.
        time_dim: the batch dimension that is time. None: the one named "time", or the last.

    The log-probs are read as by `VTrace`.

    Raises:
        NotImplementedError: gamma is not a number.
        RuntimeError, TypeError, ValueError: as for `ValueEstimatorBase`; an actor without `log_prob`.

    Source:
        Munos et al. (2016), Safe and efficient off-policy reinforcement learning (arXiv:1606.02647).

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> from lite.data import Retrace
        >>> from lite.nn.distributions import Categorical
        >>> actor = nn.ProbabilisticTensorDictSequential(
        ...     nn.TensorDictModule(lambda obs: np.repeat(obs, 2, -1), ["obs"], ["logits"]),
        ...     nn.ProbabilisticTensorDictModule(["logits"], ["action"], distribution_class=Categorical),
        ... )
        >>> one = np.ones((3, 1), np.float32)
        >>> after = {"obs": one, "state_value": one, "reward": one, "done": np.zeros((3, 1), bool)}
        >>> td = TensorDict({"obs": one, "state_action_value": one, "next": after}, batch_size=[3])
        >>> td["action"] = np.array([0, 1, 1])
        >>> td["action_log_prob"] = np.log(np.array([0.5, 1.0, 0.25], np.float32))
        >>> Retrace(gamma=0.5, actor_network=actor, value_network=None)(td)["value_target"].ravel().tolist()
        [1.6875, 1.75, 1.5]
    """

    default_keys: ClassVar[type[AcceptedKeys]] = RetraceKeys
    tensor_keys: RetraceKeys

    def __init__(
        self,
        *,
        gamma: ArrayLike,
        actor_network: Module,
        value_network: Module | None,
        lmbda: ArrayLike = 1.0,
        average_adv: bool = False,
        time_dim: int | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(
            gamma=gamma,
            actor_network=actor_network,
            value_network=value_network,
            average_adv=average_adv,
            time_dim=time_dim,
            **options,
        )
        self._factor("lmbda", lmbda)

    def _value_keys(self) -> tuple[NestedKey, NestedKey]:
        return self.tensor_keys.action_value, self.tensor_keys.value

    def _kernel(self, *arrays: Array, gamma: float | Array, time_dim: int) -> Advantage:
        return retrace(*arrays, gamma=gamma, lmbda=as_number(self.lmbda), time_dim=time_dim)


def _one_each(log_probs: Array | TensorCollection, size: tuple[int, ...], value: Array) -> Array:
    """Log-probs of the shape of the values; those of an action's parts are summed."""
    if isinstance(log_probs, TensorCollection):
        parts: Any = log_probs
        leaves = parts.values(include_nested=True, leaves_only=True)
        log_probs = sum(leaf.sum(axis=tuple(range(len(size), leaf.ndim))) for leaf in leaves)
    log_probs = np.asarray(log_probs)
    if log_probs.size != value.size:
        raise RuntimeError(
            f"log-probs must be as many as the values, got {log_probs.shape} and {value.shape}."
        )
    return log_probs.reshape(value.shape)


belong_to("lite.nn.values", Retrace, VTrace)
