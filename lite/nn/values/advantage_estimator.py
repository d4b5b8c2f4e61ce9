"""Base of `GAE`, `VTrace` and `Retrace`: one kernel computes advantages and targets."""

from __future__ import annotations

from typing import Any

from lite import TensorDictBase
from lite.kernels import Advantage
from lite.nn.tensordict_modules.dispatch import dispatch
from lite.nn.values.base import Array, ValueEstimatorBase, Writes


class AdvantageEstimator(ValueEstimatorBase):
    """Base of the estimators of advantages; subclasses compute and average them."""

    @dispatch
    def forward(
        self,
        tensordict: TensorDictBase,
        *,
        params: TensorDictBase | None = None,
        target_params: TensorDictBase | None = None,
        time_dim: int | None = None,
    ) -> Any:
        """Write advantages and targets, and the values they are made from, to `tensordict`, and return it.

        Args:
            tensordict: a rollout, as `ValueEstimatorBase` describes it; for `VTrace` and `Retrace` with the
                actions and their log-probs under the policy that acted. Its entries may also be given as
                keywords, `obs=..., next_reward=...`; then the advantages and targets are returned.
            params: parameters for the value network, instead of its own.
            target_params: those for the values of next observations; `params`, if None.
            time_dim: the batch dimension that is time, instead of the module's.

        Raises:
            KeyError: rewards, done, log-probs or an input of a network is missing.
            RuntimeError: no batch dimension, or shapes that differ.
            TypeError: the input is not a TensorDict, or an entry is not an array.
            ValueError: no values and no network, no such time_dim, `target_params` without `params`.
        """
        found, valid, writes = self._estimates(tensordict, params, target_params, time_dim)
        advantage = self._averaged(found.advantage, valid, tensordict)
        return tensordict.update(writes | self._estimated(advantage, found.value_target, valid))

    def value_estimate(
        self,
        tensordict: TensorDictBase,
        params: TensorDictBase | None = None,
        target_params: TensorDictBase | None = None,
        time_dim: int | None = None,
        **kwargs: Any,
    ) -> Array:
        """The targets alone; only the values are written. Arguments and errors are those of `forward`."""
        found, _, writes = self._estimates(tensordict, params, target_params, time_dim)
        tensordict.update(writes)
        return found.value_target

    def _estimates(
        self,
        tensordict: TensorDictBase,
        params: TensorDictBase | None,
        target_params: TensorDictBase | None,
        time_dim: int | None,
    ) -> tuple[Advantage, Array | None, Writes]:
        """Advantages and targets, which steps have values (None: all), and the values to be written."""
        raise NotImplementedError

    def _averaged(self, advantage: Array, valid: Array | None, tensordict: TensorDictBase) -> Array:
        """The advantages, standardized if the module is to do that."""
        raise NotImplementedError
